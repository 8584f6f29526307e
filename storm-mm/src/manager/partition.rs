//! A partition: nodes under one policy, and the slices of its time.

use super::node_table::fold_names;
use super::slice_order::SliceOrder;
use crate::CoreConfig;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::{Coscheduling, JobId, Row, RowSet};
use storm_sched::{
    Capability, Event, Machine, MachineError, NodeIndex, Placement, Policy, PolicyParams, Registry,
    UnknownPolicy, Unsupported,
};
use thiserror::Error;

/// The abilities that the Machine Manager offers a policy beyond starting jobs and switching rows:
/// none. Processes cannot move from node to node.
const CAPABILITIES: &[Capability] = &[];

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// An inconsistent partition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// Jobs need at least one partition.
    #[error("no partition is configured")]
    None,
    /// Two have the same name.
    #[error("there are two partitions named {0:?}")]
    Duplicate(String),
    /// The partition names a policy that does not exist.
    #[error("partition {partition:?}")]
    Policy {
        /// The partition.
        partition: String,
        /// Which policies there are.
        #[source]
        source: UnknownPolicy,
    },
    /// The partition's policy needs an ability that the manager lacks.
    #[error("partition {partition:?}")]
    Unsupported {
        /// The partition.
        partition: String,
        /// The ability, and what to do instead.
        #[source]
        source: Unsupported,
    },
    /// Its nodes do not form a machine.
    #[error("partition {partition:?}")]
    Machine {
        /// The partition.
        partition: String,
        /// Why not.
        #[source]
        source: MachineError,
    },
    /// A node is in two partitions.
    #[error("node {node} is in partition {first:?} and in {second:?}: one policy rules a node")]
    Overlap {
        /// The node.
        node: String,
        /// One partition.
        first: String,
        /// The other.
        second: String,
    },
    /// The partition lists a node that is not configured.
    #[error("partition {partition:?} has a node of index {index}, and there are {nodes} nodes")]
    NoSuchNode {
        /// The partition.
        partition: String,
        /// The index.
        index: usize,
        /// Nodes configured.
        nodes: usize,
    },
    /// There are more names of nodes than ids.
    #[error("there are more names of nodes, with those of the jobs in the journal, than {most}")]
    NodeIds {
        /// Ids that there are.
        most: u32,
    },
    /// Rows are named by a bit each.
    #[error(
        "partition {partition:?} allows {rows} rows; at most {} are possible",
        RowSet::MAX_ROWS
    )]
    TooManyRows {
        /// The partition.
        partition: String,
        /// Its multiprogramming limit.
        rows: u32,
    },
}

/// A change of the policy under way: the present policy starts nothing any more.
#[derive(Clone, Debug)]
pub(super) struct Switching {
    /// The policy that takes over.
    pub(super) sched: String,
    /// The jobs that wait for it, in order.
    pub(super) queue: Vec<JobId>,
}

/// One partition at work.
pub(super) struct Partition {
    pub(super) name: String,
    pub(super) default: bool,
    pub(super) policy: Box<dyn Policy>,
    /// The policies that it can have.
    policies: Registry,
    /// The parameters that the policy was made with; the quantum as last set.
    pub(super) params: PolicyParams,
    /// The change to another policy, if there is one.
    pub(super) switching: Option<Switching>,
    /// The node at each index of the policy's machine.
    pub(super) members: Vec<NodeId>,
    pub(super) nodes: NodeSet,
    pub(super) node_list: String,
    /// Jobs submitted or withdrawn in one request. The policy is told of all of them together.
    pub(super) untold: Vec<Event>,
    pub(super) slices: SliceOrder,
    /// The number of the last slice of communication that ended with nothing on the way.
    pub(super) checkpoint: Option<u64>,
}

impl Partition {
    /// All partitions; `ids` are those of the nodes as configured.
    pub(super) fn make_all(
        config: &CoreConfig,
        ids: &[NodeId],
    ) -> Result<Vec<Partition>, PartitionError> {
        let mut owners: BTreeMap<usize, &str> = BTreeMap::new();
        let mut partitions: Vec<Partition> = Vec::new();
        for given in &config.partitions {
            if partitions.iter().any(|other| other.name == given.name) {
                return Err(PartitionError::Duplicate(given.name.clone()));
            }
            let nodes = config.nodes.len();
            if let Some(&index) = given.nodes.iter().find(|index| **index >= nodes) {
                let partition = given.name.clone();
                return Err(PartitionError::NoSuchNode { partition, index, nodes });
            }
            for index in &given.nodes {
                if let Some(first) = owners.insert(*index, &given.name) {
                    return Err(PartitionError::Overlap {
                        node: config.nodes[*index].name.clone(),
                        first: first.to_owned(),
                        second: given.name.clone(),
                    });
                }
            }
            partitions.push(Partition::make(config, given, ids)?);
        }
        if !partitions.iter().any(|partition| partition.default) {
            partitions.first_mut().ok_or(PartitionError::None)?.default = true;
        }
        Ok(partitions)
    }

