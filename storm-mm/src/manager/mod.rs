//! The decisions of the Machine Manager: a state machine without I/O, clock or network.
//!
//! The core receives events with their times, and answers with [`Effects`] for the driver to carry
//! out. The real daemon and the simulated machine drive the same object.
//!
//! The core does not choose where jobs run (the partition's policy in `storm-sched` does) and
//! touches no node (the driver does, through `storm-rm`).

mod absent_clients;
mod admission;
mod arrays;
mod attributes;
mod away;
mod choosing;
mod classes;
mod configuration;
mod coscheduling;
mod cut_launches;
mod dependencies;
mod draft;
mod draining;
mod early_signals;
mod effect;
mod eligibility;
mod ending;
mod fencing;
mod holders;
mod holding;
mod job_rows;
mod jobs;
mod launching;
mod listing;
mod live;
#[cfg(test)]
mod model;
mod node_table;
mod node_views;
mod outputs;
mod outside_matrix;
mod partitions;
mod pmi_fences;
mod preempting;
mod preemption;
mod priorities;
mod priority_table;
mod reason_codes;
mod recovery;
mod reports;
mod reservations;
mod restored_elements;
mod returning;
mod returns;
mod scheduling;
mod settings;
mod shares;
mod step_clients;
mod step_ends;
mod step_launch;
mod step_limits;
mod step_order;
mod step_ranks;
mod step_views;
mod steps;
mod stopping;
mod strobing;
mod switching;
mod unmet;
mod updating;
mod views;
mod waited;

#[cfg(test)]
pub(crate) use model::{model_config, model_spec};

pub use draft::{ActiveRows, Draft, Launch, Resumed};
pub use effect::{
    ClusterTimer, Durable, Effects, Immediate, JobTimer, Notice, StageJob, StageOutcome, StepTimer,
    Timer, Watch,
};
pub use partitions::{NextEdge, PartitionError};
pub use step_order::{StepOrder, StepOrderKind};
pub use steps::{AskedStep, STEPS_MAX, StepRequest};

use crate::cluster::{ClusterEvent, ClusterEventKind};
use crate::job::{JobEvent, JobEventKind, JobRecord};
use crate::journal;
use crate::{CoreConfig, NodeBook};
use absent_clients::AbsentClients;
use configuration::Configuration;
use jiff::{SignedDuration, Timestamp};
use jobs::JobTable;
use live::LiveJobs;
use node_table::NodeTable;
use partitions::Partitions;
use preemption::Preemption;
use priority_table::Priorities;
use reservations::ReservationTable;
use returns::Returns;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::{JobId, StepRef};

/// The Machine Manager's state.
pub struct Core {
    config: Configuration,
    nodes: NodeTable,
    partitions: Partitions,
    jobs: JobTable,
    live: LiveJobs,
    returns: Returns,
    /// Nodes whose Node Managers were asked to end, and wait until their slices stand.
    leaving: NodeSet,
    absent_clients: AbsentClients,
    priorities: Priorities,
    preemption: Preemption,
    /// Nodes that are for some jobs only, now or later.
    reservations: ReservationTable,
    effects: Effects,
}

impl Core {
    /// Makes a manager with the jobs of `journal`, in the order in which the events were appended.
    /// No node is up yet.
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
        let partitions = Partitions::new(&config, &ids)?;
        let mut core = Core {
            nodes,
            partitions,
            jobs: JobTable::new(config.history_limit),
            live: LiveJobs::new(config.job_slots),
            returns: Returns::default(),
            leaving: NodeSet::new(),
            absent_clients: AbsentClients::default(),
            priorities: Priorities::new(&config.service),
            preemption: Preemption::new(&config.service),
            reservations: ReservationTable::default(),
            effects: Effects::default(),
            config: Configuration::new(config),
        };
        let has_former = !journal.is_empty();
        core.recover(journal, now);
        if has_former {
            core.expect_all(now);
        }
        core.number_nodes(now, &book);
        core.begin_reckoning(now);
        core.partitions.ids().for_each(|id| core.warn_if_never_preempting(id));
        Ok(core)
    }

    /// The effects to carry out now.
    pub fn take_effects(&mut self) -> Effects {
        // A caller that takes the effects has let the core act.
        self.partitions.outdate_walk();
        std::mem::take(&mut self.effects)
    }

    /// Whether the cluster is to end and no job is left on any node.
    pub fn is_down(&self) -> bool {
        self.jobs.is_closed() && self.live.is_empty()
    }

    /// The id of the node of this name, if it is configured.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, entry)| entry.name == name).map(|(id, _)| id)
    }

    /// The step that a job ends with.
    fn first_step(&self, job: JobId) -> StepRef {
        self.jobs.get(&job).map_or(StepRef::program(job), JobRecord::first_step)
    }

    /// The name of a node, even of a node that is no longer configured.
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
        self.partitions.count()
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
                self.partitions.set_configured(partitions);
            }
            ClusterEventKind::PartitionsSet { settings } => {
                self.partitions.set_settings(settings);
            }
            ClusterEventKind::NodesDrained { drained } => self.nodes.set_drained(drained),
            ClusterEventKind::ReservationsSet { next, reservations } => {
                self.reservations.set(*next, reservations);
            }
            ClusterEventKind::UsageNoted { usage, charged } => {
                self.priorities.restore_usage(event.at, usage, charged);
            }
        }
    }

    fn apply(&mut self, job: JobId, event: &JobEvent) {
        self.charge_for(job, event);
        self.jobs.apply(job, event);
    }

    /// The nodes of `set` that are up.
    fn up(&self, set: &NodeSet) -> NodeSet {
        set.intersection(self.nodes.up())
    }

    fn node_name(&self, node: NodeId) -> String {
        self.nodes.name(node)
    }
}
