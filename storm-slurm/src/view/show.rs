//! The surroundings in which facts become text.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Settings that the text of a field depends on, besides the facts.
#[derive(Clone, Debug)]
pub struct Show {
    /// The zone of the times that users see.
    pub zone: TimeZone,
    /// The form of these times (`SLURM_TIME_FORMAT`).
    pub time_format: TimeFormat,
    /// The present.
    pub now: Timestamp,
    /// Whether sizes are converted to a larger unit; false after `--noconvert`.
    pub convert: bool,
    /// The cluster's name.
    pub cluster: String,
    /// The most characters of an array's list of indices (`SLURM_BITSTR_LEN`); `None` is no limit.
    pub index_chars: Option<usize>,
}

impl Show {
    /// Slurm's default for [`index_chars`](Self::index_chars).
    pub const INDEX_CHARS: usize = 64;

    /// Slurm's defaults: standard times, units converted, short index lists.
    pub fn new(zone: TimeZone, now: Timestamp, cluster: &str) -> Show {
        Show {
            zone,
            time_format: TimeFormat::Standard,
            now,
            convert: true,
            cluster: cluster.to_owned(),
            index_chars: Some(Self::INDEX_CHARS),
        }
    }

    /// The time as a user sees it.
    pub fn time(&self, time: Timestamp) -> String {
        let zoned = time.to_zoned(self.zone.clone());
        let standard = || zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        match &self.time_format {
            TimeFormat::Standard => standard(),
            TimeFormat::Relative => self.relative(&zoned),
            TimeFormat::Custom(format) => {
                jiff::fmt::strtime::format(format, &zoned).unwrap_or_else(|_| standard())
            }
        }
    }

    /// The present as `ctime(3)` writes it, for the first line of a long listing.
    pub fn date_line(&self) -> String {
        self.now.to_zoned(self.zone.clone()).strftime("%a %b %e %H:%M:%S %Y").to_string()
    }

    /// The form of `SLURM_TIME_FORMAT=relative` (squeue(1)).
    fn relative(&self, time: &jiff::Zoned) -> String {
        let today = self.now.to_zoned(self.zone.clone()).date();
        let days = time.date().since(today).map_or(0, |span| span.get_days());
        let format = match days {
            0 => "%H:%M:%S",
            1 => "Tomorr %H:%M",
            -1 => "Ystday %H:%M",
            2..7 => "%a %H:%M",
            _ if time.year() == today.year() => "%-d %b %H:%M",
            _ => "%-d %b %Y",
        };
        time.strftime(format).to_string()
    }
}

/// The form of the times that users see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// `2026-12-24T08:00:00`.
    Standard,
    /// Short for times close to the present.
    Relative,
    /// A format of `strftime(3)`.
    Custom(String),
}

impl TimeFormat {
    /// Reads the value of `SLURM_TIME_FORMAT`.
    pub fn of(value: &str) -> TimeFormat {
        match value {
            "" | "standard" => TimeFormat::Standard,
            "relative" => TimeFormat::Relative,
            custom => TimeFormat::Custom(custom.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    #[test]
    fn times_have_the_form_that_the_user_chose() {
        let now = time("2026-11-28T22:26:00Z");
        let mut show = Show::new(TimeZone::UTC, now, "c");
        let at = time("2026-11-28T22:22:13Z");
        assert_eq!(show.time(at), "2026-11-28T22:22:13");
        assert_eq!(show.date_line(), "Sat Nov 28 22:26:00 2026");
        show.time_format = TimeFormat::of("%H");
        assert_eq!(show.time(at), "22");
        show.time_format = TimeFormat::of("relative");
        for (text, shown) in [
            ("2026-11-28T22:22:13Z", "22:22:13"),
            ("2026-11-29T00:22:13Z", "Tomorr 00:22"),
            ("2026-11-27T23:00:00Z", "Ystday 23:00"),
            ("2026-12-01T08:00:00Z", "Tue 08:00"),
            ("2026-04-25T08:00:00Z", "25 Apr 08:00"),
            ("2012-06-06T08:00:00Z", "6 Jun 2012"),
        ] {
            assert_eq!(show.time(time(text)), shown, "{text}");
        }
    }
}
