//! The DMA Helper: sends granted bytes, as many as the sender's link takes in the slice.

use crate::block::{Grant, Order};
use crate::buffer_receiver::{PIECE_HEAD_BYTES, piece_cost, piece_fit};
use crate::buffer_sender::BufferSender;
use crate::{Completion, Outcome, Plan};
use bytes::{BufMut, Bytes, BytesMut};
use storm_primitives::{NodeId, NodeSet, Xfer};

/// The bytes that one slice moves.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Transfers over links.
    pub(crate) transfers: Vec<Xfer>,
    /// Whole messages within the node.
    pub(crate) here: Vec<(Order, Bytes)>,
    /// Sends whose last bytes are among these.
    pub(crate) done: Vec<Completion>,
    /// Bytes of messages over links.
    pub(crate) payload_bytes: u64,
}

/// Carries out grants, oldest first. All nodes agree on the age of messages, so the oldest of all
/// is granted and sent in every slice, and no message waits for ever.
pub(crate) fn carry_out(
    slice: u64,
    here: NodeId,
    mut grants: Vec<(NodeId, Grant)>,
    plan: &Plan,
    sender: &mut BufferSender,
) -> Moved {
    grants.sort_by_key(|(_, grant)| grant.order);
    let mut moved = Moved::default();
    let mut room = plan.config().link_bytes;
    for (to, grant) in grants {
        let Some(outgoing) = sender.get(grant.send) else { continue };
        let data = &outgoing.data;
        let whole = data.len() as u64;
        if to == here {
            moved.here.push((grant.order, data.clone()));
        } else {
            let Some(left) = whole.checked_sub(grant.offset) else { continue };
            let granted = left.min(u64::from(grant.bytes));
            let Some(bytes) = piece_fit(granted, room) else { continue };
            room -= piece_cost(bytes);
            let part = data.slice(grant.offset as usize..(grant.offset + bytes) as usize);
            moved.payload_bytes += bytes;
            moved.transfers.push(piece(slice, to, &grant, &part, plan));
            if grant.offset + bytes < whole {
                continue;
            }
        }
        if let Some(sent) = sender.take(grant.send) {
            let outcome = Ok(Outcome::Done);
            moved.done.push(Completion { member: sent.member, request: sent.request, outcome });
        }
    }
    moved
}

fn piece(slice: u64, to: NodeId, grant: &Grant, part: &Bytes, plan: &Plan) -> Xfer {
    let mut data = BytesMut::with_capacity(PIECE_HEAD_BYTES as usize + part.len());
    data.put_slice(&slice.to_ne_bytes());
    data.put_slice(&(part.len() as u64).to_ne_bytes());
    data.put_slice(part);
    Xfer::new(NodeSet::single(to), plan.landing(u64::from(grant.landing)), data.freeze())
}
