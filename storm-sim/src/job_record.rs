//! The life cycle of one job as seen from outside, with the time of each stage.

use std::collections::BTreeMap;
use storm_mm::api::{JobState, LaunchBreakdown};
use storm_primitives::Instant;
use storm_rm::{JobIncarnation, ProcessClass, Rank, Row};

/// The times at which a job passed each stage. If it ran several times, they are those of its last
/// run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTimes {
    /// The name.
    pub name: String,
    /// The ranks.
    pub procs: u32,
    /// The job was admitted.
    pub submitted: Instant,
    /// The job got its processing elements.
    pub placed: Option<Instant>,
    /// The number of the run.
    pub incarnation: Option<JobIncarnation>,
    /// The row of the matrix.
    pub row: Option<Row>,
    /// The nodes.
    pub nodes: usize,
    /// Their names, folded.
    pub node_list: String,
    /// The manager ordered the first node to start its ranks.
    pub launched: Option<Instant>,
    /// All its ranks were seen to execute.
    pub started: Option<Instant>,
    /// The parts of its launch time, as the manager measured them.
    pub breakdown: Option<LaunchBreakdown>,
    /// COMPARE-AND-WRITE found it ended on all nodes.
    pub terminated: Option<Instant>,
    /// The reason why its processes are being ended, once they are.
    pub ending: Option<String>,
    /// The end was durable, including the end of each rank.
    pub ended: Option<Instant>,
    /// How it ended.
    pub state: Option<JobState>,
    /// The reason for the state, if there is one.
    pub reason: Option<String>,
    /// How often the job was put back in the queue.
    pub requeued: u32,
    /// The last class that flexible coscheduling gave each rank, for ranks that no longer have the
    /// first class.
    pub classes: BTreeMap<Rank, ProcessClass>,
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
            node_list: String::new(),
            launched: None,
            started: None,
            breakdown: None,
            terminated: None,
            ending: None,
            ended: None,
            state: None,
            reason: None,
            requeued: 0,
            classes: BTreeMap::new(),
        }
    }

    /// The job waits for a new run; the record of the last run is cleared.
    pub(crate) fn queued_again(&mut self) {
        let JobTimes { name, procs, submitted, requeued, .. } = self;
        let again = JobTimes::submitted(std::mem::take(name), *procs, *submitted);
        *self = JobTimes { requeued: *requeued + 1, ..again };
    }

    /// The job's state: its final one if it has ended.
    pub fn last_state(&self) -> JobState {
        match (self.state, self.started) {
            (Some(state), _) => state,
            (None, Some(_)) => JobState::Running,
            (None, None) => JobState::Pending,
        }
    }

    /// A description of where the job is, while it has not ended.
    pub fn whereabouts(&self) -> String {
        let JobTimes { node_list, placed, started, ending, .. } = self;
        match (ending, started, placed) {
            (Some(cause), ..) => format!("it is being ended on {node_list}: {cause}"),
            (None, Some(at), _) => format!("it runs on {node_list} since {}", milliseconds(*at)),
            (None, None, Some(at)) => {
                format!("it is being started on {node_list} since {}", milliseconds(*at))
            }
            (None, None, None) => format!("it waits since {}", milliseconds(self.submitted)),
        }
    }

    /// From its place in the matrix to the order to start its ranks.
    pub fn send(&self) -> Option<std::time::Duration> {
        Some(self.launched? - self.placed?)
    }

    /// From the order to start its ranks until the manager knows its end.
    pub fn exec(&self) -> Option<std::time::Duration> {
        Some(self.over()? - self.launched?)
    }

    /// When the Machine Manager first knew the end.
    pub fn over(&self) -> Option<Instant> {
        match (self.terminated, self.ended) {
            (Some(terminated), Some(ended)) => Some(terminated.min(ended)),
            (terminated, ended) => terminated.or(ended),
        }
    }
}

fn milliseconds(at: Instant) -> String {
    format!("{:.3} ms", at.since_origin().as_secs_f64() * 1e3)
}
