//! The elements and the memory of a place, and which step has how much of them. Steps that do not
//! fit wait; each is granted as soon as it fits, in the order of arrival
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).
//!
//! The ledger counts. It does not choose which elements of a node a step gets: the node does.

use super::layout::{Layout, Seats};
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::NodeId;
use storm_rm::message::NodeRanks;
use storm_rm::{Memory, Rank, Share, StepAsk, StepSize};

/// The steps that a place may have beyond one for each of its elements.
const OVERLAPPING: usize = 8;
/// The steps that may wait for each one that a place may have at once. All are looked at when a
/// step ends.
const WAITING_FOR_EACH: usize = 4;

/// A place's share of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manager) struct Room {
    pub(in crate::manager) node: NodeId,
    pub(in crate::manager) elements: u32,
    /// `None` if the node's memory is not counted.
    pub(in crate::manager) memory_bytes: Option<u64>,
    /// The most processes that the node starts for a step.
    pub(in crate::manager) procs_max: u32,
}

/// The ledger of a place.
#[derive(Clone, Debug)]
pub(in crate::manager) struct PlaceLedger {
    /// The nodes, in the order of the place.
    nodes: Vec<Counted>,
    /// Share of each step, by the index of the node.
    granted: BTreeMap<StepAsk, Vec<(usize, Amount)>>,
    /// The steps that do not fit yet, in the order of arrival.
    waiting: VecDeque<Waiting>,
}

/// A step that does not fit yet.
#[derive(Clone, Debug)]
struct Waiting {
    ask: StepAsk,
    size: StepSize,
    layout: Layout,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    room: Room,
    free: Amount,
}

/// Elements and memory of a node. Memory that is not counted is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount {
    elements: u32,
    memory_bytes: u64,
}

impl PlaceLedger {
    /// The ledger of a place without steps.
    pub(in crate::manager) fn new(rooms: impl IntoIterator<Item = Room>) -> PlaceLedger {
        let nodes = rooms.into_iter().map(|room| Counted { room, free: room.all() }).collect();
        PlaceLedger { nodes, granted: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Whether a step fits if the place has no other step, and all its nodes are there.
    pub(in crate::manager) fn could_hold(&self, size: &StepSize, layout: &Layout) -> bool {
        self.distribution(size, layout, |counted| Some(counted.room.all())).is_some()
    }

    /// The most steps that the place has at once. Steps that overlap take no elements, so without
    /// a bound those of one job could hold all places in the arrays of flags.
    pub(in crate::manager) fn steps_at_once(&self) -> usize {
        let elements = self.nodes.iter().map(|counted| counted.room.elements as usize);
        elements.sum::<usize>().saturating_add(OVERLAPPING)
    }

    /// The most steps that may wait.
    pub(in crate::manager) fn waiting_max(&self) -> usize {
        self.steps_at_once().saturating_mul(WAITING_FOR_EACH)
    }

    /// The number of steps that wait.
    pub(in crate::manager) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The place's nodes, in its order.
    pub(in crate::manager) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|counted| counted.room.node)
    }

    /// The elements of the place, and the most memory that it has of a node, if memory is counted.
    pub(in crate::manager) fn extent(&self) -> (u32, Option<u64>) {
        let rooms = || self.nodes.iter().map(|counted| counted.room);
        let elements = rooms().map(|room| room.elements).fold(0, u32::saturating_add);
        (elements, rooms().filter_map(|room| room.memory_bytes).max())
    }

    /// Whether a waiting step would fit beside the others if all nodes of the place were there.
    pub(in crate::manager) fn fits_if_all_were_there(&self, ask: StepAsk) -> bool {
        let waiting = self.waiting.iter().find(|other| other.ask == ask);
        waiting.is_some_and(|Waiting { size, layout, .. }| {
            let within_reach = |counted: &Counted| counted.room.within_reach(size, counted.free);
            self.distribution(size, layout, |counted| Some(within_reach(counted))).is_some()
        })
    }

