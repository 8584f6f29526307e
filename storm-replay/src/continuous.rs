//! Space sharing: a started job runs to its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use storm_sched::SchedTime;
use storm_sched::metrics::Capacity;

use crate::running::{Instant, Running, Started};
use crate::{JobIndex, TimeSharing};

/// The running jobs by their ends; jobs with the same end by their starts.
#[derive(Debug, Default)]
pub(crate) struct Continuous {
    ends: BinaryHeap<Reverse<(SchedTime, u32, JobIndex, u32)>>,
    busy_pes: u32,
}

impl Running for Continuous {
    fn start(&mut self, now: SchedTime, started: Started) {
        let Started { job, order, run, procs } = started;
        self.ends.push(Reverse((now + run, order, job, procs)));
        self.busy_pes += procs;
    }

    fn next(&self) -> Option<SchedTime> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    fn pass(&mut self, _now: SchedTime) {}

    fn ended(&mut self, now: SchedTime, ended: &mut Vec<JobIndex>) {
        while self.next().is_some_and(|end| end <= now) {
            let Some(Reverse((_, _, job, procs))) = self.ends.pop() else { break };
            self.busy_pes -= procs;
            ended.push(job);
        }
    }

    fn edge(&self, _now: SchedTime) -> bool {
        false
    }

    fn activated(&mut self, _on_edge: bool) {}

    fn settle(&mut self, instant: Instant<'_>, _capacity: &mut Capacity) -> SchedTime {
        instant.now
    }

    fn busy_pes(&self) -> u32 {
        self.busy_pes
    }

    fn time_sharing(&self) -> Option<TimeSharing> {
        None
    }
}
