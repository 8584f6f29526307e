//! Time sharing: a job progresses while its row is active, or one in which it
//! is a guest.
//!
//! Virtual slices are exact to the nanosecond. While nothing but edges happens
//! a rotation repeats itself, so that after one turn has been watched whole
//! turns pass at once ([`crate::rotation`]): a policy is asked about a few
//! edges for each event of a job, however long the jobs are.
//!
//! Switching costs no time here.

use std::collections::HashMap;
use std::time::Duration;

use storm_sched::metrics::Capacity;
use storm_sched::{Policy, SchedTime};

use crate::rotation::{Rotation, Slice, from_nanos};
use crate::running::{Instant, Running, Started};
use crate::{JobIndex, TimeSharing};

/// What a job still has to do.
#[derive(Debug, Clone, Copy)]
struct Held {
    order: u32,
    left: Duration,
    procs: u32,
}

/// The jobs in the matrix.
#[derive(Debug)]
pub(crate) struct Sliced {
    /// Looked up, never walked, so its order does not matter.
    held: HashMap<JobIndex, Held>,
    active: Vec<JobIndex>,
    busy_pes: u32,
    /// Until when the jobs have progressed.
    passed: SchedTime,
    /// When the slice ends, if it does.
    edge: Option<SchedTime>,
    /// A row was activated outside of an edge: its slice begins.
    begins: bool,
    switched: bool,
    rotation: Rotation,
    sharing: TimeSharing,
}

impl Sliced {
    pub(crate) fn new(quantum: Duration) -> Self {
        Self {
            held: HashMap::new(),
            active: Vec::new(),
            busy_pes: 0,
            passed: SchedTime::ZERO,
            edge: None,
            begins: false,
            switched: false,
            rotation: Rotation::default(),
            sharing: TimeSharing { quantum, ..TimeSharing::default() },
        }
    }

    /// Asks who runs in the slice that begins or goes on.
    fn refresh(&mut self, policy: &dyn Policy) {
        let running = policy.running_now();
        self.active.clear();
        self.active.extend(running.into_iter().filter_map(JobIndex::of));
        let procs = |job: &JobIndex| self.held.get(job).map_or(0, |held| held.procs);
        self.busy_pes = self.active.iter().map(procs).sum();
    }

    /// Lets whole turns of the rotation pass, as many as end before the next
    /// event.
    fn skip(&mut self, now: SchedTime, next_submit: Option<SchedTime>) -> u64 {
        let quantum_ns = self.sharing.quantum.as_nanos();
        let turn_ns = self.rotation.slices().len() as u128 * quantum_ns;
        // An event at the end of the last turn comes before its edge.
        let before = |time: Duration, step_ns: u128| time.as_nanos().saturating_sub(1) / step_ns;
        let mut turns = next_submit.map_or(u128::MAX, |next| before(next.since(now), turn_ns));
        let shares = self.rotation.shares();
        for (job, slices) in &shares {
            let Some(held) = self.held.get(job) else { continue };
            turns = turns.min(before(held.left, u128::from(*slices) * quantum_ns));
        }
        // Nobody runs and nobody comes: the driver finds that it is stuck.
        let Some(turns) = u64::try_from(turns).ok().filter(|_| !shares.is_empty()) else {
            return 0;
        };
        for (job, slices) in shares {
            if let Some(held) = self.held.get_mut(&job) {
                let share_ns = u128::from(slices) * quantum_ns * u128::from(turns);
                held.left = held.left.saturating_sub(from_nanos(share_ns));
            }
        }
        turns
    }
}

impl Running for Sliced {
    fn start(&mut self, _now: SchedTime, started: Started) {
        let Started { job, order, run, procs } = started;
        self.held.insert(job, Held { order, left: run, procs });
    }

    fn next(&self) -> Option<SchedTime> {
        let left = self.active.iter().filter_map(|job| self.held.get(job)).map(|held| held.left);
        let end = left.min().map(|left| self.passed + left);
        end.into_iter().chain(self.edge).min()
    }

    fn pass(&mut self, now: SchedTime) {
        let time = now.since(self.passed);
        self.passed = now;
        for job in &self.active {
            if let Some(held) = self.held.get_mut(job) {
                held.left = held.left.saturating_sub(time);
            }
        }
    }

    fn ended(&mut self, _now: SchedTime, ended: &mut Vec<JobIndex>) {
        let over = |job: &JobIndex| {
            self.held.get(job).filter(|held| held.left.is_zero()).map(|held| (held.order, *job))
        };
        let mut over: Vec<(u32, JobIndex)> = self.active.iter().filter_map(over).collect();
        over.sort_unstable();
        for (_, job) in over {
            self.held.remove(&job);
            ended.push(job);
        }
    }

    fn edge(&self, now: SchedTime) -> bool {
        self.edge == Some(now) && !self.begins
    }

    fn activated(&mut self, on_edge: bool) {
        self.begins |= !on_edge;
        self.switched |= on_edge;
    }

    fn settle(&mut self, instant: Instant<'_>, capacity: &mut Capacity) -> SchedTime {
        let Instant { now, edge, others, policy, next_submit } = instant;
        let switched = std::mem::take(&mut self.switched);
        let begins = std::mem::take(&mut self.begins);
        self.sharing.edges += u64::from(edge);
        self.sharing.asked_edges += u64::from(edge);
        self.sharing.switches += u64::from(switched);
        self.sharing.quantum = policy.quantum().unwrap_or(self.sharing.quantum);
        self.refresh(policy);
        if !policy.next_edge_needed() {
            self.edge = None;
            self.rotation.forget();
            return now;
        }
        if begins || edge || self.edge.is_none() {
            self.edge = Some(now + self.sharing.quantum);
        }
        if others {
            self.rotation.forget();
            return now;
        }
        let mut later = now;
        if self.rotation.is_turn(policy.rotation(), switched) {
            let turns = self.skip(now, next_submit);
            let quantum = self.sharing.quantum;
            for slice in self.rotation.slices() {
                capacity.passes(slice.busy_pes, quantum, turns);
                self.sharing.switches += u64::from(slice.switched_after) * turns;
            }
            let edges = self.rotation.slices().len() as u64 * turns;
            self.sharing.edges += edges;
            later = now + from_nanos(quantum.as_nanos() * u128::from(edges));
            self.passed = later;
            self.edge = Some(later + quantum);
            if turns > 0 {
                policy.turns_passed(later, &self.rotation.ran(quantum, turns));
            }
            self.rotation.again();
        }
        self.rotation.push(Slice {
            slot: policy.active_slot(),
            jobs: self.active.clone(),
            busy_pes: self.busy_pes,
            switched_after: false,
        });
        later
    }

    fn busy_pes(&self) -> u32 {
        self.busy_pes
    }

    fn time_sharing(&self) -> Option<TimeSharing> {
        Some(self.sharing)
    }
}
