//! Why a job waits that somebody is waiting for: asked once it has waited for a moment, and now
//! and then after that.

use crate::output;
use std::future::pending;
use std::time::Duration;
use storm_mm::api::{Explanation, JobState};
use tokio::time::{Instant, sleep_until};

/// Nothing is said of a job that starts sooner: most do.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two questions: a manager may have thousands who wait, and a person reads a line.
const AGAIN: Duration = Duration::from_secs(60);

/// When to ask the manager, and what is worth telling of its answers.
#[derive(Debug)]
pub(crate) struct QueueNotes {
    /// Somebody is to be told.
    wanted: bool,
    /// The next question; none while the job does not wait.
    next: Option<Instant>,
    /// What kind of reason was told last.
    told: Option<String>,
}

impl QueueNotes {
    /// Of a job that was submitted just now; says nothing unless `wanted`.
    pub(crate) fn new(wanted: bool) -> QueueNotes {
        let next = wanted.then(|| Instant::now() + PATIENCE);
        QueueNotes { wanted, next, told: None }
    }

    /// The job is in this state now.
    pub(crate) fn is(&mut self, state: JobState) {
        let waits = self.wanted && state == JobState::Pending;
        match (waits, self.next) {
            (true, None) => self.next = Some(Instant::now() + PATIENCE),
            (true, Some(_)) => {}
            (false, _) => (self.next, self.told) = (None, None),
        }
    }

    /// Returns when it is time to ask for an explanation; never while there is nothing to tell.
    /// May be dropped and called again.
    pub(crate) async fn due(&self) {
        match self.next {
            Some(next) => sleep_until(next).await,
            None => pending().await,
        }
    }

    /// The explanation was asked for.
    pub(crate) fn asked(&mut self) {
        self.next = Some(Instant::now() + AGAIN);
    }

    /// What is to be told of an answer: the reason, unless the one of the last time has merely
    /// other numbers or names.
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

/// A reason without what changes in it while it stays the same one: words with a digit, as
/// numbers, times and nodes are, and the signs about them.
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
