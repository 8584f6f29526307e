//! The ledger against an oracle that tries every distribution.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The next event; its numbers choose among the present steps and nodes.
#[derive(Clone, Debug)]
enum Event {
    Ask(StepSize, Layout),
    End(usize),
    Leave(usize),
    Toggle(usize),
}

fn size() -> impl Strategy<Value = StepSize> {
    let memory = prop_oneof![
        3 => Just(Memory::Unstated),
        1 => (0..12_u64).prop_map(Memory::PerNode),
        1 => (0..5_u64).prop_map(Memory::PerCpu),
        1 => Just(Memory::WholeNode),
    ];
    let share = prop_oneof![
        4 => Just(Share::Exact), 1 => Just(Share::WholeNodes), 1 => Just(Share::Overlap)
    ];
    (1..7_u32, prop::option::weighted(0.3, 1..4_u32), 1..3_u32, memory, share).prop_map(
        |(procs, nodes, elements_each, memory, share)| StepSize {
            procs,
            nodes,
            elements_each,
            memory,
            share,
        },
    )
}

fn layout() -> impl Strategy<Value = Layout> {
    let nodes = || prop::collection::vec((1..4_u32).prop_map(NodeId), 0..2);
    (prop::option::weighted(0.2, 1..3_u32), nodes(), nodes()).prop_map(
        |(per_node, required, excluded)| Layout {
            per_node,
            overcommit: false,
            required: required.into_iter().collect(),
            excluded: excluded.into_iter().collect(),
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (size(), prop_oneof![Just(Layout::default()), layout()])
            .prop_map(|(size, layout)| Event::Ask(size, layout)),
        4 => any::<usize>().prop_map(Event::End),
        1 => any::<usize>().prop_map(Event::Leave),
        1 => (0..3_usize).prop_map(Event::Toggle),
    ]
}

/// The granted steps, with their processes by node, counted anew for every question.
struct Oracle {
    rooms: Vec<Room>,
    granted: BTreeMap<StepAsk, (StepSize, Vec<u32>)>,
    waiting: Vec<(StepAsk, StepSize, Layout)>,
    away: BTreeSet<NodeId>,
}

impl Oracle {
    /// Whether a step may have so many processes on each node.
    fn allows(&self, size: &StepSize, layout: &Layout, counts: &[u32], alone: bool) -> bool {
        let nodes = counts.iter().filter(|count| **count > 0).count();
        let right = counts.iter().sum::<u32>() == size.procs
            && size.nodes.is_none_or(|wanted| wanted as usize == nodes);
        let cap = layout.per_node.unwrap_or(u32::MAX);
        let is_asked = |(room, count): (&Room, &u32)| {
            let (required, excluded) = (&layout.required, &layout.excluded);
            let least = u32::from(required.contains(room.node));
            let most = if excluded.contains(room.node) { 0 } else { cap };
            (least..=most).contains(count)
        };
        right
            && self.rooms.iter().zip(counts).all(is_asked)
            && (0..self.rooms.len()).filter(|at| counts[*at] > 0).all(|at| {
                let room = &self.rooms[at];
                let here = alone || !self.away.contains(&room.node);
                here && self.has_room(size, at, counts[at], alone)
            })
    }

    fn has_room(&self, size: &StepSize, at: usize, procs: u32, alone: bool) -> bool {
        let others = self.granted.values().filter(|(other, counts)| {
            let counted = other.share != Share::Overlap && size.share != Share::Overlap;
            counted && counts[at] > 0 && !alone
        });
        let others: Vec<_> = others.collect();
        let whole = |size: &StepSize| size.share == Share::WholeNodes;
        if !others.is_empty() && (whole(size) || others.iter().any(|(other, _)| whole(other))) {
            return false;
        }
        let used: u32 = others.iter().map(|(other, counts)| counts[at] * other.elements_each).sum();
        let memory: u64 =
            others.iter().map(|(other, counts)| self.memory(other, at, counts[at])).sum();
        let all = self.rooms[at].memory_bytes.unwrap_or(u64::MAX);
        used + procs * size.elements_each <= self.rooms[at].elements
            && memory + self.memory(size, at, procs) <= all
    }

    fn memory(&self, size: &StepSize, at: usize, procs: u32) -> u64 {
        let room = &self.rooms[at];
        let Some(all) = room.memory_bytes else { return 0 };
        let elements = u64::from(procs * size.elements_each);
        match size.memory {
            Memory::Unstated if size.share == Share::WholeNodes => all,
            Memory::Unstated => all * elements / u64::from(room.elements),
            Memory::PerNode(bytes) => bytes,
            Memory::PerCpu(bytes) => bytes * elements,
            Memory::WholeNode => all,
        }
    }

    fn fits(&self, size: &StepSize, layout: &Layout, alone: bool) -> bool {
        let each = || 0..=size.procs;
        let all = each().flat_map(|a| each().flat_map(move |b| each().map(move |c| [a, b, c])));
        all.into_iter().any(|counts| self.allows(size, layout, &counts, alone))
    }

    /// Checks that the ledger grants the first waiting step that fits, until none does.
    fn grant_all(&mut self, ledger: &mut PlaceLedger) {
        loop {
            let fits =
                self.waiting.iter().position(|(_, size, layout)| self.fits(size, layout, false));
            let away = self.away.clone();
            let granted = ledger.grant_next(|node| !away.contains(&node));
            let asked = fits.map(|index| self.waiting[index].0);
            assert_eq!(granted.as_ref().map(|(ask, ..)| *ask), asked);
            let (Some((ask, _, ranks)), Some(index)) = (granted, fits) else { return };
            let (_, size, layout) = self.waiting.remove(index);
            let of = |room: &Room| ranks.iter().find(|share| share.node == room.node);
            let counts: Vec<u32> =
                self.rooms.iter().map(|room| of(room).map_or(0, |share| share.count)).collect();
            assert!(self.allows(&size, &layout, &counts, false), "{size:?} got {counts:?}");
            let firsts = ranks.iter().scan(0, |next, share| {
                let first = *next;
                *next += share.count;
                Some(first)
            });
            assert!(firsts.eq(ranks.iter().map(|share| share.first.0)), "{ranks:?}");
            self.granted.insert(ask, (size, counts));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn each_waiting_step_is_granted_as_soon_as_it_fits_and_not_before(
        rooms in prop::collection::vec((1..5_u32, prop::option::weighted(0.8, 0..20_u64)), 3),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let rooms = rooms.into_iter().zip([3, 1, 2]).map(|((elements, memory_bytes), node)| {
            Room { node: NodeId(node), elements, memory_bytes, procs_max: elements }
        });
        let rooms: Vec<Room> = rooms.collect();
        let mut ledger = PlaceLedger::new(rooms.iter().copied());
        let (granted, waiting, away) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut oracle = Oracle { rooms, granted, waiting, away };
        for (number, event) in (0..).zip(events) {
            match event {
                Event::Ask(size, layout) => {
                    let could = ledger.could_hold(&size, &layout);
                    let fits = oracle.fits(&size, &layout, true);
                    prop_assert_eq!(could, fits, "{:?} {:?}", size, layout);
                    if could {
                        ledger.wait(StepAsk(number), size, layout.clone());
                        oracle.waiting.push((StepAsk(number), size, layout));
                    }
                }
                Event::End(pick) => {
                    let pick = pick % oracle.granted.len().max(1);
                    if let Some(ask) = oracle.granted.keys().nth(pick).copied() {
                        oracle.granted.remove(&ask);
                        ledger.end(ask);
                    }
                }
                Event::Leave(pick) => {
                    let pick = pick % oracle.waiting.len().max(1);
                    if let Some(ask) = oracle.waiting.get(pick).map(|(ask, ..)| *ask) {
                        oracle.waiting.remove(pick);
                        prop_assert!(ledger.leave(ask) && !ledger.leave(ask));
                    }
                }
                Event::Toggle(at) => {
                    let node = oracle.rooms[at].node;
                    if !oracle.away.remove(&node) {
                        oracle.away.insert(node);
                    }
                }
            }
            oracle.grant_all(&mut ledger);
            // The next manager counts the same from the journal.
            let mut again = PlaceLedger::new(oracle.rooms.iter().copied());
            for (ask, (size, counts)) in &oracle.granted {
                let ranks = oracle.rooms.iter().zip(counts).filter(|(_, count)| **count > 0);
                let ranks: Vec<NodeRanks> = ranks
                    .map(|(room, count)| NodeRanks { node: room.node, first: Rank(0), count: *count })
                    .collect();
                again.restore(*ask, size, &ranks);
            }
            prop_assert!(again.elements().eq(ledger.elements()));
        }
        prop_assert!(ledger.leave_all().into_iter().eq(oracle.waiting.iter().map(|(ask, ..)| *ask)));
        oracle.granted.keys().for_each(|ask| ledger.end(*ask));
        prop_assert!(ledger.elements().all(|(_, all, free)| all == free));
    }
}

#[test]
fn a_step_that_fits_passes_one_that_does_not() {
    let room = Room { node: NodeId(1), elements: 4, memory_bytes: None, procs_max: 4 };
    let mut ledger = PlaceLedger::new([room]);
    for (ask, procs) in [(1, 3), (2, 4), (3, 1)] {
        ledger.wait(StepAsk(ask), StepSize::of_procs(procs), Layout::default());
    }
    let mut granted = || ledger.grant_next(|_| true).map(|(ask, ..)| ask.0);
    assert_eq!([granted(), granted(), granted()], [Some(1), Some(3), None]);
    ledger.end(StepAsk(1));
    assert_eq!(ledger.grant_next(|_| true), None);
    ledger.end(StepAsk(3));
    assert_eq!(ledger.grant_next(|_| true).map(|(ask, ..)| ask.0), Some(2));
}

#[test]
fn the_highest_numbers_there_are_overflow_nothing() {
    let memory_bytes = Some(u64::MAX);
    let (node, elements) = (NodeId(1), u32::MAX);
    let room = Room { node, elements, memory_bytes, procs_max: elements };
    let layout = Layout::default();
    let ledger = PlaceLedger::new([room]);
    for elements_each in [0, 1, u32::MAX] {
        for memory in [Memory::Unstated, Memory::PerCpu(u64::MAX), Memory::WholeNode] {
            let size = StepSize { procs: u32::MAX, elements_each, memory, ..StepSize::of_procs(1) };
            let alone = elements_each == 1;
            assert_eq!(ledger.could_hold(&size, &layout), alone, "{size:?}");
            let many = StepSize { nodes: Some(u32::MAX), ..size };
            assert!(!ledger.could_hold(&many, &layout));
        }
    }
}
