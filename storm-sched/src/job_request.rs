//! What a job asks of the scheduler.
//!
//! Only what decides where and when it runs; the command, files and owner stay
//! with the Machine Manager.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{JobId, Priority};

/// A job's request for PEs. Fields will be added: build it with
/// [`JobRequest::new`] and the `with_` methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRequest {
    /// The job.
    pub id: JobId,
    /// Processes, one PE each (Slurm `-n`).
    pub procs: u32,
    /// Exactly that many nodes (Slurm `-N`), the processes in blocks of equal
    /// length, the first ones one longer when it does not divide.
    pub nodes: Option<u32>,
    /// The longest run that the user expects (Slurm `-t`); the job is ended at
    /// it by the Machine Manager, and backfilling believes it.
    pub time_limit: Option<Duration>,
    /// Jobs of a higher priority are ahead in the queue.
    #[serde(default)]
    pub priority: Priority,
}

impl JobRequest {
    /// A request for `procs` PEs on whatever nodes.
    #[must_use]
    pub fn new(id: JobId, procs: u32) -> Self {
        Self { id, procs, nodes: None, time_limit: None, priority: Priority::default() }
    }

    /// The same request on exactly `nodes` nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// The same request with a time limit.
    #[must_use]
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit: Some(time_limit), ..self }
    }

    /// The same request with a priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }
}
