//! A node rejoins as a new incarnation, with nothing of its former one.

use super::Trial;
use crate::conformance::failure::{differs, expect};
use crate::conformance::trial::{nodes, promised, put, put_signal};
use crate::conformance::{Failure, Payload, Presence, Seen};
use crate::{CompareAndWrite, Incarnation, NodeId, NodeSet, Relation};

/// Kills the node and starts it again. Returns its incarnation before.
async fn reborn(t: &Trial, node: NodeId) -> Result<Incarnation, Failure> {
    let Some(before) = t.members(NodeId::MM).await?.get(&node).copied() else {
        return differs(format!("{node} in the membership"), "there", "not there");
    };
    t.cluster().kill(node).await;
    t.await_member(&t.survivors(), node, Presence::Gone).await?;
    promised(t.cluster().rejoin(node).await)?;
    t.await_member(&t.all(), node, Presence::After(before)).await?;
    for other in t.all().iter() {
        t.await_member(&NodeSet::single(node), other, Presence::There).await?;
    }
    Ok(before)
}

/// All nodes are notified of each new incarnation.
pub(crate) async fn is_a_new_incarnation(t: Trial) -> Result<(), Failure> {
    let node = NodeId(2);
    for _ in 0..3 {
        let before = reborn(&t, node).await?;
        let views: Vec<_> = futures_util::future::try_join_all(
            t.all().iter().map(async |observer| t.members(observer).await),
        )
        .await?;
        for view in &views {
            let later = view.get(&node).is_some_and(|now| *now > before);
            expect(format!("{node} after {before:?} in {view:?}"), true, later)?;
            expect("one view on all nodes", &views[0], view)?;
        }
    }
    Ok(())
}

/// The memory is zero and none of its events is signalled.
pub(crate) async fn begins_with_nothing(t: Trial) -> Result<(), Failure> {
    let (node, addr) = (NodeId(2), t.plan().word_addr(0));
    for index in 0..16 {
        let op = put_signal(&t.all(), addr, Payload::word(9), t.plan().event(index));
        expect("status", Ok(()), t.xfer(NodeId(1), op).await?)?;
    }
    reborn(&t, node).await?;
    expect("its memory", 0, t.word(node, addr).await?)?;
    expect("memory of another", 9, t.word(NodeId(3), addr).await?)?;
    for index in 0..16 {
        let signals = t.drain(node, t.plan().event(index)).await?;
        expect(format!("its event {index}"), vec![], signals)?;
    }
    Ok(())
}

/// A rejoined node takes part in everything, as destination and as initiator.
pub(crate) async fn takes_part_again(t: Trial) -> Result<(), Failure> {
    for node in nodes(&[1, 4]).iter() {
        reborn(&t, node).await?;
        t.works_without_dead().await?;
        let (var, event) = (t.plan().word(3), t.plan().event(1));
        t.store_all(var.addr(), 0).await?;
        let op = put_signal(&t.all(), var.addr(), Payload::word(4), event);
        expect(format!("a transfer of {node}"), Ok(()), t.xfer(node, op).await?)?;
        for other in t.all().iter() {
            let reads = vec![crate::conformance::Read::Word(var.addr())];
            let (signal, seen) = t.wait(other, event, reads).await?;
            expect(format!("on {other}"), (Ok(()), vec![Seen::Word(4)]), (signal, seen))?;
        }
        let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, 4).then_write(var, 5);
        expect(format!("a question of {node}"), Ok(true), t.caw(node, caw).await?)?;
        t.expect_word(var.addr(), &t.all(), 5, 0).await?;
    }
    Ok(())
}

/// A rejoined node gets no transfer that its former incarnation issued, and is in no set because of
/// its former incarnation.
pub(crate) async fn owes_nothing(t: Trial) -> Result<(), Failure> {
    use crate::conformance::{Op, Pace, Status};
    let (node, var) = (NodeId(3), t.plan().word(0));
    let op = |value| Op::Xfer {
        dest: t.all(),
        addr: var.addr(),
        data: Payload::word(value),
        remote_event: None,
        status: Status::Ignore,
    };
    t.issue(node, (1..=50).map(op).collect(), Pace::BackToBack).await?;
    reborn(&t, node).await?;
    let status = t.xfer(NodeId(1), put(&t.all(), var.addr(), Payload::word(99))).await?;
    expect("status", Ok(()), status)?;
    t.fence(node).await?;
    t.expect_word(var.addr(), &t.all(), 99, 0).await
}
