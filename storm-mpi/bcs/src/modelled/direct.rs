//! Ranks as in the buffered machine, with direct message passing: each message is a single
//! XFER-AND-SIGNAL, sent at once.
//!
//! The time of a message is that of the network alone, without the cost of a message-passing
//! library. So a comparison favours direct mode, if anything.

use super::machine::Place;
use super::peer::Peer;
use crate::BcsError;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use storm_mpi::Rank;
use storm_primitives::sim::{Fabric, SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{
    EventId, EventRange, Instant, Layout, NodeSet, Primitives, Region, Runtime, Xfer,
};

/// A machine of one job, whose ranks have processing elements of their own.
pub struct DirectMachine {
    network: SimNetwork,
    places: Rc<[Place]>,
    /// Events by receiver and sender.
    events: EventRange,
    landing: Region,
}

/// A rank of the machine.
pub struct DirectRank {
    rank: Rank,
    network: SimPrimitives,
    places: Rc<[Place]>,
    events: EventRange,
    landing: Region,
}

impl DirectMachine {
    /// A machine of `nodes` compute nodes on `fabric`, for messages of up to `longest` bytes.
    pub fn new(
        simulation: &Simulation,
        nodes: u32,
        fabric: Rc<dyn Fabric>,
        places: &[Place],
        longest: u64,
    ) -> DirectMachine {
        let mut layout = Layout::builder();
        let ranks = places.len() as u32;
        let events = layout.events("direct.arrived", ranks * ranks);
        let landing = layout.region("direct.landing", longest);
        let network = SimNetwork::with_fabric(simulation, nodes, &layout.build(), fabric);
        DirectMachine { network, places: places.into(), events, landing }
    }

    /// The ranks, in order.
    pub fn ranks(&self) -> Vec<DirectRank> {
        let rank = |(rank, place): (usize, &Place)| DirectRank {
            rank: Rank::from_index(rank),
            network: self.network.node(place.node),
            places: self.places.clone(),
            events: self.events,
            landing: self.landing,
        };
        self.places.iter().enumerate().map(rank).collect()
    }
}

impl DirectRank {
    /// Runs `program` on the rank's node.
    pub fn run<F: Future<Output = ()> + 'static>(self, program: impl FnOnce(DirectRank) -> F) {
        let runtime = self.network.runtime().clone();
        runtime.spawn(program(self)).detach();
    }

    fn arrived(&self, to: Rank, from: Rank) -> EventId {
        self.events.get(to.0 * self.places.len() as u32 + from.0)
    }
}

impl Peer for DirectRank {
    /// The event that a receive waits for. A send is eager and waits for nothing.
    type Request = Option<EventId>;

    fn rank(&self) -> Rank {
        self.rank
    }

    fn now(&self) -> Instant {
        self.network.runtime().now()
    }

    fn isend(&self, to: Rank, data: Bytes) -> Result<Option<EventId>, BcsError> {
        let (node, event) = (self.places[to.index()].node, self.arrived(to, self.rank));
        if node == self.network.node() {
            self.network.events().signal(event, Ok(()));
        } else {
            let xfer = Xfer::new(NodeSet::single(node), self.landing.addr, data);
            self.network.xfer_and_signal(xfer.signal_remote(event));
        }
        Ok(None)
    }

    fn irecv(&self, from: Rank, _bytes: usize) -> Result<Option<EventId>, BcsError> {
        Ok(Some(self.arrived(self.rank, from)))
    }

    async fn wait(&self, request: Option<EventId>) -> Result<(), BcsError> {
        match request {
            Some(event) => Ok(self.network.await_event(event).await?),
            None => Ok(()),
        }
    }

    async fn compute(&self, work: Duration) {
        self.network.runtime().sleep(work).await;
    }
}
