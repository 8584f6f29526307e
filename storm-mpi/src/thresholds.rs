//! The times on a node that two-phase waiting needs: the time of an answer, and the time to wake a
//! sleeper (Arpaci-Dusseau, *Implicit coscheduling*, ACM TOCS 19(3), 2001).
//!
//! Node Managers measure them and pass them to the ranks in environment variables. A rank without
//! the variables uses the [default](Thresholds::default).

use std::time::Duration;

/// Variable with the time of an answer through shared memory, in microseconds.
const LOCAL_VARIABLE: &str = "STORM_MPI_LOCAL_US";
/// Variable with the time of an answer from another node, in microseconds.
const REMOTE_VARIABLE: &str = "STORM_MPI_REMOTE_US";
/// Variable with the time to wake a sleeper, in microseconds.
const WAKE_VARIABLE: &str = "STORM_MPI_WAKE_US";

/// Longest accepted time: no node needs as long for any of them.
const LONGEST: Duration = Duration::from_millis(10);

/// Times of answers, and of waking a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// `2 L + 4 O` (latency and overhead, there and back) through shared memory.
    pub local: Duration,
    /// `2 L + 4 O` through TCP.
    pub remote: Duration,
    /// `W`: waking a sleeper on another processor.
    pub wake: Duration,
}

impl Default for Thresholds {
    /// Times measured between two ranks of an idle machine
    /// (`docs/decisions/0081-looking-in-vain.md`).
    fn default() -> Thresholds {
        Thresholds {
            local: Duration::from_micros(4),
            remote: Duration::from_micros(60),
            wake: Duration::from_micros(6),
        }
    }
}

impl Thresholds {
    /// Environment variables that pass the thresholds to a rank.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        let told = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
        [
            (LOCAL_VARIABLE, told(self.local)),
            (REMOTE_VARIABLE, told(self.remote)),
            (WAKE_VARIABLE, told(self.wake)),
        ]
    }

    /// Reads the environment. A missing or impossible value is replaced by the default.
    pub(crate) fn from_environment() -> Thresholds {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(value: impl Fn(&str) -> Option<String>) -> Thresholds {
        let time = |name| {
            let us: f64 = value(name)?.trim().parse().ok()?;
            let time = Duration::try_from_secs_f64(us / 1e6).ok()?;
            (time <= LONGEST).then_some(time)
        };
        let known = Thresholds::default();
        Thresholds {
            local: time(LOCAL_VARIABLE).unwrap_or(known.local),
            remote: time(REMOTE_VARIABLE).unwrap_or(known.remote),
            wake: time(WAKE_VARIABLE).unwrap_or(known.wake),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_thresholds_are_accepted() {
        let us = Duration::from_micros;
        let told = Thresholds { local: us(3), remote: us(45), wake: us(12) };
        let variables = told.variables();
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(Thresholds::of(value), told);
        for wrong in ["-1", "1e99", "NaN", "x", ""] {
            assert_eq!(Thresholds::of(|_| Some(wrong.to_owned())), Thresholds::default());
        }
    }
}
