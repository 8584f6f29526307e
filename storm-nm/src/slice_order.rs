//! The slices that strobes ordered and this node begins by its own clock
//! ([decision 0147](../../docs/decisions/0147-slice-order-in-the-node.md)). Pure: the type gets
//! strobes, the time and the jobs in rows, and returns what the host is to switch when. The type
//! also returns whether the host's orders are still right. The module knows no host and no network.
//!
//! The host switches by itself, so the core knows the active rows only after a recall. An event
//! that depends on the active rows, or changes the jobs in rows, recalls the host's orders. Any
//! other event leaves the orders alone.

mod arrivals;
#[cfg(test)]
mod tests;
use crate::core::{Action, Event, NodeCore};
use crate::{JobKey, SwitchAhead, SwitchDone, SwitchedJobs};
use arrivals::Arrivals;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::message::{Slices, Strobe};
use storm_rm::{PartitionId, Row, RowSet};

/// Least length of a slice, even if a shorter one is ordered: a node has other work too.
const QUANTUM_MIN: Duration = Duration::from_micros(50);

/// The slices of this node, and what the host has been ordered for them.
#[derive(Debug, Default)]
pub(crate) struct SliceOrder {
    /// The slices of each partition.
    following: BTreeMap<PartitionId, Following>,
    arrivals: Arrivals,
    /// `None` if the host has no orders.
    ordered: Option<Ordered>,
}

/// Slices that a strobe ordered.
#[derive(Clone, Debug)]
struct Following {
    /// The planned or actual beginning of the first.
    began: Instant,
    quantum: Duration,
    slices: Slices,
    /// The position of the last that has begun, as far as is known here.
    begun: usize,
}

/// The host's orders.
#[derive(Debug)]
struct Ordered {
    /// The jobs for which they were made.
    jobs: RowJobs,
    /// When the switches are due, in order.
    due: Vec<Instant>,
}

/// The jobs with processes here.
pub(crate) type RowJobs = BTreeMap<JobKey, RowJob>;

/// A job, as far as switches depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowJob {
    pub(crate) partition: PartitionId,
    pub(crate) rows: RowSet,
    /// Whether it has time to act on a signal, and so runs in every row.
    pub(crate) is_graced: bool,
    /// Whether it is being killed, so that the host takes its processes away.
    pub(crate) is_doomed: bool,
    /// Whether it stands. A switch changes this, so orders do not depend on it.
    pub(crate) is_stopped: bool,
}

impl RowJob {
    /// Whether the job runs while this row does.
    pub(crate) fn runs_in(&self, row: Row) -> bool {
        self.is_graced || self.rows.contains(row)
    }

    fn is_ordered_like(&self, other: &RowJob) -> bool {
        RowJob { is_stopped: other.is_stopped, ..*self } == *other
    }
}

/// A slice that the host has begun by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) done: SwitchDone,
    /// The numbers of jobs that were stopped and resumed.
    pub(crate) switched: (usize, usize),
}

impl SliceOrder {
    /// Takes slices that a strobe ordered `now`, in place of earlier ones of the partition.
    pub(crate) fn follow(&mut self, partition: PartitionId, slices: Option<Slices>, now: Instant) {
        let Some(slices) = slices else {
            self.following.remove(&partition);
            return;
        };
        let quantum = Duration::from_nanos(slices.quantum_ns).max(QUANTUM_MIN);
        let began = self.arrivals.due(slices.strobe.issued_ns, now, quantum / 2);
        let following = Following { began, quantum, slices, begun: 0 };
        self.following.insert(partition, following);
    }

    /// Lets the core take an event. If the event depends on the active rows, the core first
    /// receives the slices that have begun. Orders that the event makes wrong are recalled before
    /// its actions are done. `recall` withdraws the host's orders and returns what the host has
    /// done.
    pub(crate) fn take(
        &mut self,
        core: &mut NodeCore,
        event: Event,
        mut recall: impl FnMut() -> Vec<SwitchDone>,
    ) -> (Vec<Action>, Vec<Begun>) {
        let mut begun = Vec::new();
        if core.asks_for_rows(&event) {
            begun.extend(self.recall(core, &mut recall));
        }
        let actions = core.handle(event);
        if self.is_ordered() && !self.is_right(&core.row_jobs()) {
            begun.extend(self.recall(core, &mut recall));
        }
        (actions, begun)
    }

