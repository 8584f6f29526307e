//! The earliest time at which a job may begin, as Slurm writes it (sbatch(1), --begin).

use crate::duration::parse_time;
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use thiserror::Error;

/// The text is not a time to begin at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotABegin {
    /// The text has none of the forms.
    #[error(
        "{0:?} is not a time: use now+1hour, now+90s, 16:00, midnight, noon, today, tomorrow, \
         2026-12-24, 2026-12-24T08:00 or 2026-12-24T08:00Z"
    )]
    NoTime(String),
    /// A bare number may be a year, an hour or a delay.
    #[error("{0} alone is not a time: use now+{0} for {0} seconds from now, or a time as 16:00")]
    Number(String),
}

/// The instant that the text means at `now`, in its time zone. A time without a date is its next
/// occurrence.
pub(crate) fn parse_begin(text: &str, now: &Zoned) -> Result<Timestamp, NotABegin> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let refused = if is_number { NotABegin::Number } else { NotABegin::NoTime };
    let found = meant(text, now).or_else(|| dated(text, now, Missing::Coming));
    found.ok_or_else(|| refused(text.to_owned()))
}

/// The year of a date that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The date is today or coming.
    Coming,
    /// The date is today or past.
    Past,
}

/// Slurm's dates `MMDD[YY]`, `MM/DD[/YY]` and `MM.DD[.YY]`, which a time may follow behind a dash
/// or a `T`, and `YYYY-MM-DDTH:MM`.
pub(crate) fn dated(text: &str, now: &Zoned, missing: Missing) -> Option<Timestamp> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None if text.contains(['/', '.']) => match text.split_once('-') {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        },
        None => (text, None),
    };
    if date.contains(' ') {
        return None;
    }
    let time = time.map_or(Some(Time::midnight()), clock)?;
    let date = if date.contains('-') { date.parse().ok()? } else { day(date, now, missing)? };
    instant(date.to_datetime(time), now)
}

/// A day as month, day and maybe year.
fn day(text: &str, now: &Zoned, missing: Missing) -> Option<Date> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = match text.find(['/', '.']) {
        Some(_) => text.split(['/', '.']).collect(),
        None if digits && text.len() == 4 => vec![&text[..2], &text[2..]],
        None if digits && text.len() == 6 => vec![&text[..2], &text[2..4], &text[4..]],
        None => return None,
    };
    let number = |part: &&str| part.parse::<i16>().ok().filter(|number| *number >= 0);
    let (month, day, year) = match parts.iter().map(number).collect::<Option<Vec<_>>>()?[..] {
        [month, day] => (month, day, None),
        [month, day, year] => (month, day, Some(if year < 100 { 2000 + year } else { year })),
        _ => return None,
    };
    let of = |year| Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok();
    let (this, today) = (now.year(), now.date());
    match (year, missing) {
        (Some(year), _) => of(year),
        (None, Missing::Coming) => of(this).filter(|date| *date >= today).or_else(|| of(this + 1)),
        (None, Missing::Past) => of(this).filter(|date| *date <= today).or_else(|| of(this - 1)),
    }
}

