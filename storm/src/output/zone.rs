//! The time zone of times that users see.

use jiff::tz::TimeZone;
use std::cell::OnceCell;

/// A time zone that is found on first use. Finding the user's zone reads a hundred files, and most
/// answers contain no time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone(OnceCell<TimeZone>);

impl Zone {
    /// The user's zone.
    pub(crate) fn of_user() -> Zone {
        Zone::default()
    }

    pub(crate) fn get(&self) -> &TimeZone {
        self.0.get_or_init(TimeZone::system)
    }
}

#[cfg(test)]
impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Zone {
        Zone(OnceCell::from(zone))
    }
}