    /// A step waits until it fits.
    pub(super) fn wait(&mut self, ask: StepAsk, size: StepSize, layout: Layout) {
        self.waiting.push_back(Waiting { ask, size, layout });
    }

    /// A step waits no longer. Returns whether it did.
    pub(super) fn leave(&mut self, ask: StepAsk) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|other| other.ask != ask);
        self.waiting.len() < before
    }

    /// No step waits any longer. Returns those that did.
    pub(super) fn leave_all(&mut self) -> Vec<StepAsk> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.ask).collect()
    }

    /// Grants the first waiting step that fits on the nodes that are there. Returns the step,
    /// its size and its ranks, on nodes in the order of the place.
    pub(super) fn grant_next(
        &mut self,
        is_there: impl Fn(NodeId) -> bool,
    ) -> Option<(StepAsk, StepSize, Vec<NodeRanks>)> {
        let (index, counts) = self.first_that_fits(is_there)?;
        let Waiting { ask, size, .. } = self.waiting.remove(index)?;
        self.take(ask, &size, &counts);
        let mut first = 0;
        let ranks = counts.into_iter().map(|(at, count)| {
            let ranks = NodeRanks { node: self.nodes[at].room.node, first: Rank(first), count };
            first += count;
            ranks
        });
        Some((ask, size, ranks.collect()))
    }

    /// The first waiting step that fits, by its index, and its processes on each node.
    fn first_that_fits<'a>(
        &'a self,
        is_there: impl Fn(NodeId) -> bool,
    ) -> Option<(usize, Vec<(usize, u32)>)> {
        let mut too_large: Vec<(&'a StepSize, &'a Layout)> = Vec::new();
        let fits = |(index, waiting): (usize, &'a Waiting)| {
            let Waiting { size, layout, .. } = waiting;
            // Steps that ask for the same fit together or not at all.
            if too_large.contains(&(size, layout)) {
                return None;
            }
            let within_reach = |counted: &Counted| {
                let Counted { room, free } = counted;
                is_there(room.node).then(|| room.within_reach(size, *free))
            };
            let counts = self.distribution(size, layout, within_reach);
            if counts.is_none() {
                too_large.push((size, layout));
            }
            Some((index, counts?))
        };
        self.waiting.iter().enumerate().find_map(fits)
    }

    /// A former manager granted a step these ranks.
    pub(super) fn restore(&mut self, ask: StepAsk, size: &StepSize, ranks: &[NodeRanks]) {
        let at = |node| self.nodes.iter().position(|counted| counted.room.node == node);
        let counts = ranks.iter().filter_map(|share| Some((at(share.node)?, share.count)));
        let counts: Vec<(usize, u32)> = counts.collect();
        self.take(ask, size, &counts);
    }

    /// The same ledger with other rooms, since a node has told of its memory. `steps` are the
    /// granted steps with their ranks.
    pub(super) fn with_rooms<'a>(
        &mut self,
        rooms: Vec<Room>,
        steps: impl Iterator<Item = (StepAsk, StepSize, &'a [NodeRanks])>,
    ) {
        let granted = std::mem::take(&mut self.granted);
        self.nodes = rooms.into_iter().map(|room| Counted { room, free: room.all() }).collect();
        for (ask, size, ranks) in steps.filter(|(ask, ..)| granted.contains_key(ask)) {
            self.restore(ask, &size, ranks);
        }
    }

    /// A granted step is over.
    pub(super) fn end(&mut self, ask: StepAsk) {
        for (at, taken) in self.granted.remove(&ask).unwrap_or_default() {
            let free = &mut self.nodes[at].free;
            free.elements += taken.elements;
            free.memory_bytes += taken.memory_bytes;
        }
    }

    fn take(&mut self, ask: StepAsk, size: &StepSize, counts: &[(usize, u32)]) {
        let mut taken = Vec::new();
        for (at, procs) in counts {
            let Counted { room, free } = &mut self.nodes[*at];
            let wanted = match size.share {
                Share::Exact => room.needed(size, *procs),
                Share::WholeNodes => room.all(),
                Share::Overlap => Amount { elements: 0, memory_bytes: 0 },
            };
            // The configuration may give the node less than a former manager counted.
            let amount = wanted.at_most(*free);
            free.elements -= amount.elements;
            free.memory_bytes -= amount.memory_bytes;
            taken.push((*at, amount));
        }
        self.granted.insert(ask, taken);
    }

    /// How many processes each node gets, by its index, if `within_reach` is what a step could have
    /// of a node: nothing of one that is away.
    fn distribution(
        &self,
        size: &StepSize,
        layout: &Layout,
        within_reach: impl Fn(&Counted) -> Option<Amount>,
    ) -> Option<Vec<(usize, u32)>> {
        let seats = self.nodes.iter().enumerate().filter_map(|(at, counted)| {
            let (room, amount) = (&counted.room, within_reach(counted)?);
            let most = if amount.elements > 0 { room.procs_max } else { 0 };
            Some(Seats { at, node: room.node, room: room.holds(size, amount), most })
        });
        layout.distribution(size, seats)
    }
}

