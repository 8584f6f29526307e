//! The decisions of the Machine Manager: a state machine without I/O, clock or network.
//!
//! The core is told events with their times, and answers with [`Effects`] for the driver to carry out. The live daemon and the simulated machine drive the same object.
//!
//! The core does not choose where jobs run (the partition's policy in `storm-sched` does) and
//! touches no node (the driver does, through `storm-rm`).

mod admission;
mod arrays;
mod away;
mod classes;
mod coscheduling;
mod cut_launches;
mod dependencies;
mod draining;
mod effect;
mod eligibility;
mod ending;
mod fencing;
mod held_bytes;
mod holders;
mod holding;
mod launching;
mod listing;
mod live_job;
#[cfg(test)]
mod model;
mod needs_table;
pub(crate) mod node_names;
mod node_table;
mod node_views;
mod outside_matrix;
mod partition;
mod pmi_fences;
mod preempting;
mod priorities;
mod recovery;
mod reports;
mod reservations;
mod restored_elements;
mod returning;
mod scheduling;
mod settings;
mod shares;
mod slots;
mod strobing;
mod switching;
mod unmet;
mod views;
mod waited;

#[cfg(test)]
pub(crate) use model::{model_config, model_spec};

pub use effect::{
    ClusterTimer, Durable, Effects, Immediate, JobTimer, Notice, StageJob, StageOutcome, Timer,
    Watch,
};
pub use partition::PartitionError;

use crate::cluster::{ClusterEvent, ClusterEventKind, PartitionConfigured, PartitionSetting};
use crate::history::History;
use crate::job::{JobEvent, JobEventKind, JobRecord};
use crate::journal;
use crate::{CoreConfig, NodeBook};
use fencing::Fencing;
use held_bytes::HeldBytes;
use jiff::{SignedDuration, Timestamp};
use listing::LastWalk;
use live_job::{AwaitingFlags, LiveJob, SlotPool};
use needs_table::NeedsTable;
use node_table::NodeTable;
use partition::Partition;
use preempting::Preemption;
use priorities::Priorities;
use reservations::ReservationTable;
use returning::HeldRuns;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::{JobId, PartitionId, RecentEnvironments};

/// The Machine Manager's state.
pub struct Core {
    config: CoreConfig,
    nodes: NodeTable,
    partitions: Vec<Partition>,
    /// Jobs that have not ended, and those that have and are remembered.
    jobs: BTreeMap<JobId, JobRecord>,
    /// Which of the ended jobs are remembered.
    history: History,
    /// Jobs that hold processing elements.
    live: BTreeMap<JobId, LiveJob>,
    /// The live jobs that run outside the matrix.
    outside_matrix: BTreeSet<JobId>,
    slots: SlotPool,
    awaiting_flags: VecDeque<AwaitingFlags>,
    /// The jobs that returning nodes say they hold, until a node has reported all.
    held: BTreeMap<NodeId, HeldRuns>,
    /// Jobs that are to run again, while a node may still run them.
    fencing: BTreeMap<JobId, Fencing>,
    /// The needs of jobs other than elements, and the arrays.
    needs: NeedsTable,
    /// Jobs that clients wait for.
    awaited: BTreeSet<JobId>,
    /// Waiting jobs are being told of ends.
    settling: bool,
    /// The settings of partitions that were changed at run time, by name.
    settings: BTreeMap<String, PartitionSetting>,
    /// The latest known configuration of each partition, by name.
    configured: BTreeMap<String, PartitionConfigured>,
    priorities: Priorities,
    preemption: Preemption,
    /// Nodes that are for some jobs only, now or later.
    reservations: ReservationTable,
    environments: RecentEnvironments,
    /// The memory that each user's jobs hold.
    held_bytes: HeldBytes,
    next_job: u64,
    /// The number of the next run, over all jobs. Flags that an earlier job left in a slot must not
    /// be taken for those of a later run (`docs/decisions/0003-termination.md`).
    next_incarnation: u32,
    shutting_down: bool,
    counters: Counters,
    last_walk: LastWalk,
    effects: Effects,
}

/// Counts since this manager started.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    submitted_before: u64,
    launches: u64,
    launch_failures: u64,
    strobes: u64,
}

impl Core {
    /// Makes a manager that knows the jobs of `journal`, in the order in which the events were
    /// appended, and no node yet.
    ///
    /// # Errors
    /// A [`PartitionError`] when the configured partitions are inconsistent.
    pub fn new(
        config: CoreConfig,
        journal: impl IntoIterator<Item = journal::Entry>,
        now: Instant,
    ) -> Result<Core, PartitionError> {
        let journal: Vec<journal::Entry> = journal.into_iter().collect();
        let book = NodeBook::of(&journal, config.nodes.iter().map(|node| node.name.as_str()))?;
        let ids = config.nodes.iter().filter_map(|node| book.id(&node.name));
        let ids: Vec<NodeId> = ids.collect();
        let nodes = NodeTable::new(&config.nodes, &ids, &book);
        let partitions = Partition::make_all(&config, &ids)?;
        let mut core = Core {
            slots: SlotPool::new(config.job_slots),
            nodes,
            partitions,
            jobs: BTreeMap::new(),
            outside_matrix: BTreeSet::new(),
            history: History::new(config.history_limit),
            live: BTreeMap::new(),
            awaiting_flags: VecDeque::new(),
            held: BTreeMap::new(),
            fencing: BTreeMap::new(),
            needs: NeedsTable::default(),
            awaited: BTreeSet::new(),
            settling: false,
            settings: BTreeMap::new(),
            configured: BTreeMap::new(),
            priorities: Priorities::new(&config.service),
            preemption: Preemption::new(&config.service),
            reservations: ReservationTable::default(),
            environments: RecentEnvironments::default(),
            held_bytes: HeldBytes::default(),
            next_job: 1,
            next_incarnation: 1,
            shutting_down: false,
            counters: Counters::default(),
            last_walk: LastWalk::default(),
            effects: Effects::default(),
            config,
        };
        core.recover(journal, now);
        core.number_nodes(now, &book);
        core.begin_reckoning(now);
        (0..core.partition_count()).for_each(|id| core.warn_if_never_preempting(PartitionId(id)));
        Ok(core)
    }

