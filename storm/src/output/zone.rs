//! The time zone in which people are shown times.

use jiff::tz::TimeZone;
use std::cell::OnceCell;

/// A time zone that is looked up when it is first needed: to find the user's takes
/// reading a hundred files, and most answers have no time in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone(OnceCell<TimeZone>);

impl Zone {
    /// The user's.
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
