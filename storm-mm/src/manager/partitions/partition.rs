//! A partition: nodes under one policy, and the slices of its time.

use super::NextEdge;
use super::error::PartitionError;
use super::slice_order::SliceOrder;
use crate::CoreConfig;
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet, fold_names};
use storm_rm::message::Slices;
use storm_rm::{Coscheduling, JobId, PartitionId, Row, RowSet};
use storm_sched::{
    Action, Capability, Event, Machine, NodeIndex, Placement, Policy, PolicyParams, Quantum,
    Registry, SchedTime, UnknownPolicy,
};

/// The abilities that the Machine Manager offers a policy beyond starting jobs and switching rows:
/// none. Processes cannot move from node to node.
const CAPABILITIES: &[Capability] = &[];

/// The most slices that a strobe orders: a byte or two of its message each.
const SLICES_MAX: u128 = 256;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// A change of the policy under way: the present policy starts nothing any more.
#[derive(Clone, Debug)]
struct Switching {
    /// The policy that takes over.
    sched: String,
    /// The jobs that wait for that policy, in order.
    queue: Vec<JobId>,
}

/// One partition at work.
pub(in crate::manager) struct Partition {
    name: String,
    default: bool,
    site: Site,
    policy: Box<dyn Policy>,
    /// The policies that it can have.
    policies: Registry,
    /// The parameters that the policy was made with; the quantum as last set.
    params: PolicyParams,
    /// The change to another policy, if a change is under way.
    switching: Option<Switching>,
    /// Jobs submitted or withdrawn in one request. The policy receives all of their events
    /// together.
    untold: Vec<Event>,
    slices: SliceOrder,
    /// The number of the last slice of communication that ended with nothing on the way.
    checkpoint: Option<u64>,
}

/// The nodes of a partition.
struct Site {
    /// The node at each index of the policy's machine.
    members: Vec<NodeId>,
    nodes: NodeSet,
    node_list: String,
}

