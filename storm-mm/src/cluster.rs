//! The events of the cluster, as the journal holds them: the state of the Machine Manager that
//! belongs to no job. The events of jobs are in [`crate::job`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::NodeId;
use storm_rm::JobId;
use storm_sched::ReservationId;

/// Something that happened to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterEvent {
    /// When, by the Machine Manager's wall clock.
    pub at: Timestamp,
    /// The kind of event.
    pub kind: ClusterEventKind,
}

/// The kinds of events of the cluster. Each gives a state whole, so it replaces the previous event
/// of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ClusterEventKind {
    /// Nodes got ids.
    NodesNumbered {
        /// The ids of all nodes that are configured or that a run in the journal was on, by name.
        ids: BTreeMap<String, NodeId>,
    },
    /// A manager has started with another configuration of partitions.
    PartitionsConfigured {
        /// The last configuration of each, by name, also of partitions that are no longer
        /// configured.
        partitions: BTreeMap<String, PartitionConfigured>,
    },
    /// The settings of the partitions were changed.
    PartitionsSet {
        /// The settings of every partition that differs from its configuration, by name.
        settings: BTreeMap<String, PartitionSetting>,
    },
    /// Nodes were taken out of service or given back.
    NodesDrained {
        /// All nodes that are out of service, by name, with the reasons.
        drained: BTreeMap<String, String>,
    },
    /// Reservations were made or deleted.
    ReservationsSet {
        /// The number of the next reservation.
        next: u64,
        /// All reservations that are not over.
        reservations: Vec<ReservationRecord>,
    },
    /// The usage of all users was summed up.
    UsageNoted {
        /// The decayed usage of every user.
        usage: Vec<UsageOf>,
        /// The part of each present run that the usage contains.
        charged: BTreeMap<JobId, Duration>,
    },
}

/// The configured values of those settings of a partition that can be changed at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionConfigured {
    /// The name of its policy.
    pub sched: String,
    /// The length of a slice, in microseconds.
    pub quantum_us: u64,
}

/// The settings of a partition that were changed at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSetting {
    /// The name of its policy.
    pub sched: String,
    /// The length of a slice, in microseconds.
    pub quantum_us: u64,
    /// The policy that takes over as soon as its rows hold the jobs that run.
    pub next_sched: Option<String>,
}

/// A reservation, as the journal holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRecord {
    /// Its number, which no other reservation ever has.
    pub id: ReservationId,
    /// Its name, which no other reservation has until this one is over.
    pub name: String,
    /// The partition of its nodes.
    pub partition: String,
    /// Its nodes, by name.
    pub nodes: Vec<String>,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// The users that may use it, by name or number; empty: all users.
    pub users: Vec<String>,
}

/// The usage of a user under an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageOf {
    /// The account.
    pub account: String,
    /// The user.
    pub uid: u32,
    /// How much, in processor-seconds, decayed up to the time of the event.
    pub pe_s: f64,
}
