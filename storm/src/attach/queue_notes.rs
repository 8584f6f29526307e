//! Reports to a waiting user why the job waits. Asks the manager after a moment, and regularly
//! later.

use crate::output;
use std::future::pending;
use std::time::Duration;
use storm_mm::api::{Explanation, JobState};
use tokio::time::{Instant, sleep_until};

/// Most jobs start within this time, and no reason is shown for them.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two questions. A manager may have thousands of waiting clients, and a person reads
/// only a line.
const AGAIN: Duration = Duration::from_secs(60);

/// Decides when to ask the manager, and which answers to show.
#[derive(Debug)]
pub(crate) struct QueueNotes {
    /// Whether reasons are shown.
    wanted: bool,
    /// Time of the next question; `None` while the job does not wait.
    next: Option<Instant>,
    /// The kind of the last reason shown.
    told: Option<String>,
}

impl QueueNotes {
    /// For a job that was submitted just now. Shows nothing unless `wanted`.
    pub(crate) fn new(wanted: bool) -> QueueNotes {
        let next = wanted.then(|| Instant::now() + PATIENCE);
        QueueNotes { wanted, next, told: None }
    }

    /// Takes note of the job's state.
    pub(crate) fn is(&mut self, state: JobState) {
        let waits = self.wanted && state == JobState::Pending;
        match (waits, self.next) {
            (true, None) => self.next = Some(Instant::now() + PATIENCE),
            (true, Some(_)) => {}
            (false, _) => (self.next, self.told) = (None, None),
        }
    }

    /// Completes when an explanation should be asked for; never if no reason is to be shown. May be
    /// dropped and called again.
    pub(crate) async fn due(&self) {
        match self.next {
            Some(next) => sleep_until(next).await,
            None => pending().await,
        }
    }

    /// Records that an explanation was requested.
    pub(crate) fn asked(&mut self) {
        self.next = Some(Instant::now() + AGAIN);
    }

    /// The line to show for an answer: the reason, unless it differs from the last one only in
    /// numbers or names.
    pub(crate) fn line(&mut self, explanation: &Explanation) -> Option<String> {
        let Explanation { job, array, state, reason, .. } = explanation;
        if !self.wanted || *state != JobState::Pending {
            self.told = None;
            return None;
        }
        let kind = kind(reason);
        if self.told.as_ref() == Some(&kind) {
            return None;
        }
        self.told = Some(kind);
        let name = array.map_or_else(|| job.to_string(), |task| task.to_string());
        Some(format!("job {name} is {state}: {}", output::for_people(reason)))
    }
}

/// A reason without its variable parts: words with a digit, such as numbers, times and nodes, and
/// punctuation around them.
fn kind(reason: &str) -> String {
    let lasting = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = reason.split_whitespace().filter(lasting).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn because(state: JobState, reason: &str) -> Explanation {
        let told = json!({ "job": 7, "state": state, "reason": reason, "details": [] });
        serde_json::from_value(told).expect("as a manager sends it")
    }

    #[test]
    fn a_reason_is_told_again_only_when_it_is_another() {
        let mut notes = QueueNotes::new(true);
        let mut told = |state, reason: &str| notes.line(&because(state, reason));
        let busy = told(JobState::Pending, "it needs 4 PEs, and 2 of n[1-3] are free");
        let line = "job 7 is PENDING: it needs 4 PEs, and 2 of n[1-3] are free";
        assert_eq!(busy.as_deref(), Some(line));
        assert_eq!(told(JobState::Pending, "it needs 4 PEs, and 3 of n1 are free"), None);
        assert_eq!(told(JobState::Running, "it runs on n1"), None);
        let held = told(JobState::Pending, "it is held");
        assert_eq!(held.as_deref(), Some("job 7 is PENDING: it is held"));
    }

    #[test]
    fn a_job_that_is_queued_again_is_told_of_again() {
        let mut notes = QueueNotes::new(true);
        let held = because(JobState::Pending, "it is held");
        assert!(notes.line(&held).is_some());
        notes.is(JobState::Running);
        assert!(notes.next.is_none(), "it does not wait");
        notes.is(JobState::Pending);
        assert!(notes.next.is_some() && notes.line(&held).is_some());
    }

    #[test]
    fn nobody_is_told_who_does_not_want_to_know() {
        let mut notes = QueueNotes::new(false);
        notes.is(JobState::Pending);
        assert!(notes.next.is_none());
        assert_eq!(notes.line(&because(JobState::Pending, "it is held")), None);
    }
}
