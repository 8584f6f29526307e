//! The slices of a partition: the active row, the number of its strobe, and the slices that nodes
//! begin by themselves. The manager sleeps through the edges of these slices ([decision
//! 0091](../../../../docs/decisions/0091-slices-by-the-nodes-clocks.md), [decision
//! 0145](../../../../docs/decisions/0145-one-order-of-slices.md)).
//!
//! The order has no policy, no clock and no jobs. Its callers pass rows, nodes, the quantum and the
//! time. Its results are the strobes to send and the edges to wait for.

mod clock;
#[cfg(test)]
mod model;

use clock::SliceClock;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Slices, Strobe};
use storm_rm::{PartitionId, Row};

/// The state of the slices.
pub(in crate::manager) struct SliceOrder {
    /// The active row.
    active: Row,
    /// When the active row became active, unless it did with a regular edge.
    early_edge: Option<Instant>,
    /// The edge under way is on time.
    on_grid: bool,
    /// The number of the strobe that began the slice under way.
    strobes: u64,
    /// The slices that nodes begin by themselves.
    ordered: Option<Ordered>,
    /// Jobs have got other rows since the last strobe.
    rows_changed: bool,
    /// A job was placed on nodes for which the last strobe did not order slices.
    nodes_came: bool,
    /// The time of the slice under way.
    clock: SliceClock,
}

/// The next edge of a partition's slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextEdge {
    /// The time of the edge.
    pub at: Instant,
    /// The first edge that needs the manager: the next edge, or a later edge. At the edges before,
    /// nodes begin their slices by themselves.
    pub needed: Instant,
}

/// Slices that nodes begin by themselves.
struct Ordered {
    slices: Slices,
    nodes: NodeSet,
}

impl Ordered {
    /// Whether these nodes begin the slice of this number, with this row, without a further strobe.
    fn has(&self, number: u64, row: Row, nodes: &NodeSet, quantum: Option<Duration>) -> bool {
        let index = number.checked_sub(self.slices.strobe.number);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let ordered = index.and_then(|index| self.slices.strobe_of(index));
        ordered.is_some_and(|strobe| strobe.row == row)
            && nodes.is_subset(&self.nodes)
            && self.lasts(quantum)
    }

    /// Whether the slices last this long.
    fn lasts(&self, quantum: Option<Duration>) -> bool {
        quantum.is_some_and(|quantum| nanos(quantum) == self.slices.quantum_ns)
    }

    /// The rows after the slice of this number.
    fn after(&self, number: u64) -> &[Row] {
        let past = number.saturating_sub(self.slices.strobe.number);
        let past = usize::try_from(past).unwrap_or(usize::MAX);
        self.slices.following.get(past..).unwrap_or_default()
    }
}

impl SliceOrder {
    /// Row 0 is active, and no slice is ordered.
    pub(super) fn new() -> SliceOrder {
        SliceOrder {
            active: Row(0),
            early_edge: None,
            on_grid: false,
            strobes: 0,
            ordered: None,
            rows_changed: false,
            nodes_came: false,
            clock: SliceClock::default(),
        }
    }

    /// The active row.
    pub(in crate::manager) fn active(&self) -> Row {
        self.active
    }

    /// The next edge, if the manager sleeps through the next `ahead` edges from now on. `quantum`
    /// is the present length of slices; without it there is no edge.
    pub(super) fn next_edge(
        &mut self,
        now: Instant,
        quantum: Option<Duration>,
        ahead: usize,
    ) -> Option<NextEdge> {
        let at = self.clock.edge(now, quantum, self.early_edge)?;
        self.clock.sleep(ahead);
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        Some(NextEdge { at, needed: at + quantum?.saturating_mul(ahead) })
    }

    /// The next edge, if the edge is over and the manager was to sleep through it.
    pub(super) fn slept_through(
        &mut self,
        now: Instant,
        quantum: Option<Duration>,
    ) -> Option<Instant> {
        if !self.clock.sleeps() {
            return None;
        }
        self.clock.edge(now, quantum, self.early_edge).filter(|edge| *edge <= now)
    }

    /// Passes an edge through which the manager slept, if nodes begin its slice by themselves.
    /// `ahead` is the number of edges through which the manager could sleep now.
    pub(super) fn pass(&mut self, edge: Instant, ahead: usize) -> bool {
        self.clock.sleep(ahead);
        ahead > 0 && self.clock.next(edge, edge)
    }

    /// Whether the manager sleeps through the next edge.
    pub(in crate::manager) fn sleeps(&self) -> bool {
        self.clock.sleeps()
    }

