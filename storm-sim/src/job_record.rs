//! The life of one job as it is seen from outside: when it passed each stage.

use std::collections::BTreeMap;
use storm_mm::api::{JobState, LaunchBreakdown};
use storm_primitives::Instant;
use storm_rm::{JobIncarnation, ProcessClass, Rank, Row};

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
    /// Their names, folded.
    pub node_list: String,
    /// The first node was told to start its ranks.
    pub launched: Option<Instant>,
    /// All its ranks were seen to execute.
    pub started: Option<Instant>,
    /// Where the time of its launch went, as the manager measured it.
    pub breakdown: Option<LaunchBreakdown>,
    /// COMPARE-AND-WRITE found it ended on all nodes.
    pub terminated: Option<Instant>,
    /// Why its processes are being ended, once they are.
    pub ending: Option<String>,
    /// Its end was durable, with how each rank ended.
    pub ended: Option<Instant>,
    /// How it ended.
    pub state: Option<JobState>,
    /// Why, where that needs saying.
    pub reason: Option<String>,
    /// How often it was put back in the queue.
    pub requeued: u32,
    /// What flexible coscheduling took its ranks for last, where it took any for something else than
    /// at first.
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

    /// It waits for a run anew; nothing is left of the last one.
    pub(crate) fn queued_again(&mut self) {
        let JobTimes { name, procs, submitted, requeued, .. } = self;
        let again = JobTimes::submitted(std::mem::take(name), *procs, *submitted);
        *self = JobTimes { requeued: *requeued + 1, ..again };
    }

    /// How it ended; or the state that it is in.
    pub fn last_state(&self) -> JobState {
        match (self.state, self.started) {
            (Some(state), _) => state,
            (None, Some(_)) => JobState::Running,
            (None, None) => JobState::Pending,
        }
    }

    /// Where it is, in words, while it has not ended.
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

fn milliseconds(at: Instant) -> String {
    format!("{:.3} ms", at.since_origin().as_secs_f64() * 1e3)
}
