//! The states of jobs, by Slurm's codes and names.

use std::fmt;
use std::str::FromStr;

/// A job's state. Slurm has more; those are never the state of a job here, but may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateCode {
    /// It waits.
    Pending,
    /// It has processing elements, and its ranks do not all execute yet.
    Configuring,
    /// It runs.
    Running,
    /// Its processes are stopped for another job.
    Suspended,
    /// Its processes are being ended.
    Completing,
    /// All its ranks exited with 0.
    Completed,
    /// Ended on request.
    Cancelled,
    /// Some rank exited otherwise.
    Failed,
    /// Ended at its time limit.
    Timeout,
    /// Ended because a node died.
    NodeFail,
    /// Ended because another job got its processing elements.
    Preempted,
    /// Ended because it had no memory left.
    OutOfMemory,
}

/// Codes and names of all states that Slurm has; those without a [`StateCode`] match no job.
const KNOWN: [(&str, &str, Option<StateCode>); 24] = [
    ("PD", "PENDING", Some(StateCode::Pending)),
    ("R", "RUNNING", Some(StateCode::Running)),
    ("S", "SUSPENDED", Some(StateCode::Suspended)),
    ("CD", "COMPLETED", Some(StateCode::Completed)),
    ("CA", "CANCELLED", Some(StateCode::Cancelled)),
    ("F", "FAILED", Some(StateCode::Failed)),
    ("TO", "TIMEOUT", Some(StateCode::Timeout)),
    ("NF", "NODE_FAIL", Some(StateCode::NodeFail)),
    ("PR", "PREEMPTED", Some(StateCode::Preempted)),
    ("BF", "BOOT_FAIL", None),
    ("DL", "DEADLINE", None),
    ("OOM", "OUT_OF_MEMORY", Some(StateCode::OutOfMemory)),
    ("CG", "COMPLETING", Some(StateCode::Completing)),
    ("CF", "CONFIGURING", Some(StateCode::Configuring)),
    ("RS", "RESIZING", None),
    ("RD", "RESV_DEL_HOLD", None),
    ("RQ", "REQUEUED", None),
    ("RF", "REQUEUE_FED", None),
    ("RH", "REQUEUE_HOLD", None),
    ("RV", "REVOKED", None),
    ("SI", "SIGNALING", None),
    ("SE", "SPECIAL_EXIT", None),
    ("SO", "STAGE_OUT", None),
    ("ST", "STOPPED", None),
];

impl StateCode {
    /// Every state that a job can have here.
    pub const ALL: [StateCode; 12] = [
        StateCode::Pending,
        StateCode::Configuring,
        StateCode::Running,
        StateCode::Suspended,
        StateCode::Completing,
        StateCode::Completed,
        StateCode::Cancelled,
        StateCode::Failed,
        StateCode::Timeout,
        StateCode::NodeFail,
        StateCode::Preempted,
        StateCode::OutOfMemory,
    ];

    fn row(self) -> (&'static str, &'static str) {
        let row = KNOWN.iter().find(|(.., state)| *state == Some(self));
        // Every state has a row: a test checks it.
        row.map_or(("?", "UNKNOWN"), |(code, name, _)| (code, name))
    }

    /// The code: `PD`.
    pub fn code(self) -> &'static str {
        self.row().0
    }

    /// The name: `PENDING`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Slurm's number of the base state, by which listings are sorted. A job that is configuring
    /// counts as running.
    pub fn number(self) -> u8 {
        match self {
            StateCode::Pending => 0,
            StateCode::Configuring | StateCode::Running => 1,
            StateCode::Suspended => 2,
            StateCode::Completing | StateCode::Completed => 3,
            StateCode::Cancelled => 4,
            StateCode::Failed => 5,
            StateCode::Timeout => 6,
            StateCode::NodeFail => 7,
            StateCode::Preempted => 8,
            StateCode::OutOfMemory => 11,
        }
    }

    /// Whether the job is over.
    pub fn is_final(self) -> bool {
        match self {
            StateCode::Pending
            | StateCode::Configuring
            | StateCode::Running
            | StateCode::Suspended
            | StateCode::Completing => false,
            StateCode::Completed
            | StateCode::Cancelled
            | StateCode::Failed
            | StateCode::Timeout
            | StateCode::NodeFail
            | StateCode::Preempted
            | StateCode::OutOfMemory => true,
        }
    }

    /// The states that a word means: its own, and those that Slurm counts to it. A state that no
    /// job has here means none.
    ///
    /// # Errors
    /// Slurm has no such state.
    pub fn meant_by(word: &str) -> Result<Vec<StateCode>, NotAJobState> {
        let known = KNOWN
            .iter()
            .find(|(code, name, _)| {
                code.eq_ignore_ascii_case(word) || name.eq_ignore_ascii_case(word)
            })
            .ok_or_else(|| NotAJobState(word.to_owned()))?;
        Ok(match known.2 {
            // Slurm counts a job that is being started to those that run.
            Some(StateCode::Running) => vec![StateCode::Running, StateCode::Configuring],
            Some(state) => vec![state],
            None => Vec::new(),
        })
    }

    /// The names of all states, for messages.
    pub fn known_names() -> String {
        KNOWN.map(|(_, name, _)| name).join(",")
    }
}

/// Not the code or name of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid job state specified: {0}")]
pub struct NotAJobState(pub String);

impl fmt::Display for StateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StateCode {
    type Err = NotAJobState;

    fn from_str(word: &str) -> Result<StateCode, NotAJobState> {
        let states = StateCode::meant_by(word)?;
        states.first().copied().ok_or_else(|| NotAJobState(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_code_and_a_name_by_which_it_is_found() {
        for state in StateCode::ALL {
            assert_eq!(state.code().to_lowercase().parse(), Ok(state));
            assert_eq!(state.name().parse(), Ok(state));
        }
        assert_eq!(StateCode::meant_by("SE"), Ok(Vec::new()));
        assert!(StateCode::meant_by("bogus").is_err());
    }
}
