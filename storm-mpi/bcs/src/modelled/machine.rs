//! The machine: nodes with engines, and the management node that strobes them.

use super::node::{ModelEdge, NodeModel};
use super::rank::ModelledRank;
use crate::{
    BcsConfig, Checkpoint, Engine, Group, JobKey, Member, Plan, SliceError, StrobeReceiver,
    StrobeSender,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_mpi::Rank;
use storm_primitives::sim::{Fabric, SimNetwork, SimPrimitives, SimRuntime, Simulation};
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Runtime};

/// The place of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The processing element on the node. Ranks of several jobs may share one.
    pub pe: usize,
}

/// A simulated machine under buffered coscheduling.
pub struct Machine {
    network: SimNetwork,
    plan: Plan,
    nodes: Vec<Rc<NodeModel>>,
}

/// The strobe sender's work so far.
#[derive(Clone, Debug, Default)]
pub struct Strobing {
    /// Number of slices that have ended, each with an empty network.
    pub slices: u64,
    /// Number of these slices that no rank needed.
    pub empty: u64,
    /// Number of these slices that took longer than a slice.
    pub late: u64,
    /// Duration of all slices together.
    pub took: Duration,
    /// The end of the last slice.
    pub checkpoint: Option<Checkpoint>,
    /// The reason why slices stopped.
    pub failed: Option<SliceError>,
}

impl Machine {
    /// A machine of `nodes` compute nodes on `fabric`. Slices begin with [`Machine::strobe`].
    pub fn new(
        simulation: &Simulation,
        nodes: u32,
        fabric: Rc<dyn Fabric>,
        config: BcsConfig,
    ) -> Machine {
        let mut layout = Layout::builder();
        let plan = Plan::new(&mut layout, nodes, config);
        let network = SimNetwork::with_fabric(simulation, nodes, &layout.build(), fabric);
        let model = |node: u32| {
            let here = network.node(NodeId(node));
            let model = Rc::new(NodeModel::new(Engine::new(NodeId(node), plan)));
            let edge = ModelEdge(model.clone());
            let driver = StrobeReceiver::new(here.clone(), plan, model.engine.clone(), edge);
            model.set_nudge(driver.nudge());
            here.runtime().spawn(driver.run()).detach();
            model
        };
        let nodes = (1..=nodes).map(model).collect();
        Machine { network, plan, nodes }
    }

    /// The network, in which nodes can be killed.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// The engine of a node.
    ///
    /// # Panics
    /// There is no such compute node.
    pub fn engine(&self, node: NodeId) -> Rc<RefCell<Engine>> {
        self.nodes[node.index() - 1].engine.clone()
    }

    /// Places a job's ranks, with one communicator of all.
    ///
    /// # Panics
    /// There is no such compute node.
    pub fn launch(&self, job: JobKey, places: &[Place]) -> Vec<ModelledRank> {
        let placement: Rc<[NodeId]> = places.iter().map(|place| place.node).collect();
        let world = Group::all(places.len());
        for node in placement.iter().copied().collect::<NodeSet>().iter() {
            let mut engine = self.nodes[node.index() - 1].engine.borrow_mut();
            engine.open_job(job, placement.clone());
        }
        let rank = |(rank, place): (&Rank, &Place)| {
            let member = Member { job, rank: *rank };
            let node = self.nodes[place.node.index() - 1].clone();
            node.place(place.pe, member);
            let runtime: SimRuntime = self.network.node(place.node).runtime().clone();
            ModelledRank { member, world: world.clone(), pe: place.pe, node, runtime }
        };
        world.members.iter().zip(places).map(rank).collect()
    }

    /// The plan of its global memory.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// A strobe sender for all nodes, for callers that act between slices.
    pub fn strobe_sender(&self) -> StrobeSender<SimPrimitives> {
        let nodes = NodeSet::compute(self.nodes.len() as u32);
        StrobeSender::new(self.network.node(NodeId::MM), self.plan, nodes)
    }

    /// Begins the slices. They continue until no node is left, and rest while no rank has news.
    pub fn strobe(&self) -> Rc<RefCell<Strobing>> {
        let manager = self.network.node(NodeId::MM);
        let mut sender = self.strobe_sender();
        let so_far = Rc::new(RefCell::new(Strobing::default()));
        let told = so_far.clone();
        let strobing = async move {
            loop {
                let ended = sender.slice().await;
                let rests = ended.as_ref().is_ok_and(|checkpoint| checkpoint.rests);
                note(&mut told.borrow_mut(), ended);
                if rests && let Err(error) = sender.rest().await {
                    note(&mut told.borrow_mut(), Err(error));
                }
                if told.borrow().failed.is_some() {
                    return;
                }
            }
        };
        manager.runtime().spawn(strobing).detach();
        so_far
    }
}

fn note(so_far: &mut Strobing, ended: Result<Checkpoint, SliceError>) {
    match ended {
        Ok(checkpoint) => {
            so_far.slices += 1;
            so_far.empty += u64::from(checkpoint.empty);
            so_far.late += u64::from(!checkpoint.late.is_zero());
            so_far.took += checkpoint.took;
            so_far.checkpoint = Some(checkpoint);
        }
        Err(error) => so_far.failed = Some(error),
    }
}
