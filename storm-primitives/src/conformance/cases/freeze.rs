//! Nodes that hang: within the backend's limit they count as dead, and when they resume they are
//! outside the cluster.

use super::Trial;
use crate::conformance::atomicity::{InitiatorStatus, all_or_nothing, is_true_blame};
use crate::conformance::doom::Doomed;
use crate::conformance::failure::{differs, expect};
use crate::conformance::trial::{nodes, promised, put};
use crate::conformance::{Failure, Op, OpResult, Pace, Payload, Presence, Read, Seen};
use crate::{CompareAndWrite, NodeId, NodeSet, PrimitiveError, Relation};

fn small(t: &Trial, initiator: NodeId, set: NodeSet) -> Doomed {
    let addr = t.plan().word_addr(1);
    let op = put(&set, addr, Payload::word(7));
    Doomed {
        initiator,
        set,
        op,
        look: Read::Word(addr),
        old: Seen::Word(0),
        new: Some(Seen::Word(7)),
    }
}

fn writing_question(t: &Trial, initiator: NodeId, set: NodeSet) -> Doomed {
    let (var, target) = (t.plan().word(0), t.plan().word(1));
    let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, 0).then_write(target, 7);
    let look = Read::Word(target.addr());
    Doomed { initiator, set, op: Op::Caw(caw), look, old: Seen::Word(0), new: Some(Seen::Word(7)) }
}

/// Issues the operation while `victim` hangs for good.
async fn hangs(t: &Trial, doomed: Doomed, victim: NodeId) -> Result<(), Failure> {
    promised(t.cluster().freeze(victim).await)?;
    let results = t.issue(doomed.initiator, vec![doomed.op.clone()], Pace::BackToBack).await?;
    let status = match &results[..] {
        [OpResult::Xfer(Ok(())) | OpResult::Caw(Ok(true))] => InitiatorStatus::Success,
        [OpResult::Xfer(Err(error)) | OpResult::Caw(Err(error))] => {
            is_true_blame(error, &doomed.set, &NodeSet::single(victim))?;
            InitiatorStatus::Failure(error.clone())
        }
        other => return differs("the result", "a status", format!("{other:?}")),
    };
    let others = t.all().difference(&NodeSet::single(victim));
    t.await_member(&others, victim, Presence::Gone).await?;
    let set = doomed.set.intersection(&others);
    t.check_effect(&doomed, &status, &set).await?;
    for node in others.iter() {
        let op = put(&others, t.plan().word_addr(5), Payload::word(1));
        expect(format!("a transfer of {node} without {victim}"), Ok(()), t.xfer(node, op).await?)?;
        let op = put(&t.all(), t.plan().word_addr(5), Payload::word(2));
        let dead = PrimitiveError::NodesDead { nodes: NodeSet::single(victim) };
        expect(format!("one of {node} with {victim}"), Err(dead), t.xfer(node, op).await?)?;
    }
    Ok(())
}

/// A node of the set of a transfer hangs.
pub(crate) async fn of_a_destination(t: Trial) -> Result<(), Failure> {
    let doomed = small(&t, NodeId(4), nodes(&[0, 1, 2, 3, 6]));
    hangs(&t, doomed, NodeId(1)).await
}

/// A node of the set of a question hangs.
pub(crate) async fn of_one_who_is_asked(t: Trial) -> Result<(), Failure> {
    let doomed = writing_question(&t, NodeId::MM, nodes(&[1, 2, 3, 6]));
    hangs(&t, doomed, NodeId(6)).await
}

/// A node outside of the set hangs: the operation succeeds.
pub(crate) async fn of_an_outsider(t: Trial) -> Result<(), Failure> {
    let doomed = small(&t, NodeId(4), nodes(&[0, 2, 3, 6]));
    hangs(&t, doomed, NodeId(1)).await?;
    t.expect_held(t.plan().word_addr(1), &nodes(&[0, 2, 3, 6]), 7).await
}

/// A frozen node that the cluster declared dead wakes up outside the cluster. Its operations fail,
/// and the operations of other nodes continue without it.
pub(crate) async fn ends_outside(t: Trial) -> Result<(), Failure> {
    let (victim, var) = (NodeId(2), t.plan().word(9));
    let others = t.all().difference(&NodeSet::single(victim));
    promised(t.cluster().freeze(victim).await)?;
    t.await_member(&others, victim, Presence::Gone).await?;
    promised(t.cluster().thaw(victim).await)?;
    t.await_member(&NodeSet::single(victim), NodeId::MM, Presence::Gone).await?;
    let status = t.xfer(victim, put(&others, var.addr(), Payload::word(1))).await?;
    expect("a transfer from outside", Err(PrimitiveError::Disconnected), status)?;
    let caw = CompareAndWrite::new(others.clone(), var, Relation::Equal, 0).then_write(var, 1);
    let answer = t.caw(victim, caw).await?;
    expect("a question from outside", Err(PrimitiveError::Disconnected), answer)?;
    let status = t.xfer(NodeId(1), put(&others, var.addr(), Payload::word(5))).await?;
    expect("a transfer inside", Ok(()), status)?;
    t.expect_held(var.addr(), &others, 5).await
}

/// Each operation that a node had issued before it froze is done everywhere or nowhere.
pub(crate) async fn of_an_initiator(t: Trial) -> Result<(), Failure> {
    let victim = NodeId(3);
    let others = t.all().difference(&NodeSet::single(victim));
    let doomed = small(&t, victim, others.clone());
    let issue = t.try_issue(victim, vec![doomed.op.clone()], Pace::BackToBack);
    let freeze = async {
        promised(t.cluster().freeze(victim).await)?;
        t.await_member(&others, victim, Presence::Gone).await?;
        let op = put(&others, t.plan().bulk(0), Payload::empty());
        expect("a transfer of the others", Ok(()), t.xfer(NodeId(1), op).await?)?;
        let held = t.held(&doomed, &others).await?;
        promised(t.cluster().thaw(victim).await)?;
        Ok::<_, Failure>(held)
    };
    let (results, held) = futures_util::join!(issue, freeze);
    let status = match results?.as_deref() {
        Ok([OpResult::Xfer(Ok(()))]) => InitiatorStatus::Success,
        // The node is cut off and cannot find out whether the operation happened.
        Ok(_) | Err(_) => InitiatorStatus::Nothing,
    };
    all_or_nothing(&status, &held?)?;
    Ok(())
}
