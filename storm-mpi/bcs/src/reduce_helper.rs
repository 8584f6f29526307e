//! The Reduce Helper: reductions, combined on the way up the tree of nodes in one microphase.
//!
//! Each slice takes a part of every running reduction. A node combines the parts of its ranks and
//! its children, as far as the order of the members allows ([`crate::dyadic`]). It sends the rest
//! up. The first node sends the result to the nodes that need it. The microphase has no strobes
//! inside: a node waits for the signals of its children.

use crate::block::{self, HEAD_BYTES, Unreadable};
use crate::dyadic::{Misfit, Piece, Pieces};
use crate::group::GroupKey;
use crate::microphase::Microphase;
use crate::open::{Call, Open, Running, Work};
use crate::reducing::Part;
use crate::{BcsError, Collective, JobKey, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::{GlobalAddr, NodeSet, Xfer};

/// The communicators with members on this node.
type Communicators = BTreeMap<GroupKey, Open>;

/// Begins the part of this slice of every running reduction.
pub(crate) fn begin(all: &mut Communicators, now: &mut Microphase<'_>) {
    for open in all.values_mut() {
        let Open { placed, running, .. } = open;
        let Some(Running { calls, work: Work::Reduce(reducing), .. }) = running else { continue };
        let done = reducing.result.len();
        let bytes = placed.reduce_bytes.min(reducing.bytes - done);
        let members = placed.members.len() as u32;
        let mut pieces = Pieces::new(members, bytes, reducing.reduction);
        let leaves = calls.iter().filter_map(|call| leaf(call, done, bytes));
        if leaves.map(|leaf| pieces.add(leaf)).any(|added| added == Err(Misfit)) {
            now.step.failed.push((placed.job, BcsError::Corrupt));
        }
        let waiting = placed.children(now.here).into_iter().collect();
        reducing.part = Some(Part { bytes, pieces, waiting, sent: false });
    }
}

/// Takes the pieces that children have sent, and sends complete parts on. For jobs that are
/// `ending`, it sends the pieces that it has. Awaited ranks may have left, and the other nodes must
/// not wait for this node.
pub(crate) fn advance(
    all: &mut Communicators,
    now: &mut Microphase<'_>,
    ending: &BTreeSet<JobKey>,
) {
    for open in all.values_mut() {
        let Open { placed, running, .. } = open;
        let Some(Running { slot, work: Work::Reduce(reducing), .. }) = running else { continue };
        let readers = reducing.readers(placed);
        let Some(part) = &mut reducing.part else { continue };
        if part.sent {
            continue;
        }
        if let Err(error) = take_in(part, slot.0, now) {
            // The job ends with the next slice. This slice continues, because other nodes wait for
            // this node.
            now.step.failed.push((placed.job, error));
        }
        if !part.waiting.is_empty() && !ending.contains(&placed.job) {
            continue;
        }
        part.sent = true;
        if let Some((parent, round)) = placed.parent(now.here) {
            let pieces = part.pieces.take();
            let most = now.plan.config().collective_bytes;
            // If pieces do not fit together, the parent lacks the rest and ends the job too.
            let (block, _) = block::pack(now.slice, most, &pieces);
            let up = Xfer::new(NodeSet::single(parent), now.plan.partial(slot.0, round), block);
            now.step.puts.push(up.signal_remote(now.plan.arrival));
            continue;
        }
        // A missing result is reported at the end of the slice.
        let Some(result) = part.pieces.result() else { continue };
        let dest = readers.difference(&NodeSet::single(now.here));
        if !dest.is_empty() {
            let block = block::raw(now.slice, &[result]);
            now.step.puts.push(Xfer::new(dest, now.plan.broadcast(slot.0), block));
        }
    }
}

/// Whether no reduction waits for a child.
pub(crate) fn is_idle(all: &Communicators) -> bool {
    all.values().all(|open| match &open.running {
        Some(Running { work: Work::Reduce(reducing), .. }) => {
            reducing.part.as_ref().is_none_or(|part| part.sent)
        }
        Some(_) | None => true,
    })
}

/// Ends the part of this slice: takes the results out of the network's buffers.
pub(crate) fn end(all: &mut Communicators, now: &mut Microphase<'_>) -> Result<(), Unreadable> {
    for open in all.values_mut() {
        let Open { placed, running, .. } = open;
        let Some(Running { slot, work: Work::Reduce(reducing), .. }) = running else { continue };
        let Some(part) = reducing.part.take() else { continue };
        let so_far = reducing.result.len();
        if placed.owner() == now.here {
            reducing.result.extend_from_slice(part.pieces.result().unwrap_or_default());
        } else if reducing.readers(placed).contains(now.here) {
            let most = now.plan.config().collective_bytes;
            if let Some(body) =
                block::body(now.memory, now.plan.broadcast(slot.0), most, now.slice)?
            {
                now.step.received_bytes += HEAD_BYTES + body.len() as u64;
                reducing.result.extend_from_slice(&body);
            }
        } else {
            reducing.result.resize(so_far + part.bytes, 0);
        }
        if reducing.result.len() != so_far + part.bytes {
            // The loss of a result is not reported here: the job ends with the next slice.
            now.step.failed.push((placed.job, BcsError::Corrupt));
            continue;
        }
        if reducing.result.len() >= reducing.bytes {
            let (root, result) = (reducing.root, std::mem::take(&mut reducing.result));
            open.end(now, |member| match root {
                Some(root) if root != member as usize => Outcome::Done,
                Some(_) | None => Outcome::Data(result.clone()),
            });
        }
    }
    Ok(())
}

/// Takes the pieces of children. A child that has sent anything, even nonsense, has reported,
/// because it sends nothing more in this slice. Returns the first error.
fn take_in(part: &mut Part, slot: u32, now: &mut Microphase<'_>) -> Result<(), BcsError> {
    let mut first = Ok(());
    for round in part.waiting.clone() {
        match take_in_round(&mut part.pieces, now.plan.partial(slot, round), now) {
            Ok(false) => {}
            Ok(true) => {
                part.waiting.remove(&round);
            }
            Err(error) => {
                part.waiting.remove(&round);
                first = first.and(Err(error));
            }
        }
    }
    first
}

/// Takes a child's part. Returns whether the child has sent it.
fn take_in_round(
    pieces: &mut Pieces,
    at: GlobalAddr,
    now: &mut Microphase<'_>,
) -> Result<bool, BcsError> {
    let most = now.plan.config().collective_bytes;
    let Some(body) = block::body(now.memory, at, most, now.slice)? else { return Ok(false) };
    now.step.received_bytes += HEAD_BYTES + body.len() as u64;
    for piece in block::unpack::<Piece>(&body)? {
        pieces.add(piece).map_err(|Misfit| BcsError::Corrupt)?;
    }
    Ok(true)
}

fn leaf(call: &Call, offset: usize, bytes: usize) -> Option<Piece> {
    match &call.call {
        Collective::Reduce { data, .. } => {
            let data = data.get(offset..offset + bytes)?.to_vec();
            Some(Piece { first: call.index, level: 0, data })
        }
        Collective::Barrier | Collective::Broadcast { .. } => None,
    }
}
