//! The script of a modelled process.

use crate::{JobKey, LaunchRefused};
use bytes::Bytes;
use std::time::Duration;
use storm_rm::message::{ExitStatus, Stream};
use storm_rm::{OsBytes, Rank};

/// The process that a script is for.
#[derive(Clone, Copy, Debug)]
pub struct RankContext<'a> {
    /// The job and its run.
    pub job: JobKey,
    /// The rank.
    pub rank: Rank,
    /// Number of ranks of the job.
    pub size: u32,
    /// The argument vector.
    pub argv: &'a [OsBytes],
}

/// The life of a process.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// How it ends if nothing else ends it.
    pub status: ExitStatus,
    /// Why it cannot be executed at all, if so.
    pub exec_failure: Option<LaunchRefused>,
    /// Signals that it survives; never 9.
    pub ignores: Vec<i32>,
    /// Whether it leaves a child that keeps its output open until the child is killed.
    pub leaves_child: bool,
}

/// A step of a process. Steps happen only while the job is not stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Uses this much CPU time.
    Compute(Duration),
    /// Repeats these steps.
    Repeat {
        /// Number of repetitions.
        times: u32,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Sends a message to a rank of the job.
    Send {
        /// The rank.
        to: Rank,
        /// Its length.
        bytes: u64,
    },
    /// Waits for the next message from a rank of the job.
    Receive {
        /// The rank.
        from: Rank,
    },
    /// Waits until every rank of the job has arrived here.
    Barrier,
    /// Writes; waits while the pipe is full.
    Write(Stream, Bytes),
    /// Copies its standard input to its standard output until the end.
    Echo,
    /// Puts a pair into the PMI key-value space.
    Put {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// Enters the PMI barrier and waits for its end.
    Fence,
    /// Gets the value of a key and writes it to standard output.
    Get {
        /// Key.
        key: String,
    },
    /// Requests the end of the job and waits for the end.
    Abort {
        /// Exit code for the job.
        exit_code: i32,
    },
}

impl Step {
    /// Whether a step, or a repeated step, needs a message-passing library.
    pub(super) fn communicates(&self) -> bool {
        match self {
            Step::Repeat { steps, .. } => steps.iter().any(Step::communicates),
            Step::Send { .. } | Step::Receive { .. } | Step::Barrier => true,
            Step::Compute(_)
            | Step::Write(..)
            | Step::Echo
            | Step::Put { .. }
            | Step::Fence
            | Step::Get { .. }
            | Step::Abort { .. } => false,
        }
    }
}

impl Script {
    /// A process that computes and exits with code 0.
    pub fn compute(time: Duration) -> Script {
        Script::of(vec![Step::Compute(time)])
    }

    /// A process that takes these steps and exits with code 0.
    pub fn of(steps: Vec<Step>) -> Script {
        Script {
            steps,
            status: ExitStatus::Code(0),
            exec_failure: None,
            ignores: Vec::new(),
            leaves_child: false,
        }
    }

    /// The same with another exit status.
    #[must_use]
    pub fn ending(mut self, status: ExitStatus) -> Script {
        self.status = status;
        self
    }
}
