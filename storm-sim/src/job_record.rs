//! The life of one job as it is seen from outside: when it passed each stage.

use storm_mm::api::{JobState, LaunchBreakdown};
use storm_primitives::Instant;
use storm_rm::{JobIncarnation, Row};

/// When a job passed each stage; of a job that ran several times, its last run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTimes {
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub procs: u32,
    /// It was admitted.
    pub submitted: Instant,
    /// It got its processing elements.
    pub placed: Option<Instant>,
    /// Which run that was.
    pub incarnation: Option<JobIncarnation>,
    /// Its row of the matrix.
    pub row: Option<Row>,
    /// Its nodes.
    pub nodes: usize,
    /// The first node was told to start its ranks.
    pub launched: Option<Instant>,
    /// All its ranks were seen to execute.
    pub started: Option<Instant>,
    /// Where the time of its launch went, as the manager measured it.
    pub breakdown: Option<LaunchBreakdown>,
    /// COMPARE-AND-WRITE found it ended on all nodes.
    pub terminated: Option<Instant>,
    /// Its end was durable, with how each rank ended.
    pub ended: Option<Instant>,
    /// How it ended.
    pub state: Option<JobState>,
    /// Why, where that needs saying.
    pub reason: Option<String>,
    /// How often it was put back in the queue.
    pub requeued: u32,
}

impl JobTimes {
    pub(crate) fn submitted(name: String, procs: u32, at: Instant) -> JobTimes {
        JobTimes {
            name,
            procs,
            submitted: at,
            placed: None,
            incarnation: None,
            row: None,
            nodes: 0,
            launched: None,
            started: None,
            breakdown: None,
            terminated: None,
            ended: None,
            state: None,
            reason: None,
            requeued: 0,
        }
    }

    /// From its place in the matrix to the order to start its ranks.
    pub fn send(&self) -> Option<std::time::Duration> {
        Some(self.launched? - self.placed?)
    }

    /// From the order to start its ranks to the manager's knowing its end.
    pub fn exec(&self) -> Option<std::time::Duration> {
        Some(self.over()? - self.launched?)
    }

    /// The end of it as the Machine Manager knew it first.
    pub fn over(&self) -> Option<Instant> {
        match (self.terminated, self.ended) {
            (Some(terminated), Some(ended)) => Some(terminated.min(ended)),
            (terminated, ended) => terminated.or(ended),
        }
    }
}
