//! Random histories of a partition's slices. The policy takes the rows in turn. Nodes obey strobes
//! and begin ordered slices by themselves. The manager sleeps as long as it may. Messages take no
//! time here, so after each step every node with jobs is in the active row.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PARTITION: PartitionId = PartitionId(0);
const NODES: u32 = 4;
/// The slices that a strobe orders, its own included.
const SPAN: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    /// The given number of tenths of a quantum pass.
    Sleep(u32),
    /// The manager is held up for the given number of tenths of a quantum after its next edge.
    HeldUp(u32),
    /// A job is placed on the nodes of these bits.
    Comes {
        row: u32,
        nodes: u32,
    },
    /// The jobs of a row get another row.
    Moves {
        from: u32,
        to: u32,
    },
    /// The jobs of a row end.
    Ends(u32),
    NodeGoes(u32),
    NodeComes(u32),
    SetQuantum(u64),
}

/// The state that a node has of the slices.
#[derive(Default)]
struct Node {
    told: Option<Slices>,
    /// The row that a launch named since the last strobe.
    launched_in: Option<Row>,
    /// How long after its edge the strobe was issued: the node's slices are late by this time.
    late: Duration,
}

impl Node {
    /// The strobe whose slice is under way here, received or begun by the node itself.
    fn strobe(&self, now: Instant) -> Option<Strobe> {
        let begun = |strobe: &Strobe| strobe.issued_ns <= now.as_nanos();
        let told = self.told.as_ref()?;
        (0..).map_while(|index| told.strobe_of(index)).take_while(begun).last()
    }

    /// The row, if the manager's edges and the node's were at the same times.
    fn row(&self, now: Instant) -> Option<Row> {
        self.launched_in.or(self.strobe(now + self.late).map(|strobe| strobe.row))
    }

    fn is_ahead(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.following.is_empty())
    }
}

struct World {
    now: Instant,
    order: SliceOrder,
    quantum: Duration,
    /// The nodes of the jobs of each row.
    rows: BTreeMap<u32, NodeSet>,
    up: NodeSet,
    nodes: BTreeMap<NodeId, Node>,
    strobes: usize,
    /// How late the manager is at the edge under way. The next edge stays on the grid.
    late: Duration,
}

impl World {
    fn new() -> World {
        let up = NodeSet::compute(NODES);
        World {
            now: Instant::ORIGIN,
            order: SliceOrder::new(),
            quantum: Duration::from_millis(10),
            rows: BTreeMap::new(),
            nodes: up.iter().map(|node| (node, Node::default())).collect(),
            up,
            strobes: 0,
            late: Duration::ZERO,
        }
    }

    fn slice(&self) -> Option<Duration> {
        (self.rows.len() > 1).then_some(self.quantum)
    }

    fn ahead(&self) -> usize {
        self.order.ahead(self.slice())
    }

    /// The next rows of the policy.
    fn upcoming(&self, slices: usize) -> Vec<Row> {
        let active = self.order.active().0;
        let after = self.rows.keys().filter(|row| **row > active);
        let turn = after.chain(self.rows.keys().filter(|row| **row <= active));
        turn.cycle().take(slices).map(|row| Row(*row)).collect()
    }

    fn with_jobs(&self) -> NodeSet {
        self.rows.values().fold(NodeSet::new(), |all, nodes| all.union(nodes))
    }

    fn strobe(&mut self, following: Vec<Row>) {
        let nodes = (self.with_jobs(), &self.up);
        let told = self.order.strobe(self.now, PARTITION, nodes, (following, Some(self.quantum)));
        let Some((nodes, slices)) = told else { return };
        self.strobes += 1;
        for id in nodes.iter() {
            assert!(self.up.contains(id), "a strobe for a node that is not there");
            let node = self.nodes.get_mut(&id).expect("it is a node");
            let reached = node.strobe(self.now).map_or(0, |strobe| strobe.number);
            assert!(slices.strobe.number > reached, "{slices:?} to a node that is at {reached}");
            *node = Node { told: Some(slices.clone()), launched_in: None, late: self.late };
        }
    }

    fn activate(&mut self, row: Row) {
        let nodes = self.with_jobs();
        if !self.order.activate(self.now, row, &nodes, Some(self.quantum)) {
            let further = self.slice().map_or(0, |_| SPAN - 1);
            self.strobe(self.upcoming(further));
        }
    }

    /// The jobs have changed: no job waits behind an empty row. Nodes get a strobe if the next rows
    /// differ from the rows in their order.
    fn decide(&mut self) {
        let next = self.upcoming(1).first().copied();
        if let (Some(next), false) = (next, self.rows.contains_key(&self.order.active().0)) {
            self.activate(next);
        }
        if self.order.is_outdated(self.slice(), |slices| self.upcoming(slices)) {
            self.strobe(Vec::new());
        }
    }

    fn edge(&mut self, on_grid: bool) {
        if on_grid {
            self.order.begin_edge_on_time();
        }
        let next = self.upcoming(1).first().copied();
        next.into_iter().for_each(|row| self.activate(row));
        self.order.end_edge();
    }

    /// Passes the edges through which the manager slept, as the core does before each act.
    fn pass(&mut self) {
        let now = self.now;
        while let Some(edge) = self.order.slept_through(now, self.slice())
            && self.order.pass(edge, self.ahead())
        {
            let strobes = self.strobes;
            self.now = edge;
            self.edge(true);
            assert_eq!(self.strobes, strobes, "the manager slept, and should have strobed");
            self.now = now;
        }
    }