    /// Recalls the host's orders, if there are any, and reports to the core which slices have
    /// begun. Until new orders, only the core's own actions switch jobs.
    pub(crate) fn recall(
        &mut self,
        core: &mut NodeCore,
        recall: impl FnOnce() -> Vec<SwitchDone>,
    ) -> Vec<Begun> {
        if self.ordered.take().is_none() {
            return Vec::new();
        }
        let mut begun = Vec::new();
        for done in recall() {
            self.begins(&done.strobe);
            for action in core.handle(Event::SliceBegins(done.strobe)) {
                // The host has done the switch already, with the same jobs.
                if let Action::Switch { strobe: Some(_), stop, resume } = action {
                    begun.push(Begun { done, switched: (stop.len(), resume.len()) });
                }
            }
        }
        begun
    }

    fn begins(&mut self, strobe: &Strobe) {
        if let Some(following) = self.following.get_mut(&strobe.partition) {
            let index = strobe.number.saturating_sub(following.slices.strobe.number);
            following.begun = following.begun.max(usize::try_from(index).unwrap_or(usize::MAX));
        }
    }

    /// Whether the host's orders suit these jobs.
    fn is_right(&self, jobs: &RowJobs) -> bool {
        let Some(Ordered { jobs: ordered, .. }) = &self.ordered else { return false };
        let alike = |((key, job), (known, before)): ((&JobKey, &RowJob), (&JobKey, &RowJob))| {
            key == known && job.is_ordered_like(before)
        };
        jobs.len() == ordered.len() && jobs.iter().zip(ordered).all(alike)
    }

    /// The switches of the next slices, in order of time, if the host has no orders yet. Empty if
    /// the host has orders, or if no slice follows.
    pub(crate) fn order(&mut self, jobs: impl FnOnce() -> RowJobs) -> Vec<SwitchAhead> {
        if self.ordered.is_some() || self.following.is_empty() {
            return Vec::new();
        }
        let jobs = jobs();
        let partitions = self.following.iter();
        let mut plan: Vec<SwitchAhead> =
            partitions.flat_map(|(partition, it)| it.ahead(*partition, &jobs)).collect();
        plan.sort_by_key(|switch| switch.due);
        if !plan.is_empty() {
            let due = plan.iter().map(|switch| switch.due).collect();
            self.ordered = Some(Ordered { jobs, due });
        }
        plan
    }

    /// Whether the host has orders, and may switch by itself.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Takes note that the host cannot carry out its orders.
    pub(crate) fn refused(&mut self) {
        self.ordered = None;
    }

    /// The first ordered switch that is due at `time` or later.
    pub(crate) fn due_from(&self, time: Instant) -> Option<Instant> {
        let due = &self.ordered.as_ref()?.due;
        due.get(due.partition_point(|due| *due < time)).copied()
    }

    /// Forgets all slices, which were ordered in a life of the node that is over.
    pub(crate) fn forget(&mut self) {
        *self = SliceOrder::default();
    }
}

impl Following {
    /// The switches of the slices that have not begun, if nothing happens before.
    fn ahead(&self, partition: PartitionId, jobs: &RowJobs) -> Vec<SwitchAhead> {
        let here: Vec<(JobKey, RowJob)> = jobs
            .iter()
            .filter(|(_, job)| job.partition == partition)
            .map(|(key, job)| (*key, *job))
            .collect();
        // There are few pairs of successive rows, so the jobs are computed once for each.
        let mut changes: BTreeMap<(Option<Row>, Row), Arc<SwitchedJobs>> = BTreeMap::new();
        let mut former = None;
        let first = self.begun.saturating_add(1);
        let rest = (first..).map_while(|index| Some((index, self.slices.strobe_of(index)?)));
        let ahead = rest.map(|(index, strobe)| {
            let change = (former.replace(strobe.row), strobe.row);
            let switched = || Arc::new(switched_jobs(&here, change));
            let jobs = changes.entry(change).or_insert_with(switched).clone();
            let after = u32::try_from(index).unwrap_or(u32::MAX);
            SwitchAhead { due: self.began + self.quantum.saturating_mul(after), strobe, jobs }
        });
        ahead.collect()
    }
}

/// The jobs to stop and to resume when a row follows another row, or the present state.
fn switched_jobs(jobs: &[(JobKey, RowJob)], change: (Option<Row>, Row)) -> SwitchedJobs {
    let (former, row) = change;
    let mut switched = SwitchedJobs::default();
    for (key, job) in jobs {
        let ran = former.map_or(!job.is_stopped, |former| job.runs_in(former));
        match (ran, job.runs_in(row)) {
            (true, false) => switched.stop.push(*key),
            (false, true) => switched.resume.push(*key),
            (true, true) | (false, false) => {}
        }
    }
    switched
}