#[cfg(test)]
impl PlaceLedger {
    /// For each node, its elements and those that no step has.
    pub(in crate::manager) fn elements(&self) -> impl Iterator<Item = (NodeId, u32, u32)> {
        let counted = self.nodes.iter();
        counted.map(|counted| (counted.room.node, counted.room.elements, counted.free.elements))
    }

    /// The granted steps.
    pub(in crate::manager) fn granted(&self) -> impl Iterator<Item = StepAsk> {
        self.granted.keys().copied()
    }
}

impl Room {
    fn all(&self) -> Amount {
        Amount { elements: self.elements, memory_bytes: self.memory_bytes.unwrap_or(0) }
    }

    /// The part of the node that a step could have, of which `free` is free.
    fn within_reach(&self, size: &StepSize, free: Amount) -> Amount {
        match size.share {
            Share::Exact => free,
            Share::WholeNodes if free == self.all() => free,
            Share::WholeNodes => Amount { elements: 0, memory_bytes: 0 },
            Share::Overlap => self.all(),
        }
    }

    /// The most processes of a step for which this much of the node is enough.
    fn holds(&self, size: &StepSize, amount: Amount) -> u32 {
        let fit = amount.elements.checked_div(size.elements_each).unwrap_or(0);
        let mut most = fit.min(size.procs);
        let mut none = 0;
        let enough = |procs| self.needed(size, procs).memory_bytes <= amount.memory_bytes;
        // More processes need no less memory.
        while none < most {
            let middle = most - (most - none) / 2;
            match enough(middle) {
                true => none = middle,
                false => most = middle - 1,
            }
        }
        most
    }

    /// The need of `procs` processes of a step on the node.
    fn needed(&self, size: &StepSize, procs: u32) -> Amount {
        let elements = procs.saturating_mul(size.elements_each);
        let Some(all) = self.memory_bytes.filter(|_| procs > 0) else {
            return Amount { elements, memory_bytes: 0 };
        };
        let memory_bytes = match size.memory {
            Memory::Unstated if size.share == Share::WholeNodes => all,
            Memory::Unstated => share_of(all, elements, self.elements),
            Memory::PerNode(bytes) => bytes,
            Memory::PerCpu(bytes) => bytes.saturating_mul(u64::from(elements)),
            Memory::WholeNode => all,
        };
        Amount { elements, memory_bytes }
    }
}

impl Amount {
    fn at_most(self, other: Amount) -> Amount {
        Amount {
            elements: self.elements.min(other.elements),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
        }
    }
}

/// The part of `all` that belongs to `some` elements of `elements`, rounded down.
fn share_of(all: u64, some: u32, elements: u32) -> u64 {
    let share = u128::from(all) * u128::from(some) / u128::from(elements.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "place_ledger_tests.rs"]
mod tests;
