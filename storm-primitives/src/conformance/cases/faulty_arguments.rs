//! Arguments at fault: an error that names the fault, no effect anywhere, and the operations around
//! it undisturbed.

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::trial::{put, put_signal};
use crate::conformance::{Failure, Op, OpResult, Pace, Pattern, Payload};
use crate::{
    CompareAndWrite, EventId, GlobalAddr, NodeId, NodeSet, OutOfBounds, PrimitiveError, Relation,
};

/// Issues `faulty` between two good operations and expects that only `faulty` fails, with `error`.
async fn refused(t: &Trial, faulty: Op, error: PrimitiveError) -> Result<(), Failure> {
    let addr = t.plan().word_addr(60);
    let refusal = match &faulty {
        Op::Xfer { .. } => OpResult::Xfer(Err(error)),
        Op::Caw(_) | Op::AbandonedCaw(_) => OpResult::Caw(Err(error)),
    };
    for initiator in [NodeId::MM, NodeId(2)] {
        let before = put(&t.all(), addr, Payload::word(1));
        let after = put(&t.all(), addr, Payload::word(2));
        let script = vec![before, faulty.clone(), after];
        let results = t.issue(initiator, script, Pace::BackToBack).await?;
        let good = OpResult::Xfer(Ok(()));
        expect(format!("{faulty:?}"), vec![good.clone(), refusal.clone(), good], results)?;
        t.expect_word(addr, &t.all(), 2, 0).await?;
    }
    Ok(())
}

fn out_of_bounds(t: &Trial, addr: GlobalAddr, len: u64) -> PrimitiveError {
    OutOfBounds { addr, len, size: t.plan().layout().size() }.into()
}

fn compare(t: &Trial, var: GlobalAddr) -> CompareAndWrite {
    CompareAndWrite { set: t.all(), var, relation: Relation::Equal, value: 0, write: None }
}

/// A block that begins inside and ends outside of global memory.
pub(crate) async fn xfer_past_the_end(t: Trial) -> Result<(), Failure> {
    let (last, event) = (t.plan().last_word().addr(), t.plan().event(0));
    for len in [9, 4096] {
        let payload = Payload::Pattern(Pattern::new(1, len));
        let op = put_signal(&t.all(), last, payload, event);
        refused(&t, op, out_of_bounds(&t, last, len)).await?;
    }
    t.expect_word(last, &NodeSet::new(), 0, 0).await?;
    expect("signals", vec![], t.drain(NodeId(1), event).await?)
}

/// An address whose end does not fit 64 bits.
pub(crate) async fn xfer_that_overflows(t: Trial) -> Result<(), Failure> {
    for addr in [GlobalAddr(u64::MAX), GlobalAddr(u64::MAX - 7), GlobalAddr(1 << 63)] {
        let op = put(&t.all(), addr, Payload::word(1));
        refused(&t, op, out_of_bounds(&t, addr, 8)).await?;
    }
    t.expect_word(GlobalAddr(0), &NodeSet::new(), 0, 0).await
}

/// No data can be put behind the end, not even zero bytes; at the end it can.
pub(crate) async fn xfer_of_nothing_past_the_end(t: Trial) -> Result<(), Failure> {
    let end = GlobalAddr(t.plan().layout().size());
    let status = t.xfer(NodeId(1), put(&t.all(), end, Payload::empty())).await?;
    expect("status of nothing at the end", Ok(()), status)?;
    let behind = end.offset(1);
    let op = put(&t.all(), behind, Payload::empty());
    refused(&t, op, out_of_bounds(&t, behind, 0)).await
}

/// A remote event that is not in the layout, for example a local event.
pub(crate) async fn xfer_with_unknown_event(t: Trial) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    for event in [t.plan().unknown_event(), EventId(u32::MAX), EventId(EventId::FIRST_LOCAL)] {
        let op = put_signal(&t.all(), addr, Payload::word(1), event);
        refused(&t, op, PrimitiveError::UnknownEvent { event }).await?;
    }
    t.expect_word(addr, &NodeSet::new(), 0, 0).await
}

/// A compared or written variable that is not aligned to its word.
pub(crate) async fn caw_misaligned(t: Trial) -> Result<(), Failure> {
    let word = t.plan().word_addr(8);
    for bytes in [1, 4, 7] {
        let addr = word.offset(bytes);
        let error = PrimitiveError::Misaligned { addr };
        refused(&t, Op::Caw(compare(&t, addr)), error.clone()).await?;
        let caw = CompareAndWrite { write: Some((addr, u64::MAX)), ..compare(&t, word) };
        refused(&t, Op::Caw(caw), error).await?;
    }
    t.expect_word(word, &NodeSet::new(), 0, 0).await?;
    t.expect_word(word.offset(8), &NodeSet::new(), 0, 0).await
}

/// A compared or written variable outside of global memory.
pub(crate) async fn caw_out_of_bounds(t: Trial) -> Result<(), Failure> {
    let word = t.plan().word_addr(8);
    let end = GlobalAddr(t.plan().layout().size());
    for addr in [end, GlobalAddr(u64::MAX - 7), GlobalAddr(1 << 40)] {
        let error = out_of_bounds(&t, addr, 8);
        refused(&t, Op::Caw(compare(&t, addr)), error.clone()).await?;
        let caw = CompareAndWrite { write: Some((addr, 1)), ..compare(&t, word) };
        refused(&t, Op::Caw(caw), error).await?;
    }
    t.expect_word(word, &NodeSet::new(), 0, 0).await
}

/// A node that the cluster does not have is as good as dead, and is named.
pub(crate) async fn node_that_never_was(t: Trial) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    let nobody = NodeId(99);
    let set = t.all().union(&NodeSet::single(nobody));
    let error = PrimitiveError::NodesDead { nodes: NodeSet::single(nobody) };
    refused(&t, put(&set, addr, Payload::word(1)), error.clone()).await?;
    let caw = CompareAndWrite { set, write: Some((addr, 1)), ..compare(&t, addr) };
    refused(&t, Op::Caw(caw), error).await?;
    t.expect_word(addr, &NodeSet::new(), 0, 0).await
}