    /// The effects to carry out now.
    pub fn take_effects(&mut self) -> Effects {
        // A caller that takes the effects has let the core act.
        self.last_walk.outdated = true;
        std::mem::take(&mut self.effects)
    }

    /// Whether the cluster is to end and no job is left on any node.
    pub fn is_down(&self) -> bool {
        self.shutting_down && self.live.is_empty()
    }

    /// The id of the node of this name, if it is configured.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, entry)| entry.name == name).map(|(id, _)| id)
    }

    /// The name of a node, even of one that is no longer configured.
    pub fn name_of_node(&self, node: NodeId) -> String {
        self.nodes.name(node)
    }

    /// Names of nodes, folded.
    pub fn names_of_nodes(&self, nodes: &NodeSet) -> String {
        self.nodes.fold(nodes)
    }

    /// Journals the ids of the nodes before any job is placed.
    fn number_nodes(&mut self, now: Instant, book: &NodeBook) {
        if let Some(kind) = book.news() {
            let event = ClusterEvent { at: self.wall(now), kind };
            self.effects.durable.insert(0, Durable::Journal(journal::Entry::Cluster(event)));
        }
    }

    /// The number of partitions.
    pub fn partition_count(&self) -> u16 {
        self.partitions.len() as u16
    }

    /// The wall-clock time of an instant.
    fn wall(&self, now: Instant) -> Timestamp {
        let since = SignedDuration::try_from(now.since_origin()).unwrap_or(SignedDuration::MAX);
        self.config.origin.checked_add(since).unwrap_or(Timestamp::MAX)
    }

    /// Appends an event of a job. A job changes in no other way.
    fn append(&mut self, now: Instant, job: JobId, kind: JobEventKind) {
        let event = JobEvent { at: self.wall(now), kind };
        self.apply(job, &event);
        self.effects.durable.push(Durable::Journal(journal::Entry::Job(job, event)));
    }

    /// Appends an event of the cluster.
    fn append_of_cluster(&mut self, now: Instant, kind: ClusterEventKind) {
        let event = ClusterEvent { at: self.wall(now), kind };
        self.apply_of_cluster(&event);
        self.effects.durable.push(Durable::Journal(journal::Entry::Cluster(event)));
    }

    fn apply_of_cluster(&mut self, event: &ClusterEvent) {
        match &event.kind {
            // The book was read before the replay.
            ClusterEventKind::NodesNumbered { .. } => {}
            ClusterEventKind::PartitionsConfigured { partitions } => {
                self.configured.clone_from(partitions);
            }
            ClusterEventKind::PartitionsSet { settings } => self.settings.clone_from(settings),
            ClusterEventKind::NodesDrained { drained } => self.apply_drained(drained),
            ClusterEventKind::ReservationsSet { next, reservations } => {
                self.reservations.set(*next, reservations);
            }
            ClusterEventKind::UsageNoted { usage, charged } => {
                self.restore_usage(event.at, usage, charged);
            }
        }
    }

    fn apply(&mut self, job: JobId, event: &JobEvent) {
        self.charge_for(job, event);
        let Some(record) = self.jobs.get_mut(&job) else {
            let records = JobRecord::from_first(job, event);
            self.needs.submitted(job, &records);
            for record in records {
                if let Entry::Vacant(place) = self.jobs.entry(record.id) {
                    self.held_bytes.add(&record.spec);
                    place.insert(record);
                }
            }
            return;
        };
        let begun_before = record.begun.is_some();
        record.apply(event);
        self.preemption.note(record);
        if let (false, Some(at)) = (begun_before, record.begun) {
            self.needs.job_begun(record, at);
        }
        if let JobEventKind::Ended { outcome, .. } = &event.kind {
            self.needs.job_ended(record, outcome);
            record.spec = self.held_bytes.remove(&record.spec);
            let forgotten = self.history.note(job, record.spec.owner.uid);
            if let Some(forgotten) = forgotten.and_then(|job| self.jobs.remove(&job)) {
                self.needs.forgotten(&forgotten);
            }
        }
    }

    fn partition(&mut self, id: PartitionId) -> &mut Partition {
        &mut self.partitions[usize::from(id.0)]
    }

    fn partition_named(&self, name: &str) -> Option<PartitionId> {
        let index = self.partitions.iter().position(|partition| partition.name == name)?;
        Some(PartitionId(index as u16))
    }

    /// The nodes of `set` that are up.
    fn up(&self, set: &NodeSet) -> NodeSet {
        set.intersection(self.nodes.up())
    }

    fn node_name(&self, node: NodeId) -> String {
        self.nodes.name(node)
    }
}
