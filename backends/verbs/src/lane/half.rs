//! One end of a lane before it is connected to the other end.

use super::connected::{Duty, Lane};
use super::filler::Filler;
use super::granter::Granter;
use super::pipe::{Pipe, REQUESTS};
use crate::VerbsError;
use crate::error::LaneError;
use crate::fabric::Common;
use crate::guard::{
    Access, CompletionQueue, MemoryRegion, QueuePair, Route, link_layer_name, mtu_bytes,
};
use crate::offer::{LANE_VERSION, MAX_PACKET_NUMBER, Offer};
use crate::ring::RING_BYTES;
use crate::slot::REGION_BYTES;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use storm_backend_tcp::fabric::{Carrier, End, Opening};
use storm_backend_tcp::wire;
use storm_primitives::NodeId;

/// Data up to this length travels inside its request. Operations of small sets, and grants, fit.
/// Adapters have room for some hundred bytes.
const MAX_INLINE_BYTES: u32 = 220;

/// A queue pair that can receive as soon as it is connected, with its memory and the offer for the
/// other side.
pub(crate) struct Half {
    common: Rc<Common>,
    peer: NodeId,
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    /// The name of the queue.
    name: usize,
    region: Arc<MemoryRegion>,
    duty: Duty,
    own: Offer,
}

impl Half {
    /// This end of a lane to `peer`.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub(crate) fn new(
        common: Rc<Common>,
        peer: NodeId,
        lane: wire::Lane,
        end: End,
    ) -> Result<Half, VerbsError> {
        let domain = common.adapter.pool.domain();
        let region = MemoryRegion::new(domain, REGION_BYTES, Access::RemoteWrite)?;
        let region = Arc::new(region);
        let name = common.adapter.poller.new_name();
        let channel = common.adapter.poller.channel();
        let queue = Arc::new(CompletionQueue::new(channel, name, 2 * REQUESTS)?);
        let pair = QueuePair::new(domain, &queue, REQUESTS, REQUESTS, MAX_INLINE_BYTES)?;
        pair.initialise(&common.adapter.port)?;
        pair.post_receives(REQUESTS)?;
        let own = Offer {
            version: LANE_VERSION,
            ring_bytes: RING_BYTES,
            number: pair.number(),
            first_packet: first_packet(),
            gid: common.adapter.gid.raw,
            lid: common.adapter.port.attr.lid,
            link_layer: common.adapter.port.attr.link_layer,
            mtu: common.adapter.port.attr.active_mtu,
            ring_addr: region.addr(),
            ring_rkey: region.rkey(),
        };
        let duty = duty(&common, lane, end)?;
        Ok(Half { common, peer, pair, queue, name, region, duty, own })
    }

    fn join(self, theirs: &[u8]) -> Result<Rc<Lane>, LaneError> {
        let Half { common, peer, pair, queue, name, region, duty, own } = self;
        let theirs = Offer::decode(theirs).map_err(|why| LaneError::Offer { peer, why })?;
        let (layer, their_layer) =
            (link_layer_name(own.link_layer), link_layer_name(theirs.link_layer));
        if layer != their_layer {
            return Err(LaneError::LinkLayer { peer, theirs: their_layer, ours: layer });
        }
        let mtu = own.mtu.min(theirs.mtu);
        if own.mtu != theirs.mtu {
            tracing::warn!(
                %peer,
                ours = mtu_bytes(own.mtu),
                theirs = mtu_bytes(theirs.mtu),
                "the ports differ in MTU; this lane uses the smaller"
            );
        }
        let route = Route { gid_index: common.adapter.gid_index, mtu };
        pair.connect(&common.adapter.port, &route, &own.endpoint(), &theirs.endpoint())?;
        let number = common.adapter.port.number;
        let looking = match duty {
            Duty::Express => common.adapter.poller.looking(),
            // Messages that arrive on a bulk lane are processed when there is nothing else to do.
            Duty::Fill(_) | Duty::Grant(_) => Rc::default(),
        };
        let pipe = Pipe::new(peer, number, theirs, pair, queue.clone(), region, looking);
        Lane::start(&common, pipe, queue, name, duty)
    }
}

/// This end's part in the lane, with the least number of blocks that it needs.
fn duty(common: &Common, lane: wire::Lane, end: End) -> Result<Duty, VerbsError> {
    let pool = &common.adapter.pool;
    Ok(match (lane, end) {
        (wire::Lane::Express, End::Parent | End::Child) => Duty::Express,
        (wire::Lane::Bulk, End::Parent) => Duty::Fill(Box::new(Filler::new(pool, pool.reserve()?))),
        (wire::Lane::Bulk, End::Child) => {
            let mut blocks = vec![pool.reserve()?];
            let more = 1..common.adapter.config.blocks_per_lane;
            blocks.extend(more.map_while(|_| pool.take()));
            Duty::Grant(Granter::new(pool, blocks))
        }
    })
}

/// A random first packet number. Packets of an earlier pair with the same queue pair number are not
/// taken for packets of this pair.
fn first_packet() -> u32 {
    // Without randomness, 0 is good enough: the pair's number differs each time.
    getrandom::u32().unwrap_or(0) & MAX_PACKET_NUMBER
}

impl Opening for Half {
    fn offer(&self) -> Vec<u8> {
        self.own.encode()
    }

    fn connect(self: Box<Self>, theirs: &[u8]) -> io::Result<Rc<dyn Carrier>> {
        let lane: Rc<dyn Carrier> = self.join(theirs)?;
        Ok(lane)
    }
}
