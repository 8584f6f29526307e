//! Time sharing: a job progresses while its row, or a row in which it is a guest, is active.
//!
//! Virtual slices are exact to the nanosecond. While only slices end, the rows repeat themselves.
//! After each row has been watched for its own cycle, all rounds that end before the next event are
//! skipped at once ([`crate::rotation`]). A policy is therefore asked about few slice ends per
//! event, however long the jobs are.
//!
//! Switching takes no time here.

use std::time::Duration;

use storm_sched::metrics::Capacity;
use storm_sched::{Policy, SchedTime};

use crate::held::{Held, HeldJobs};
use crate::rotation::{Rotation, Turn, from_nanos};
use crate::running::{Instant, Running, Started};
use crate::{JobIndex, TimeSharing};

/// The most leaps over rounds in a row. Each leap leaves fewer rounds; the rest is asked about
/// slice by slice.
const MAX_LEAPS: usize = 16;

/// The jobs in the matrix.
#[derive(Debug)]
pub(crate) struct Sliced {
    held: HeldJobs,
    active: Vec<Held>,
    busy_pes: u32,
    /// The time up to which the jobs have progressed.
    passed: SchedTime,
    /// The end of the current slice, if it has one.
    edge: Option<SchedTime>,
    /// A row was activated outside of an edge: its slice begins.
    begins: bool,
    switched: bool,
    rotation: Rotation,
    sharing: TimeSharing,
    /// Scratch: by place, slices of a job.
    slices: Vec<u64>,
}

impl Sliced {
    pub(crate) fn new(quantum: Duration) -> Self {
        Self {
            held: HeldJobs::default(),
            active: Vec::new(),
            busy_pes: 0,
            passed: SchedTime::ZERO,
            edge: None,
            begins: false,
            switched: false,
            rotation: Rotation::default(),
            sharing: TimeSharing { quantum, ..TimeSharing::default() },
            slices: Vec::new(),
        }
    }

    /// Asks the policy which jobs run in the current slice.
    fn refresh(&mut self, policy: &dyn Policy) {
        let held = &self.held;
        let place = |job| JobIndex::of(job).and_then(|job| held.place(job));
        self.active.clear();
        self.active.extend(policy.running_now().into_iter().filter_map(place));
        let procs = |place: &Held| held.work(*place).map_or(0, |work| work.procs);
        self.busy_pes = self.active.iter().map(procs).sum();
    }

    /// Lets as many rounds of all rows pass as end before the next event. Returns the time up to
    /// which they passed.
    fn leap(
        &mut self,
        now: SchedTime,
        next_submit: Option<SchedTime>,
        policy: &mut dyn Policy,
        capacity: &mut Capacity,
    ) -> SchedTime {
        let quantum = self.sharing.quantum;
        let mut later = now;
        for leap in 0..MAX_LEAPS {
            let left = next_submit.map(|next| next.since(later));
            let rounds = match leap {
                0 => self.rounds_in_periods(left),
                _ => self.times(1, left),
            };
            if leap == 0 {
                self.count_rows();
            } else if rounds == 0 {
                self.rotation.spend();
                break;
            }
            self.let_pass(rounds, capacity);
            let edges = self.rotation.rows() * rounds;
            self.sharing.edges += edges;
            self.sharing.switches += if self.rotation.rows() > 1 { edges } else { 0 };
            later = later + from_nanos(quantum.as_nanos() * u128::from(edges));
            let turns = self.rotation.pass(rounds, quantum);
            if rounds > 0 {
                policy.turns_passed(later, &turns);
            }
        }
        if let Some(Turn { jobs, busy_pes }) = self.rotation.now() {
            self.active.clone_from(jobs);
            self.busy_pes = *busy_pes;
        }
        later
    }

    /// The number of rounds, in whole periods of the rotation, that end before any job does and
    /// before `left` is over.
    fn rounds_in_periods(&mut self, left: Option<Duration>) -> u64 {
        let Some(period) = self.rotation.period() else { return 0 };
        self.count(|rotation, slices| {
            for (turn, times) in rotation.coming(period) {
                turn.jobs.iter().for_each(|job| slices[job.0 as usize] += times);
            }
        });
        self.times(period, left).saturating_mul(period)
    }