    /// The manager at work until `until`.
    fn run(&mut self, until: Instant) {
        loop {
            self.pass();
            let ahead = self.ahead();
            let edge = self.order.next_edge(self.now, self.slice(), ahead);
            match edge {
                Some(edge) if self.now >= edge.at => {
                    let on_grid = self.order.end_slice(self.now, self.slice());
                    self.late = if on_grid { self.now - edge.at } else { Duration::ZERO };
                    self.edge(on_grid);
                    self.late = Duration::ZERO;
                }
                Some(edge) if edge.needed <= until => self.now = edge.needed,
                Some(_) | None if self.now < until => self.now = until,
                Some(_) | None => return,
            }
        }
    }

    fn step(&mut self, step: Step) {
        let tenths = |tenths: u32, quantum: Duration| quantum * tenths / 10;
        match step {
            Step::Sleep(time) => return self.run(self.now + tenths(time, self.quantum)),
            Step::HeldUp(time) => {
                let ahead = self.ahead();
                if let Some(edge) = self.order.next_edge(self.now, self.slice(), ahead) {
                    self.now = edge.at.max(self.now) + tenths(time, self.quantum);
                }
                return self.run(self.now);
            }
            _ => self.pass(),
        }
        match step {
            Step::Sleep(_) | Step::HeldUp(_) => {}
            Step::Comes { row, nodes } => self.comes(row, nodes),
            Step::Moves { from, to } => {
                if let Some(nodes) = self.rows.remove(&from) {
                    let there = self.rows.entry(to).or_default();
                    *there = there.union(&nodes);
                    self.order.rows_change();
                }
            }
            Step::Ends(row) => drop(self.rows.remove(&row)),
            Step::NodeGoes(node) => self.node_goes(NodeId(node)),
            Step::NodeComes(node) => {
                self.up = self.up.union(&NodeSet::single(NodeId(node)));
                self.order.job_comes_to(&NodeSet::single(NodeId(node)));
            }
            Step::SetQuantum(ms) => self.quantum = Duration::from_millis(ms),
        }
        self.decide();
        // The manager runs when its next edge is now.
        self.run(self.now);
    }

    fn comes(&mut self, row: u32, nodes: u32) {
        let bit = |node: &NodeId| nodes & (1 << node.0) != 0;
        let nodes: NodeSet = self.up.iter().filter(bit).collect();
        if nodes.is_empty() {
            return;
        }
        let there = self.rows.entry(row).or_default();
        *there = there.union(&nodes);
        self.order.job_comes_to(&nodes);
        self.decide();
        let active = self.order.active();
        for node in nodes.iter() {
            let node = self.nodes.get_mut(&node).expect("it is a node");
            if !node.is_ahead() {
                node.launched_in = Some(active);
            }
        }
    }

    fn node_goes(&mut self, node: NodeId) {
        let gone = NodeSet::single(node);
        self.up = self.up.difference(&gone);
        self.nodes.insert(node, Node::default());
        self.order.node_forgets(node);
        for nodes in self.rows.values_mut() {
            *nodes = nodes.difference(&gone);
        }
        self.rows.retain(|_, nodes| !nodes.is_empty());
    }

    fn check(&self) {
        let ahead = self.order.ordered.as_ref().map(|ordered| ordered.nodes.intersection(&self.up));
        let concerned = self.with_jobs().union(&ahead.unwrap_or_default());
        for node in concerned.iter() {
            let row = self.nodes[&node].row(self.now);
            assert_eq!(row, Some(self.order.active()), "{node} at {:?}", self.now);
        }
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let (row, node) = (0..4_u32, 1..=NODES);
    prop_oneof![
        6 => (0..80_u32).prop_map(Step::Sleep),
        2 => (0..25_u32).prop_map(Step::HeldUp),
        4 => (row.clone(), 0..32_u32).prop_map(|(row, nodes)| Step::Comes { row, nodes }),
        1 => (row.clone(), row.clone()).prop_map(|(from, to)| Step::Moves { from, to }),
        2 => row.prop_map(Step::Ends),
        1 => node.clone().prop_map(Step::NodeGoes),
        1 => node.prop_map(Step::NodeComes),
        1 => (1..30_u64).prop_map(Step::SetQuantum),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_node_with_jobs_is_in_the_active_row(history in prop::collection::vec(steps(), 1..40)) {
        let mut world = World::new();
        for step in history {
            world.step(step);
            world.check();
        }
    }
}

#[test]
fn undisturbed_rows_need_one_strobe_for_each_span_and_the_manager_sleeps_between() {
    let mut world = World::new();
    world.step(Step::Comes { row: 0, nodes: 0b110 });
    world.step(Step::Comes { row: 1, nodes: 0b10 });
    world.step(Step::Sleep(15));
    let before = world.strobes;
    let slices = 10 * SPAN;
    world.step(Step::Sleep(10 * u32::try_from(slices).expect("few")));
    world.check();
    assert_eq!(world.strobes - before, slices / SPAN);
    let ahead = world.ahead();
    let edge = world.order.next_edge(world.now, world.slice(), ahead).expect("there are two rows");
    assert_eq!(edge.needed - edge.at, world.quantum * u32::try_from(ahead).expect("few"));
}
