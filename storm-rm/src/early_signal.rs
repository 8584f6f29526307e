//! A signal that a job requests ahead of its time limit (Slurm `--signal`).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The signal and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlySignal {
    /// Signal number.
    pub signal: i32,
    /// How long before the time limit the signal is sent, in run time. A job whose limit is not
    /// longer gets the signal when it starts.
    pub before: Duration,
    /// The signal is for the process of the batch script alone, not for the steps (`B:`).
    pub script_only: bool,
}

impl EarlySignal {
    /// The time before the limit if the user gives none, as in Slurm.
    pub const DEFAULT_BEFORE: Duration = Duration::from_secs(60);
    /// The longest time before the limit, as in Slurm.
    pub const MAX_BEFORE: Duration = Duration::from_secs(65_535);

    /// The run time at which a job with this limit gets the signal.
    pub fn due(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.before)
    }
}
