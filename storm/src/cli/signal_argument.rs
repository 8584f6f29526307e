//! Signals on the command line: `USR1`, and `B:USR1@120` ahead of a time limit.

use nix::sys::signal::Signal;
use std::time::Duration;
use storm_rm::EarlySignal;
use thiserror::Error;

/// The text is not a signal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotASignal {
    #[error("no signal has this number")]
    Number,
    #[error("a signal is expected, as TERM, SIGUSR1 or 15")]
    Name,
    #[error("{0:?} is not a number of seconds from 0 to 65535")]
    Seconds(String),
    #[error("R: is about reservations, which end no job here: leave it out")]
    Reservation,
}

/// Reads the name or the number of a signal.
pub(crate) fn parse_signal(text: &str) -> Result<i32, NotASignal> {
    if let Ok(number) = text.parse::<i32>() {
        return Signal::try_from(number).map(|_| number).map_err(|_| NotASignal::Number);
    }
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    name.parse::<Signal>().map(|signal| signal as i32).map_err(|_| NotASignal::Name)
}

/// Reads a signal ahead of the time limit as Slurm writes it: `[B:]SIGNAL[@SECONDS]`.
pub(crate) fn parse_early_signal(text: &str) -> Result<EarlySignal, NotASignal> {
    let (script_only, rest) = match text.split_once(':') {
        None => (false, text),
        Some((flags, rest)) if flags.eq_ignore_ascii_case("b") => (true, rest),
        Some((flags, _)) if flags.to_ascii_uppercase().contains('R') => {
            return Err(NotASignal::Reservation);
        }
        Some(_) => return Err(NotASignal::Name),
    };
    let (signal, before) = match rest.split_once('@') {
        None => (rest, EarlySignal::DEFAULT_BEFORE),
        Some((signal, seconds)) => {
            let wrong = || NotASignal::Seconds(seconds.to_owned());
            let digits = seconds.bytes().all(|byte| byte.is_ascii_digit());
            let before = seconds.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
            let before = Duration::from_secs(before);
            (signal, Some(before).filter(|b| *b <= EarlySignal::MAX_BEFORE).ok_or_else(wrong)?)
        }
    };
    Ok(EarlySignal { signal: parse_signal(signal)?, before, script_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_read_as_slurm_writes_them() {
        let early = |text: &str| {
            let early = parse_early_signal(text).expect(text);
            (early.signal, early.before.as_secs(), early.script_only)
        };
        assert_eq!(early("USR1"), (10, 60, false));
        assert_eq!(early("SIGUSR2@90"), (12, 90, false));
        assert_eq!(early("B:usr2@30"), (12, 30, true));
        assert_eq!(early("b:12@0"), (12, 0, true));
        for wrong in ["", "B:", "B", "USR1@", "USR1@-5", "USR1@+5", "USR1@65536", "@60", "X:USR1"] {
            assert!(parse_early_signal(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_early_signal("RB:USR1"), Err(NotASignal::Reservation));
    }
}