    /// Counts for each job the rows in which it runs in some turn: the most slices per round that
    /// it can get. The count bounds the leap over further rounds.
    fn count_rows(&mut self) {
        self.count(|rotation, slices| {
            for row in rotation.all() {
                let mut jobs: Vec<Held> = row.flat_map(|turn| turn.jobs.iter().copied()).collect();
                jobs.sort_unstable();
                jobs.dedup();
                jobs.into_iter().for_each(|job| slices[job.0 as usize] += 1);
            }
        });
    }

    fn count(&mut self, count: impl FnOnce(&Rotation, &mut [u64])) {
        self.slices.clear();
        self.slices.resize(self.held.places(), 0);
        count(&self.rotation, &mut self.slices);
    }

    /// How many times `rounds` rounds can pass before a job ends or the time `left` is over. Each
    /// job runs in the counted number of slices per pass.
    fn times(&self, rounds: u64, left: Option<Duration>) -> u64 {
        let quantum_ns = self.sharing.quantum.as_nanos();
        // An event at the end of the last round comes before its edge.
        let before = |time: Duration, slices: u128| {
            time.as_nanos().saturating_sub(1) / slices.saturating_mul(quantum_ns).max(1)
        };
        let all = u128::from(self.rotation.rows()) * u128::from(rounds);
        let mut times = left.map_or(u128::MAX, |left| before(left, all));
        let mut anybody = false;
        for (place, &slices) in self.slices.iter().enumerate().filter(|(_, slices)| **slices > 0) {
            anybody = true;
            if let Some(work) = self.held.work(Held(place as u32)) {
                times = times.min(before(work.left, u128::from(slices)));
            }
        }
        // No job runs and none will be submitted: the driver finds that it is stuck.
        u64::try_from(times).ok().filter(|_| anybody).unwrap_or(0)
    }

    fn let_pass(&mut self, rounds: u64, capacity: &mut Capacity) {
        let quantum = self.sharing.quantum;
        for (turn, times) in self.rotation.coming(rounds) {
            capacity.passes(turn.busy_pes, quantum, times);
            let ran = from_nanos(quantum.as_nanos() * u128::from(times));
            turn.jobs.iter().for_each(|job| self.held.ran(*job, ran));
        }
    }
}

impl Running for Sliced {
    fn start(&mut self, _now: SchedTime, started: Started) {
        self.held.insert(started);
    }

    fn next(&self) -> Option<SchedTime> {
        let left = self.active.iter().filter_map(|held| self.held.work(*held));
        let end = left.map(|work| work.left).min().map(|left| self.passed + left);
        end.into_iter().chain(self.edge).min()
    }

    fn pass(&mut self, now: SchedTime) {
        let time = now.since(self.passed);
        self.passed = now;
        self.active.iter().for_each(|held| self.held.ran(*held, time));
    }

    fn ended(&mut self, _now: SchedTime, ended: &mut Vec<JobIndex>) {
        let works = self.active.iter().filter_map(|held| self.held.work(*held));
        let over = works.filter(|work| work.left.is_zero()).map(|work| (work.order, work.job));
        let mut over: Vec<(u32, JobIndex)> = over.collect();
        over.sort_unstable();
        for (_, job) in over {
            self.held.remove(job);
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
        let (active, busy_pes) = (&self.active, self.busy_pes);
        let turn = || Turn { jobs: active.clone(), busy_pes };
        self.rotation.turn(policy.active_row(), policy.rotation(), switched, turn);
        if !self.rotation.is_known() {
            return now;
        }
        let later = self.leap(now, next_submit, policy, capacity);
        self.passed = later;
        self.edge = Some(later + self.sharing.quantum);
        later
    }

    fn busy_pes(&self) -> u32 {
        self.busy_pes
    }

    fn time_sharing(&self) -> Option<TimeSharing> {
        Some(self.sharing)
    }
}