    fn make(
        config: &CoreConfig,
        given: &crate::PartitionConfig,
        ids: &[NodeId],
    ) -> Result<Partition, PartitionError> {
        let partition = given.name.clone();
        let rows_max = given.params.mpl_limit.get();
        if rows_max > RowSet::MAX_ROWS {
            return Err(PartitionError::TooManyRows { partition, rows: rows_max });
        }
        let nodes: Vec<_> = given.nodes.iter().map(|index| &config.nodes[*index]).collect();
        let mut machine = Machine::of_nodes(nodes.iter().map(|&node| node.clone()))
            .map_err(|source| PartitionError::Machine { partition: partition.clone(), source })?;
        machine.reserve_memory(given.params.memory_reserve_mib.saturating_mul(MIB));
        let mut policy = config
            .policies
            .make(&given.sched, machine, &given.params)
            .map_err(|source| PartitionError::Policy { partition: partition.clone(), source })?;
        Capability::check(policy.as_ref(), CAPABILITIES)
            .map_err(|source| PartitionError::Unsupported { partition, source })?;
        // Nodes take jobs only once they have joined.
        for index in 0..nodes.len() as u32 {
            let down = Event::NodeDown(NodeIndex(index));
            policy.handle(storm_sched::SchedTime::default(), down);
        }
        let members: Vec<NodeId> = given.nodes.iter().map(|index| ids[*index]).collect();
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        Ok(Partition {
            name: given.name.clone(),
            default: given.default,
            policy,
            policies: config.policies.clone(),
            params: given.params,
            switching: None,
            nodes: members.iter().copied().collect(),
            members,
            node_list: fold_names(&names),
            untold: Vec::new(),
            slices: SliceOrder::new(),
            checkpoint: None,
        })
    }

    /// Rows that its matrix may have.
    pub(super) fn rows_max(&self) -> u32 {
        let own_elements = self.runs_all() && self.coscheduling() == Coscheduling::Strobed;
        if own_elements { 1 } else { self.params.mpl_limit.get() }
    }

    /// The policy that is to take over, if a change is under way.
    pub(super) fn next_sched(&self) -> Option<&str> {
        self.switching.as_ref().map(|switching| switching.sched.as_str())
    }

    /// A policy for its nodes as they are, without jobs.
    pub(super) fn fresh_policy(&self, sched: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
        self.policies.make(sched, self.policy.machine().clone(), &self.params)
    }

    /// Whether the running jobs must end before the partition can get this policy. They must if
    /// their ranks communicate in slices under only one of the two policies, since a rank cannot
    /// change while it runs.
    pub(super) fn drains_for(&self, sched: &str) -> bool {
        let in_slices = |policy: &dyn Policy| policy.communication_slice().is_some();
        let next = self.fresh_policy(sched);
        next.is_ok_and(|next| in_slices(next.as_ref()) != in_slices(self.policy.as_ref()))
    }

    /// Whether time is being cut into slices: more than one row holds jobs.
    pub(super) fn is_slicing(&self) -> bool {
        self.policy.next_edge_needed()
    }

    /// The length of its slices; `None` while its time is not sliced.
    pub(super) fn slice(&self) -> Option<Duration> {
        self.policy.quantum().filter(|_| self.is_slicing())
    }

    /// The row that is active.
    pub(super) fn active(&self) -> Row {
        self.slices.active()
    }

    /// The number of next slices that its nodes begin by themselves, if that order still holds.
    pub(super) fn slices_ahead(&self) -> usize {
        self.slices.ahead(self.slice())
    }

    /// Whether a job of these rows is launched without waiting for an edge: it can run in the
    /// present slice.
    pub(super) fn may_launch(&self, rows: RowSet) -> bool {
        rows != RowSet::NONE && (!self.is_slicing() || self.runs(rows))
    }

    pub(super) fn index_of(&self, node: NodeId) -> Option<NodeIndex> {
        self.members.iter().position(|member| *member == node).map(|i| NodeIndex(i as u32))
    }

    /// The elements of a placement by node: ranges, each without its end. Columns change with the
    /// configuration, elements of nodes do not.
    pub(super) fn elements_of(&self, placement: &Placement) -> Vec<(NodeId, u32, u32)> {
        let (columns, machine) = (placement.columns(), self.policy.machine());
        let mut elements = Vec::new();
        for share in placement.shares() {
            let index = share.node;
            let Some(node) = machine.node(index) else { continue };
            let (own, member) = (node.columns(), self.members[index.0 as usize]);
            for range in columns.ranges() {
                let (start, end) = (range.start.max(own.start), range.end.min(own.end));
                if start < end {
                    elements.push((member, start - own.start, end - own.start));
                }
            }
        }
        elements
    }

    /// Whether a job of these rows runs now.
    pub(super) fn runs(&self, rows: RowSet) -> bool {
        rows.contains(self.active())
    }

    /// The rows of a job that has just got the home row `row`.
    pub(super) fn rows_of_new(&self, row: Row) -> RowSet {
        if self.runs_all() { RowSet::ALL } else { RowSet::single(row) }
    }

    /// How the ranks of its jobs come to run together.
    pub(super) fn coscheduling(&self) -> Coscheduling {
        match self.policy.coscheduling() {
            storm_sched::Coscheduling::Strobed => Coscheduling::Strobed,
            storm_sched::Coscheduling::Implicit => Coscheduling::Implicit,
            storm_sched::Coscheduling::Local => Coscheduling::Local,
            storm_sched::Coscheduling::PeriodicBoost => Coscheduling::PeriodicBoost,
            storm_sched::Coscheduling::Flexible => Coscheduling::Flexible,
        }
    }

    /// Whether all jobs run at once. A policy without a quantum never stops a job for another: jobs
    /// have their elements to themselves, or all rows run at once.
    pub(super) fn runs_all(&self) -> bool {
        self.policy.quantum().is_none()
    }
}
