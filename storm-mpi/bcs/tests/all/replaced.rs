//! Node Managers that are replaced while slices stand, on a simulated network with random delays:
//! the drivers of the other nodes do not notice the gap, and every byte comes once and in order.

use crate::lockstep::member;
use crate::ranks::{JOB, PLACEMENT, byte};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::{
    BcsConfig, Completion, Edge, Engine, JobKey, Plan, Ranks, StrobeReceiver, StrobeSender,
};
use storm_mpi::Rank;
use storm_mpi::segment::{NodeEnd, RankEnd};
use storm_mpi::testing::SplitMix64;
use storm_primitives::sim::{NetworkConfig, SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Runtime, Task};

const NODES: u32 = 3;
const RANKS: usize = PLACEMENT.len();
const BYTES: usize = 40_000;

/// The ranks of a node, at the edges of slices.
struct RanksEdge(Rc<RefCell<Ranks>>);

impl Edge for RanksEdge {
    fn gather(&mut self, engine: &mut Engine) {
        self.0.borrow_mut().gather(engine);
    }

    fn edge(&mut self, completions: Vec<Completion>) {
        self.0.borrow_mut().tell(completions);
    }
}

/// One Node Manager.
struct Manager {
    engine: Rc<RefCell<Engine>>,
    ranks: Rc<RefCell<Ranks>>,
    _driver: Task,
}

impl Manager {
    fn start(network: &SimPrimitives, plan: Plan, engine: Engine, ranks: Ranks) -> Manager {
        let (engine, ranks) = (Rc::new(RefCell::new(engine)), Rc::new(RefCell::new(ranks)));
        let edge = RanksEdge(ranks.clone());
        let driver = StrobeReceiver::new(network.clone(), plan, engine.clone(), edge);
        let _driver = network.runtime().spawn(driver.run());
        Manager { engine, ranks, _driver }
    }
}

struct World {
    network: SimNetwork,
    plan: Plan,
    managers: Vec<Manager>,
    ranks: Vec<RankEnd>,
    sender: StrobeSender<SimPrimitives>,
    dice: SplitMix64,
    sent: [[usize; RANKS]; RANKS],
    got: [[usize; RANKS]; RANKS],
    replaced: u32,
}

impl World {
    fn new(simulation: &Simulation, seed: u64) -> World {
        let mut layout = Layout::builder();
        let config = BcsConfig { link_bytes: 6_000, ..BcsConfig::default() };
        let plan = Plan::new(&mut layout, NODES, config);
        let fabric = Rc::new(NetworkConfig::default());
        let network = SimNetwork::with_fabric(simulation, NODES, &layout.build(), fabric);
        let placement: Rc<[NodeId]> = PLACEMENT.iter().map(|node| NodeId(*node)).collect();
        let start = |node| {
            let (mut engine, mut ranks) = (Engine::new(node, plan), Ranks::default());
            ranks.open(&mut engine, JobKey(JOB), placement.clone(), node).expect("memory");
            Manager::start(&network.node(node), plan, engine, ranks)
        };
        let managers: Vec<Manager> = (1..=NODES).map(NodeId).map(start).collect();
        let ranks = (0..).zip(PLACEMENT).map(|(rank, node)| {
            let ranks = managers[node as usize - 1].ranks.borrow();
            let segment = ranks.segment(member(JOB, rank)).expect("has one");
            let owned = segment.descriptors().map(|fd| fd.try_clone_to_owned().expect("open"));
            RankEnd::attach(owned, Rank(rank), RANKS).expect("a segment")
        });
        let ranks = ranks.collect();
        let manager = network.node(NodeId::MM);
        let sender = StrobeSender::new(manager, plan, NodeSet::compute(NODES));
        let (dice, zero) = (SplitMix64(seed ^ 0x4e91ace), [[0; RANKS]; RANKS]);
        World { network, plan, managers, ranks, sender, dice, sent: zero, got: zero, replaced: 0 }
    }

    /// The ranks send and read at random.
    fn talk(&mut self) {
        for (from, end) in self.ranks.iter_mut().enumerate() {
            end.news().expect("goes on");
            for (to, sent) in self.sent[from].iter_mut().enumerate() {
                let next = (*sent + self.dice.below(9_000)).min(BYTES);
                let data: Vec<u8> = (*sent..next).map(|at| byte(from, to, at)).collect();
                *sent += end.send(Rank::from_index(to), [&data, &[]]).expect("a rank");
            }
            let mut into = vec![0; 9_000];
            for (peer, got) in self.got[from].iter_mut().enumerate() {
                let read = if self.dice.chance(30) { 0 } else { into.len() };
                let read = end.read(Rank::from_index(peer), &mut into[..read]);
                for (at, came) in into[..read].iter().enumerate() {
                    assert_eq!(*came, byte(peer, from, *got + at), "{peer} to {from}");
                }
                *got += read;
            }
        }
    }

    /// Some Node Managers end, and others begin after a while. No slice is under way.
    async fn replace(&mut self, leaving: &[usize]) {
        let runtime = self.network.node(NodeId::MM).runtime().clone();
        let mut left = Vec::new();
        for &at in leaving {
            let former = &self.managers[at];
            let ranks = former.ranks.borrow();
            let saved = ranks.save(&former.engine.borrow(), JobKey(JOB)).expect("it stands");
            let segments = ranks.segments(JobKey(JOB)).map(|(rank, end)| {
                let parts = end.parts().map(|fd| fd.try_clone_to_owned().expect("open"));
                (rank, NodeEnd::adopt(parts).expect("a segment"))
            });
            left.push((at, saved, segments.collect()));
            self.network.end_process(NodeId(at as u32 + 1));
        }
        // The simulated network tells of a loss and of a join in no order if they are at once.
        let noticed = NetworkConfig::default().detection + Duration::from_millis(1);
        runtime.sleep(noticed + Duration::from_micros(self.dice.below(20_000) as u64)).await;
        self.talk();
        for (at, saved, segments) in left {
            let node = NodeId(at as u32 + 1);
            let network = self.network.rejoin(node);
            let (mut engine, mut ranks) = (Engine::new(node, self.plan), Ranks::default());
            let whole = (&mut engine, network.memory());
            ranks.restore(whole, JobKey(JOB), &saved, segments).expect("it fits");
            self.managers[at] = Manager::start(&network, self.plan, engine, ranks);
            self.replaced += 1;
        }
        // The manager hears from the nodes before it begins slices again.
        runtime.sleep(Duration::from_millis(20)).await;
    }

    async fn run(mut self) -> u32 {
        let all = BYTES * RANKS * RANKS;
        let mut slices = 0;
        while self.got.iter().flatten().sum::<usize>() < all {
            self.talk();
            self.sender.slice().await.expect("ends empty");
            if self.dice.chance(15) {
                let leaving: Vec<usize> =
                    (0..NODES as usize).filter(|_| self.dice.chance(40)).collect();
                self.replace(&leaving).await;
            }
            for manager in &self.managers {
                let failures = manager.ranks.borrow_mut().take_failures();
                assert_eq!(failures, [], "slice {slices}");
            }
            slices += 1;
            assert!(slices < 20_000, "{:?} of {:?}", self.got, self.sent);
        }
        self.replaced
    }
}

#[test]
fn node_managers_that_are_replaced_between_slices_are_not_missed() {
    for seed in 0..8 {
        let simulation = Simulation::new(seed);
        simulation.trace().silence(true);
        let world = World::new(&simulation, seed);
        let replaced = simulation.run(world.run()).expect("no deadlock");
        assert!(replaced > 3, "seed {seed}: {replaced}");
    }
}