    /// The slice under way ends now, at its edge or later. Returns whether the next slice begins on
    /// the grid; if the edge is too late, the next slice begins now.
    pub(super) fn end_slice(&mut self, now: Instant, quantum: Option<Duration>) -> bool {
        let edge = self.clock.edge(now, quantum, self.early_edge);
        edge.is_some_and(|edge| self.clock.next(now, edge))
    }

    /// When the slice under way began, unless it began with a regular edge.
    #[cfg(test)]
    pub(in crate::manager) fn early_edge(&self) -> Option<Instant> {
        self.early_edge
    }

    /// An edge is on time.
    pub(super) fn begin_edge_on_time(&mut self) {
        self.on_grid = true;
    }

    /// A regular edge has passed.
    pub(super) fn end_edge(&mut self) {
        (self.early_edge, self.on_grid) = (None, false);
    }

    /// A new policy has this row active.
    pub(super) fn take_over(&mut self, active: Row) {
        self.active = active;
    }

    /// A job has got other rows.
    pub(super) fn rows_change(&mut self) {
        self.rows_changed = true;
    }

    /// A job is placed on these nodes.
    pub(super) fn job_comes_to(&mut self, nodes: &NodeSet) {
        let begin_by_themselves = |ordered: &Ordered| nodes.is_subset(&ordered.nodes);
        self.nodes_came |= !self.ordered.as_ref().is_none_or(begin_by_themselves);
    }

    /// A node is lost, and will have no order when it returns.
    pub(super) fn node_forgets(&mut self, node: NodeId) {
        if let Some(ordered) = &mut self.ordered {
            ordered.nodes = ordered.nodes.difference(&NodeSet::single(node));
        }
    }

    /// The number of next slices that nodes begin by themselves, if that order still holds.
    /// `quantum` is the present length of slices; `None` while time is not sliced.
    pub(in crate::manager) fn ahead(&self, quantum: Option<Duration>) -> usize {
        let is_as_told = !self.rows_changed && !self.nodes_came;
        let ordered = self.ordered.as_ref().filter(|ordered| is_as_told && ordered.lasts(quantum));
        ordered.map_or(0, |ordered| ordered.after(self.strobes).len())
    }

    /// Another row becomes active. Returns whether all these nodes begin its slice by themselves;
    /// otherwise they need a [`strobe`](Self::strobe).
    pub(super) fn activate(
        &mut self,
        now: Instant,
        row: Row,
        nodes: &NodeSet,
        quantum: Option<Duration>,
    ) -> bool {
        (self.active, self.early_edge) = (row, Some(now));
        let number = self.strobes + 1;
        let ordered = self.ordered.as_ref().filter(|_| self.on_grid && !self.rows_changed);
        let is_ordered = ordered.is_some_and(|ordered| ordered.has(number, row, nodes, quantum));
        if is_ordered {
            self.strobes = number;
        }
        is_ordered
    }

    /// Whether the slices that nodes begin by themselves differ from the policy's present order.
    /// `upcoming` returns the given number of next rows of the policy.
    pub(in crate::manager) fn is_outdated(
        &self,
        quantum: Option<Duration>,
        upcoming: impl FnOnce(usize) -> Vec<Row>,
    ) -> bool {
        let Some(ordered) = &self.ordered else { return false };
        let rest = ordered.after(self.strobes);
        upcoming(rest.len()) != rest || !ordered.lasts(quantum) || self.rows_changed
    }

    /// A strobe for these nodes: the active row, and the rows of the next slices. Nodes among `up`
    /// that are ahead get the strobe too: they would ignore the active row in a launch. `None` if
    /// no node needs a strobe.
    pub(super) fn strobe(
        &mut self,
        now: Instant,
        partition: PartitionId,
        (nodes, up): (NodeSet, &NodeSet),
        (following, quantum): (Vec<Row>, Option<Duration>),
    ) -> Option<(NodeSet, Slices)> {
        let nodes = match &self.ordered {
            Some(ordered) => nodes.union(&ordered.nodes.intersection(up)),
            None => nodes,
        };
        let number = self.next_strobe();
        let strobe = Strobe { partition, row: self.active, number, issued_ns: now.as_nanos() };
        let slices = Slices { strobe, quantum_ns: quantum.map_or(0, nanos), following };
        if nodes.is_empty() {
            return None;
        }
        if !slices.following.is_empty() {
            self.ordered = Some(Ordered { slices: slices.clone(), nodes: nodes.clone() });
        }
        Some((nodes, slices))
    }

    /// The number of the next strobe, higher than any that a node may have reached by itself.
    fn next_strobe(&mut self) -> u64 {
        let ordered = self.ordered.take().map_or(0, |ordered| ordered.slices.last_number());
        self.strobes = self.strobes.max(ordered) + 1;
        (self.rows_changed, self.nodes_came) = (false, false);
        self.strobes
    }
}

fn nanos(quantum: Duration) -> u64 {
    u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX)
}
