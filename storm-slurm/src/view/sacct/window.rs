//! The time window of sacct(1), and the jobs that are in it.

use crate::view::{JobFacts, StateCode};
use jiff::Timestamp;

/// From when until when jobs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The begin.
    pub start: Timestamp,
    /// The end.
    pub end: Timestamp,
}

/// The options that set the window.
#[derive(Clone, Copy, Debug)]
pub struct Edges {
    /// `--starttime`.
    pub start: Option<Timestamp>,
    /// `--endtime`.
    pub end: Option<Timestamp>,
    /// Whether states are asked for.
    pub by_state: bool,
    /// Whether jobs are named.
    pub by_job: bool,
}

impl Window {
    /// The window by the rules of sacct(1), "Default time window".
    pub fn of(edges: Edges, now: Timestamp, midnight: Timestamp) -> Window {
        let default_start = match (edges.by_job, edges.by_state) {
            (true, _) => Timestamp::UNIX_EPOCH,
            (false, true) => now,
            (false, false) => midnight,
        };
        let start = edges.start.unwrap_or(default_start);
        let default_end = match edges.by_state && !edges.by_job {
            true => start,
            false => now,
        };
        Window { start, end: edges.end.unwrap_or(default_end) }
    }

    /// Whether a job was known in the window, and in one of the states, if any are named.
    pub fn has(&self, job: &JobFacts, states: &[StateCode]) -> bool {
        let began = job.start.filter(|_| !job.node_list.is_empty());
        let until = |time: Option<Timestamp>| time.is_none_or(|time| time >= self.start);
        if states.is_empty() {
            return job.submitted <= self.end && until(job.ended);
        }
        states.iter().any(|state| match state {
            StateCode::Pending => job.submitted <= self.end && until(began.or(job.ended)),
            StateCode::Running | StateCode::Configuring | StateCode::Completing => {
                began.is_some_and(|began| began <= self.end) && until(job.ended)
            }
            StateCode::Suspended => job.state == StateCode::Suspended,
            state => {
                let within = |ended: Timestamp| self.start <= ended && ended <= self.end;
                job.state == *state && job.ended.is_some_and(within)
            }
        })
    }

    /// The job with its times cut to the window (`--truncate`).
    pub fn truncate(&self, job: &mut JobFacts, now: Timestamp) {
        if let Some(start) = &mut job.start {
            *start = self.start.max(*start);
        }
        let end = job.ended.unwrap_or(now).min(self.end);
        job.ended = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn the_window_depends_on_what_is_asked_for() {
        let (now, midnight) = (at(1_000), at(100));
        let none = Edges { start: None, end: None, by_state: false, by_job: false };
        let window = |edges| {
            let Window { start, end } = Window::of(edges, now, midnight);
            (start.as_second(), end.as_second())
        };
        assert_eq!(window(none), (100, 1_000));
        assert_eq!(window(Edges { by_job: true, ..none }), (0, 1_000));
        assert_eq!(window(Edges { by_state: true, ..none }), (1_000, 1_000));
        assert_eq!(window(Edges { by_state: true, by_job: true, ..none }), (0, 1_000));
        let from = Edges { start: Some(at(7)), by_state: true, ..none };
        assert_eq!(window(from), (7, 7));
        assert_eq!(window(Edges { end: Some(now), ..from }), (7, 1_000));
    }
}