impl Partition {
    /// All partitions; `ids` are those of the nodes as configured.
    pub(in crate::manager) fn make_all(
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
            site: Site {
                nodes: members.iter().copied().collect(),
                members,
                node_list: fold_names(&names),
            },
            untold: Vec::new(),
            slices: SliceOrder::new(),
            checkpoint: None,
        })
    }

    pub(in crate::manager) fn name(&self) -> &str {
        &self.name
    }

    /// Whether jobs that name no partition are placed here.
    pub(in crate::manager) fn is_default(&self) -> bool {
        self.default
    }

    pub(in crate::manager) fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
    }

    pub(in crate::manager) fn params(&self) -> &PolicyParams {
        &self.params
    }

    /// The node at each index of the policy's machine.
    pub(in crate::manager) fn members(&self) -> &[NodeId] {
        &self.site.members
    }

    pub(in crate::manager) fn nodes(&self) -> &NodeSet {
        &self.site.nodes
    }

    /// The names of its nodes, folded.
    pub(in crate::manager) fn node_list(&self) -> &str {
        &self.site.node_list
    }

    pub(in crate::manager) fn slices(&self) -> &SliceOrder {
        &self.slices
    }

    /// The next edge of the slices, if the manager sleeps through the next `ahead` edges.
    pub(super) fn next_edge(&mut self, now: Instant, ahead: usize) -> Option<NextEdge> {
        let quantum = self.slice();
        self.slices.next_edge(now, quantum, ahead)
    }

    /// The next edge, if the edge is over and the manager was to sleep through it.
    pub(super) fn slept_through(&mut self, now: Instant) -> Option<Instant> {
        let quantum = self.slice();
        self.slices.slept_through(now, quantum)
    }

    /// Passes an edge through which the manager slept, if nodes begin its slice by themselves.
    pub(super) fn pass(&mut self, edge: Instant, ahead: usize) -> bool {
        self.slices.pass(edge, ahead)
    }

    /// The slice under way ends now. Returns whether the next slice begins on the grid.
    pub(super) fn end_slice(&mut self, now: Instant) -> bool {
        let quantum = self.slice();
        self.slices.end_slice(now, quantum)
    }

    /// An edge is on time.
    pub(super) fn begin_edge_on_time(&mut self) {
        self.slices.begin_edge_on_time();
    }

    /// A regular edge has passed.
    pub(super) fn end_edge(&mut self) {
        self.slices.end_edge();
    }

    /// A job has got other rows.
    pub(super) fn rows_change(&mut self) {
        self.slices.rows_change();
    }

    /// A job is placed on these nodes.
    pub(super) fn job_comes_to(&mut self, nodes: &NodeSet) {
        self.slices.job_comes_to(nodes);
    }

    /// Makes a row active without a strobe.
    #[cfg(test)]
    pub(super) fn make_active(&mut self, row: Row) {
        self.slices.take_over(row);
    }

    /// A node is lost, and will have no order when it returns.
    pub(super) fn node_forgets(&mut self, node: NodeId) {
        self.slices.node_forgets(node);
    }

    /// The active row.
    pub(in crate::manager) fn active(&self) -> Row {
        self.slices.active()
    }

    /// The number of the last slice of communication that ended with nothing on the way.
    pub(in crate::manager) fn checkpoint(&self) -> Option<u64> {
        self.checkpoint
    }

    pub(super) fn set_checkpoint(&mut self, slice: u64) {
        self.checkpoint = Some(slice);
    }

    /// Passes an event to the policy.
    pub(super) fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        self.policy.handle(now, event)
    }

    /// Passes several events of one instant to the policy.
    pub(super) fn handle_together(&mut self, now: SchedTime, events: Vec<Event>) -> Vec<Action> {
        self.policy.handle_together(now, events)
    }

    /// A job enters the queue. Returns the event if the policy is to receive it now. Otherwise the
    /// job waits for another policy, or `later` is true and the event is kept, to be passed
    /// together with others.
    pub(super) fn enqueue(&mut self, job: JobId, event: Event, later: bool) -> Option<Event> {
        if let Some(switching) = &mut self.switching {
            switching.queue.push(job);
            return None;
        }
        self.untold_if(later, event)
    }

    /// A job leaves the queue. Returns the event if the policy is to receive the event now.
    pub(super) fn dequeue(&mut self, job: JobId, event: Event, later: bool) -> Option<Event> {
        if let Some(switching) = &mut self.switching {
            switching.queue.retain(|waiting| *waiting != job);
            return None;
        }
        self.untold_if(later, event)
    }

    fn untold_if(&mut self, later: bool, event: Event) -> Option<Event> {
        if later {
            self.tell_later(event);
            return None;
        }
        Some(event)
    }

    /// The policy receives this event later, together with others.
    pub(super) fn tell_later(&mut self, event: Event) {
        self.untold.push(event);
    }

    /// The events that the policy is now to receive together.
    pub(super) fn take_untold(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.untold)
    }

    /// The jobs that wait for another policy, in order.
    pub(in crate::manager) fn queue_of_next(&self) -> &[JobId] {
        self.switching.as_ref().map_or(&[], |switching| &switching.queue)
    }

    /// Another policy is to take over when it can, and `queue` waits for that policy.
    pub(super) fn begin_switch(&mut self, sched: &str, queue: Vec<JobId>) {
        self.switching = Some(Switching { sched: sched.to_owned(), queue });
    }

    /// No other policy is to take over any more, or the other policy has taken over. Returns the
    /// jobs that waited for that policy.
    pub(super) fn end_switch(&mut self) -> Option<Vec<JobId>> {
        self.switching.take().map(|switching| switching.queue)
    }

    /// Whether the partition has this policy, and no other is to take over.
    pub(in crate::manager) fn stays_under(&self, sched: &str) -> bool {
        self.switching.is_none() && self.policy.name() == sched
    }

    /// Replaces the policy.
    pub(super) fn install(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
    }

    /// Replaces the policy by a policy that has the running jobs. Returns the active row of the new
    /// policy, which is active from now on.
    pub(super) fn take_over(&mut self, policy: Box<dyn Policy>) -> Option<Row> {
        self.install(policy);
        let active = self.policy.active_row()?;
        self.slices.take_over(active);
        Some(active)
    }

    /// Sets the quantum with which policies are made.
    pub(super) fn set_quantum(&mut self, quantum: Quantum) {
        self.params.quantum_us = quantum;
    }

    /// Rows that its matrix may have.
    pub(in crate::manager) fn rows_max(&self) -> u32 {
        let own_elements = self.runs_all() && self.coscheduling() == Coscheduling::Strobed;
        if own_elements { 1 } else { self.params.mpl_limit.get() }
    }

    /// The policy that is to take over, if a change is under way.
    pub(in crate::manager) fn next_sched(&self) -> Option<&str> {
        self.switching.as_ref().map(|switching| switching.sched.as_str())
    }

    /// A policy for its nodes as they are, without jobs.
    pub(in crate::manager) fn fresh_policy(
        &self,
        sched: &str,
    ) -> Result<Box<dyn Policy>, UnknownPolicy> {
        self.policies.make(sched, self.policy.machine().clone(), &self.params)
    }

    /// Whether the running jobs must end before the partition can get this policy. They must if
    /// their ranks communicate in slices under only one of the two policies, since a rank cannot
    /// change while it runs.
    pub(in crate::manager) fn drains_for(&self, sched: &str) -> bool {
        let in_slices = |policy: &dyn Policy| policy.communication_slice().is_some();
        let next = self.fresh_policy(sched);
        next.is_ok_and(|next| in_slices(next.as_ref()) != in_slices(self.policy.as_ref()))
    }

    /// Whether time is being cut into slices: more than one row holds jobs.
    pub(in crate::manager) fn is_slicing(&self) -> bool {
        self.policy.next_edge_needed()
    }

    /// The length of its slices; `None` while its time is not sliced.
    pub(in crate::manager) fn slice(&self) -> Option<Duration> {
        self.policy.quantum().filter(|_| self.is_slicing())
    }

    /// The number of next slices that its nodes begin by themselves, if that order still holds.
    pub(in crate::manager) fn slices_ahead(&self) -> usize {
        self.slices.ahead(self.slice())
    }

    /// Whether the slices that its nodes begin by themselves differ from the policy's present
    /// order.
    pub(in crate::manager) fn slices_are_outdated(&self) -> bool {
        self.slices.is_outdated(self.slice(), |slices| self.policy.upcoming(slices))
    }

    /// The rows of the slices within `span` that a strobe now would order after its own.
    pub(in crate::manager) fn following(&self, span: Duration) -> Vec<Row> {
        let Some(quantum) = self.slice() else { return Vec::new() };
        let slices = span.as_nanos().checked_div(quantum.as_nanos()).unwrap_or(0);
        let further = slices.min(SLICES_MAX).saturating_sub(1) as usize;
        if further == 0 {
            return Vec::new();
        }
        self.policy.upcoming(further)
    }

    /// Another row becomes active. Returns whether all these nodes begin its slice by themselves.
    pub(super) fn activate(&mut self, now: Instant, row: Row, nodes: &NodeSet) -> bool {
        self.slices.activate(now, row, nodes, self.policy.quantum())
    }

    /// The strobe for the active row; see [`SliceOrder::strobe`].
    pub(super) fn strobe(
        &mut self,
        now: Instant,
        id: PartitionId,
        nodes: (NodeSet, &NodeSet),
        following: Vec<Row>,
    ) -> Option<(NodeSet, Slices)> {
        self.slices.strobe(now, id, nodes, (following, self.policy.quantum()))
    }

    /// Whether a job of these rows is launched without waiting for an edge: it can run in the
    /// present slice.
    pub(in crate::manager) fn may_launch(&self, rows: RowSet) -> bool {
        rows != RowSet::NONE && (!self.is_slicing() || self.runs(rows))
    }

    pub(in crate::manager) fn index_of(&self, node: NodeId) -> Option<NodeIndex> {
        self.site.members.iter().position(|member| *member == node).map(|i| NodeIndex(i as u32))
    }

    /// The elements of a placement by node: ranges, each without its end. Columns change with the
    /// configuration, elements of nodes do not.
    pub(in crate::manager) fn elements_of(&self, placement: &Placement) -> Vec<(NodeId, u32, u32)> {
        let (columns, machine) = (placement.columns(), self.policy.machine());
        let mut elements = Vec::new();
        for share in placement.shares() {
            let index = share.node;
            let Some(node) = machine.node(index) else { continue };
            let (own, member) = (node.columns(), self.site.members[index.0 as usize]);
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
    pub(in crate::manager) fn runs(&self, rows: RowSet) -> bool {
        rows.contains(self.active())
    }

    /// The rows of a job that has just got the home row `row`.
    pub(in crate::manager) fn rows_of_new(&self, row: Row) -> RowSet {
        if self.runs_all() { RowSet::ALL } else { RowSet::single(row) }
    }

    /// How the ranks of its jobs are coscheduled.
    pub(in crate::manager) fn coscheduling(&self) -> Coscheduling {
        self.policy.coscheduling()
    }

    /// Whether all jobs run at once. A policy without a quantum never stops a job for another: jobs
    /// have their elements to themselves, or all rows run at once.
    pub(in crate::manager) fn runs_all(&self) -> bool {
        self.policy.quantum().is_none()
    }
}
