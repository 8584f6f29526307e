//! A job that holds processing elements: the state that exists only while it does.

use super::Core;
use super::effect::Watch;
use super::fencing::Lost;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::RankExit;
use storm_rm::{JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet};
use storm_sched::{Placement, Slot};

/// Least time between two looks at the time limit of a stopped job. The job may exceed its limit by
/// this much.
const STOPPED_TIMER: Duration = Duration::from_millis(10);

/// The progress of a job's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launch {
    /// A former manager placed it, or a Node Manager of it has ended, and some of its nodes have
    /// not come back.
    Recovering,
    /// Its files are on their way.
    Staging,
    /// The job waits for a slice edge.
    Staged,
    /// LAUNCH-JOB was issued.
    Launched,
    /// All its ranks execute.
    Started,
}

/// A job on the machine.
#[derive(Clone, Debug)]
pub(super) struct LiveJob {
    pub(super) incarnation: JobIncarnation,
    pub(super) slot: JobSlot,
    pub(super) partition: PartitionId,
    /// Its home row.
    pub(super) row: Row,
    /// Its elements, while its policy knows it.
    pub(super) placement: Option<Placement>,
    /// The rows that it runs in.
    pub(super) rows: RowSet,
    pub(super) nodes: NodeSet,
    pub(super) launch: Launch,
    /// Nodes whose part of the job is over: they reported its end, or died.
    pub(super) over: NodeSet,
    /// The lost ones among these nodes that may still run ranks of the job, and until when.
    pub(super) lost: Lost,
    /// Nodes that have not come back: a former manager placed the job on them, or their Node
    /// Managers have ended.
    pub(super) unheard: NodeSet,
    /// For the nodes whose Node Managers ended under this manager: until when they may come back,
    /// and when their keepers have otherwise ended the ranks.
    pub(super) away: super::away::Away,
    /// Nodes that know how much input this manager has sent them.
    pub(super) input_known: NodeSet,
    /// How much output of each rank and stream has come.
    pub(super) outputs: BTreeMap<(Rank, bool), u64>,
    /// Nodes that came back and had never heard of its launch.
    pub(super) lacking: NodeSet,
    /// Whether its nodes hold its output, since its client may come back.
    pub(super) hold_output: bool,
    pub(super) exits: BTreeMap<Rank, RankExit>,
    /// The classes of its ranks, as its nodes report them.
    pub(super) classes: BTreeMap<Rank, super::classes::ToldClass>,
    pub(super) fences: super::pmi_fences::PmiFences,
    /// The policy was told that its processing elements are free.
    pub(super) released: bool,
    pub(super) placed_at: Instant,
    pub(super) staged_at: Instant,
    pub(super) launched_at: Instant,
    pub(super) stage: super::StageOutcome,
    /// Time it ran up to `active_since`.
    pub(super) ran: Duration,
    /// Since when its row is active.
    pub(super) active_since: Option<Instant>,
}

impl LiveJob {
    /// Its run time, without the time for which it was stopped.
    pub(super) fn run_time(&self, now: Instant) -> Duration {
        self.ran + self.active_since.map_or(Duration::ZERO, |since| now - since)
    }

    /// The earliest instant at which its run time can reach `limit`. The run time of a stopped job
    /// stands still, so the result is then only when to look again.
    pub(super) fn earliest(&self, now: Instant, limit: Duration) -> Instant {
        let left = limit.saturating_sub(self.run_time(now));
        let stopped = self.active_since.is_none();
        now + if stopped { left.max(STOPPED_TIMER) } else { left }
    }

    /// Records that its processes run, or do not, from now on.
    pub(super) fn set_active(&mut self, now: Instant, active: bool) {
        self.ran = self.run_time(now);
        self.active_since = active.then_some(now);
    }

    /// The facts that the driver needs to watch its flags.
    pub(super) fn watch(&self, job: JobId) -> Watch {
        let (incarnation, slot, nodes) = (self.incarnation, self.slot, self.nodes.clone());
        Watch { job, incarnation, slot, nodes }
    }

    /// Whether every node's part is over.
    pub(super) fn is_over(&self) -> bool {
        self.nodes.is_subset(&self.over)
    }
}

/// A job that the policy has placed, and that waits for a free place in the global arrays of flags.
#[derive(Clone, Debug)]
pub(super) struct AwaitingFlags {
    pub(super) job: JobId,
    pub(super) partition: PartitionId,
    pub(super) placement: Placement,
    pub(super) slot: Slot,
    /// The rows that it is to run in.
    pub(super) rows: RowSet,
    /// The job for which it is already suspended.
    pub(super) suspended_for: Option<JobId>,
}

impl AwaitingFlags {
    /// Its nodes.
    pub(super) fn nodes(&self, core: &Core) -> Vec<NodeId> {
        let members = &core.partitions[usize::from(self.partition.0)].members;
        let shares = self.placement.shares().iter();
        shares.map(|share| members[share.node.0 as usize]).collect()
    }
}

/// Which places in the global arrays of flags are free.
#[derive(Debug)]
pub(super) struct SlotPool {
    free: BTreeSet<u32>,
}

impl SlotPool {
    pub(super) fn new(slots: u32) -> SlotPool {
        SlotPool { free: (0..slots).collect() }
    }

    pub(super) fn take(&mut self) -> Option<JobSlot> {
        self.free.pop_first().map(JobSlot)
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &BTreeSet<u32> {
        &self.free
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn put_back(&mut self, slot: JobSlot) {
        self.free.insert(slot.0);
    }
}