/// A time of day as `H:MM`, `HH:MM:SS` or `3:00pm`.
fn clock(text: &str) -> Option<Time> {
    let text = text.trim().to_ascii_lowercase();
    let (text, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(text), _) => (text.trim(), Some(0)),
        (None, Some(text)) => (text.trim(), Some(12)),
        (None, None) => (&*text, None),
    };
    let number = |part: &str| part.parse::<i8>().ok().filter(|number| *number >= 0);
    let fields: Vec<i8> = text.split(':').map(number).collect::<Option<_>>()?;
    let (hour, minute, second) = match fields[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(half) => hour % 12 + half,
        None => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

fn meant(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Some(delay) = text.strip_prefix("now") {
        return after(delay, now);
    }
    let of_day = |hour| Time::new(hour, 0, 0, 0).ok();
    match text {
        "midnight" => return next(of_day(0)?, now),
        "noon" => return next(of_day(12)?, now),
        "fika" => return next(of_day(15)?, now),
        "teatime" => return next(of_day(16)?, now),
        "today" => return Some(now.timestamp()),
        "tomorrow" => return instant(now.date().tomorrow().ok()?.at(0, 0, 0, 0), now),
        _ => {}
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    if let Ok(date) = text.parse::<Date>()
        && !text.contains(['T', ' '])
    {
        return instant(date.at(0, 0, 0, 0), now);
    }
    if let Ok(local) = text.parse::<DateTime>() {
        return instant(local, now);
    }
    clock(text).and_then(|time| next(time, now))
}

/// Reads `+1hour`, `+90` (seconds) or `+1h30m`.
fn after(delay: &str, now: &Zoned) -> Option<Timestamp> {
    let delay = delay.trim();
    if delay.is_empty() {
        return Some(now.timestamp());
    }
    let delay = delay.strip_prefix('+')?.trim();
    let digits = delay.find(|c: char| !c.is_ascii_digit()).unwrap_or(delay.len());
    let count = || delay[..digits].parse::<i64>().ok();
    let seconds = match &delay[digits..] {
        "" | "second" | "seconds" => count()?,
        "minute" | "minutes" => count()?.checked_mul(60)?,
        "hour" | "hours" => count()?.checked_mul(3_600)?,
        "day" | "days" => count()?.checked_mul(86_400)?,
        "week" | "weeks" => count()?.checked_mul(7 * 86_400)?,
        _ => {
            let delay = SignedDuration::try_from(parse_time(delay).ok()?).ok()?;
            return now.timestamp().checked_add(delay).ok();
        }
    };
    now.timestamp().checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// The next instant at which a clock shows this time.
fn next(time: Time, now: &Zoned) -> Option<Timestamp> {
    let today = instant(now.date().to_datetime(time), now)?;
    if today > now.timestamp() {
        return Some(today);
    }
    instant(now.date().checked_add(1.day()).ok()?.to_datetime(time), now)
}

fn instant(local: DateTime, now: &Zoned) -> Option<Timestamp> {
    local.to_zoned(now.time_zone().clone()).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::{TimeZone, offset};

    /// 2026-11-21, 15:30 at one hour east of Greenwich.
    fn now() -> Zoned {
        let local: DateTime = "2026-11-21T15:30:00".parse().expect("a time");
        local.to_zoned(TimeZone::fixed(offset(1))).expect("in range")
    }

    #[test]
    fn slurms_forms_mean_what_they_say() {
        for (text, expected) in [
            ("now", "2026-11-21T14:30:00Z"),
            ("now+1hour", "2026-11-21T15:30:00Z"),
            ("now+90", "2026-11-21T14:31:30Z"),
            ("now + 2 days", ""),
            ("now+2days", "2026-11-23T14:30:00Z"),
            ("now+1h30m", "2026-11-21T16:00:00Z"),
            ("16:00", "2026-11-21T15:00:00Z"),
            ("15:30", "2026-11-22T14:30:00Z"),
            ("08:15:30", "2026-11-22T07:15:30Z"),
            ("midnight", "2026-11-21T23:00:00Z"),
            ("noon", "2026-11-22T11:00:00Z"),
            ("teatime", "2026-11-21T15:00:00Z"),
            ("today", "2026-11-21T14:30:00Z"),
            ("tomorrow", "2026-11-21T23:00:00Z"),
            ("2026-12-24", "2026-12-23T23:00:00Z"),
            ("2026-12-24T08:00", "2026-12-24T07:00:00Z"),
            ("2026-12-24T08:00:30", "2026-12-24T07:00:30Z"),
            ("2026-12-24T08:00:00Z", "2026-12-24T08:00:00Z"),
            ("2026-12-24T0:20", "2026-12-23T23:20:00Z"),
            ("fika", "2026-11-22T14:00:00Z"),
            ("3:00pm", "2026-11-22T14:00:00Z"),
            ("12:10 AM", "2026-11-21T23:10:00Z"),
            ("0:20", "2026-11-21T23:20:00Z"),
            ("1130", "2026-11-29T23:00:00Z"),
            ("113027", "2027-11-29T23:00:00Z"),
            ("11/30", "2026-11-29T23:00:00Z"),
            ("11/21", "2026-11-20T23:00:00Z"),
            ("1/2", "2027-01-01T23:00:00Z"),
            ("11/30/26-00:20", "2026-11-29T23:20:00Z"),
            ("11.30.26", "2026-11-29T23:00:00Z"),
        ] {
            let parsed = parse_begin(text, &now()).map(|time| time.to_string());
            assert_eq!(parsed.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_times_are_refused() {
        for text in [
            "",
            "soon",
            "now-1hour",
            "now+",
            "now+1fortnight",
            "25:00",
            "16",
            "13:00pm",
            "2026-13-01",
            "13/01",
        ] {
            assert!(parse_begin(text, &now()).is_err(), "{text:?}");
        }
        let said = parse_begin("9999", &now()).expect_err("a number").to_string();
        assert!(said.starts_with("9999 alone is not a time: use now+9999"), "{said}");
    }
}
