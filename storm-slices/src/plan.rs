//! The places of the variables of buffered coscheduling in global memory.

use crate::BcsConfig;
use storm_primitives::{
    EventId, GlobalAddr, GlobalMemory, LayoutBuilder, NodeId, Region, Var, VarArray,
};

/// The most rounds in the tree of nodes of a reduction. The number of nodes fits in this many bits.
pub const ROUNDS: u64 = 16;

/// The addresses, which are the same on every node.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub(crate) config: BcsConfig,
    nodes: u32,
    /// The last strobe, and the length of its slice in nanoseconds.
    strobes: VarArray<u64>,
    /// Signalled with each strobe.
    pub strobed: EventId,
    /// The last microphase that this node has finished, as a strobe's word.
    pub phase_done: Var<u64>,
    /// The last microphase after which this node had nothing to do in the following one, or two: in
    /// P2P after MSM, in BBM and RM after P2P. After the last microphase of a slice, it means
    /// nothing to do in the next slice.
    pub skip: Var<u64>,
    /// The last microphase after which this node had nothing to do in the rest of the slice, and no
    /// bytes on the way.
    pub empty: Var<u64>,
    /// By node, on the management node: the first slice that the node needs for its news.
    pub news: VarArray<u64>,
    /// Signalled on the management node with each news.
    pub told: EventId,
    /// The last slice that this node knows to have ended with an empty network everywhere. The node
    /// learns it when the next slice begins.
    pub checkpoint: Var<u64>,
    /// Descriptors, by source node.
    descriptors: Region,
    /// Grants, by source node.
    grants: Region,
    /// Landing buffer of the point-to-point microphase.
    landing: Region,
    /// By slot: the communicator that runs its collective in this slot, or 0.
    pub claimed: VarArray<u64>,
    /// By slot: landing buffer of a broadcast or of the result of a reduction.
    broadcast: Region,
    /// By slot and round: the partial results of the node's children.
    partial: Region,
    /// Signalled with each partial result.
    pub arrival: EventId,
}

impl Plan {
    /// Plans for the management node and `nodes` compute nodes.
    pub fn new(layout: &mut LayoutBuilder, nodes: u32, config: BcsConfig) -> Plan {
        let everyone = u64::from(nodes) + 1;
        let slots = u64::from(config.collective_slots);
        Plan {
            config,
            nodes,
            strobes: layout.vars("bcs.strobe", 2),
            strobed: layout.event("bcs.strobed"),
            phase_done: layout.var("bcs.phase_done"),
            skip: layout.var("bcs.skip"),
            empty: layout.var("bcs.empty"),
            news: layout.vars("bcs.news", nodes + 1),
            told: layout.event("bcs.told"),
            checkpoint: layout.var("bcs.checkpoint"),
            descriptors: layout.region("bcs.descriptors", everyone * config.descriptor_bytes),
            grants: layout.region("bcs.grants", everyone * config.descriptor_bytes),
            landing: layout.region("bcs.landing", config.link_bytes),
            claimed: layout.vars("bcs.claimed", config.collective_slots),
            broadcast: layout.region("bcs.broadcast", slots * config.collective_bytes),
            partial: layout.region("bcs.partial", slots * ROUNDS * config.collective_bytes),
            arrival: layout.event("bcs.arrival"),
        }
    }

    /// The last strobe.
    pub fn strobe(&self) -> Var<u64> {
        self.strobes.get(0)
    }

    /// The length of the strobe's slice, in nanoseconds.
    pub fn length_ns(&self) -> Var<u64> {
        self.strobes.get(1)
    }

    /// Signalled with each strobe.
    pub fn strobed(&self) -> EventId {
        self.strobed
    }

    /// The last microphase after which a node reports that it had nothing to do in the rest of the
    /// slice, and no bytes on the way. A slice ends when all nodes report this.
    pub fn empty(&self) -> Var<u64> {
        self.empty
    }

    /// On the management node: the slice since which a node reports news.
    pub fn news(&self, node: NodeId) -> Var<u64> {
        self.news.get(node.0)
    }

    /// The settings of the plan.
    pub fn config(&self) -> &BcsConfig {
        &self.config
    }

    /// The last slice that ended with an empty network on every node, according to a node's memory:
    /// the slice before the one under way.
    pub fn checkpoint(&self, memory: &GlobalMemory) -> u64 {
        memory.load(self.checkpoint)
    }

    /// The compute nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.nodes).map(NodeId)
    }

    /// The place where `from` writes its descriptors.
    pub fn descriptors(&self, from: NodeId) -> GlobalAddr {
        self.descriptors.addr.offset(u64::from(from.0) * self.config.descriptor_bytes)
    }

    /// The place where `from` writes its grants.
    pub fn grants(&self, from: NodeId) -> GlobalAddr {
        self.grants.addr.offset(u64::from(from.0) * self.config.descriptor_bytes)
    }

    /// The place where bytes of messages land.
    pub fn landing(&self, offset: u64) -> GlobalAddr {
        self.landing.addr.offset(offset)
    }

    /// The place where a broadcast of a slot lands.
    pub fn broadcast(&self, slot: u32) -> GlobalAddr {
        self.broadcast.addr.offset(u64::from(slot) * self.config.collective_bytes)
    }

    /// The place where the partial result of the `round`-th child lands.
    pub fn partial(&self, slot: u32, round: u32) -> GlobalAddr {
        let place = u64::from(slot) * ROUNDS + u64::from(round);
        self.partial.addr.offset(place * self.config.collective_bytes)
    }
}
