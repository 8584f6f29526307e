//! Nodes that are dead, or die during operations: errors name exactly the dead, and the other nodes
//! continue (paper, section 2.4.3).

use super::Trial;
use crate::conformance::atomicity::{Held, InitiatorStatus, all_or_nothing, is_true_blame};
use crate::conformance::failure::{differs, expect};
use crate::conformance::trial::{nodes, put};
use crate::conformance::{Failure, Op, OpResult, Pace, Payload, Presence, Status};
use crate::{CompareAndWrite, NodeId, NodeSet, PrimitiveError, Relation};
use futures_util::future::try_join_all;
use std::collections::BTreeMap;

async fn kill_and_tell(t: &Trial, victims: &NodeSet) -> Result<(), Failure> {
    for victim in victims.iter() {
        t.cluster().kill(victim).await;
    }
    for victim in victims.iter() {
        t.await_member(&t.survivors(), victim, Presence::Gone).await?;
    }
    Ok(())
}

/// The error names the dead node, and all survivors are notified of the death.
pub(crate) async fn of_one_is_known_to_all(t: Trial) -> Result<(), Failure> {
    let dead = nodes(&[3]);
    kill_and_tell(&t, &dead).await?;
    t.works_without(&dead).await
}

/// A node through which others may be reached dies: they stay reachable.
pub(crate) async fn of_the_first_cuts_off_nobody(t: Trial) -> Result<(), Failure> {
    let dead = nodes(&[1]);
    kill_and_tell(&t, &dead).await?;
    t.works_without(&dead).await
}

/// Half of the nodes die at the same instant.
pub(crate) async fn of_half_leaves_half(t: Trial) -> Result<(), Failure> {
    let dead = nodes(&[1, 2, 4, 7, 10, 11]);
    kill_and_tell(&t, &dead).await?;
    t.works_without(&dead).await
}

/// The nodes die one after the other, down to the last.
pub(crate) async fn of_all_in_turn(t: Trial) -> Result<(), Failure> {
    let mut dead = NodeSet::new();
    for victim in [2, 1, 5, 4, 3] {
        dead.insert(NodeId(victim));
        kill_and_tell(&t, &nodes(&[victim])).await?;
        t.works_without(&dead).await?;
    }
    Ok(())
}

/// Only the dead of the set are named, and a set without dead succeeds.
pub(crate) async fn is_named_by_the_set(t: Trial) -> Result<(), Failure> {
    kill_and_tell(&t, &nodes(&[2, 6])).await?;
    for initiator in [NodeId::MM, NodeId(1), NodeId(8)] {
        t.names_the_dead(initiator, &nodes(&[1, 2, 3]), &nodes(&[2])).await?;
        t.names_the_dead(initiator, &nodes(&[6]), &nodes(&[6])).await?;
        t.names_the_dead(initiator, &nodes(&[0, 2, 5, 6, 8]), &nodes(&[2, 6])).await?;
        let op = put(&nodes(&[1, 3, 5, 8]), t.plan().word_addr(0), Payload::word(1));
        expect("a set of the living", Ok(()), t.xfer(initiator, op).await?)?;
    }
    Ok(())
}

/// A death outside the set changes nothing, not even while it is still unknown.
pub(crate) async fn outside_the_set_is_no_matter(t: Trial) -> Result<(), Failure> {
    let set = nodes(&[0, 2, 4, 5, 7, 8]);
    let var = t.plan().word(0);
    for (value, victim) in (1..).zip([1, 3, 6]) {
        t.cluster().kill(NodeId(victim)).await;
        for initiator in [NodeId(2), NodeId::MM, NodeId(8)] {
            let op = put(&set, var.addr(), Payload::word(value));
            let what = format!("a transfer {initiator} to {set} as n{victim} dies");
            expect(what, Ok(()), t.xfer(initiator, op).await?)?;
            let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, value);
            let what = format!("a question {initiator} to {set} as n{victim} dies");
            expect(what, Ok(true), t.caw(initiator, caw).await?)?;
        }
        t.expect_word(var.addr(), &set, value, 0).await?;
    }
    Ok(())
}

/// A node dies under many transfers in flight. Each transfer by itself is all or nothing, and its
/// status agrees with its effect.
pub(crate) async fn under_many_transfers(t: Trial) -> Result<(), Failure> {
    const EACH: u32 = 20;
    let victim = NodeId(2);
    let initiators = nodes(&[0, 1, 5, 6]);
    let slot = |node: NodeId, index: u32| t.plan().bulk(u64::from(node.0 * EACH + index) * 8);
    let issue = async |node: NodeId| {
        let op = |index| put(&t.all(), slot(node, index), Payload::word(1));
        t.issue(node, (0..EACH).map(op).collect(), Pace::BackToBack).await
    };
    let (all, _death) =
        t.with_death(victim, 25, try_join_all(initiators.iter().map(issue))).await?;
    t.cluster().kill(victim).await;
    t.await_member(&t.survivors(), victim, Presence::Gone).await?;
    for (initiator, results) in initiators.iter().zip(all?) {
        for (index, result) in (0..).zip(results) {
            let status = match result {
                OpResult::Xfer(Ok(())) => InitiatorStatus::Success,
                OpResult::Xfer(Err(error)) => {
                    is_true_blame(&error, &t.all(), &NodeSet::single(victim))?;
                    InitiatorStatus::Failure(error)
                }
                other => return differs("a transfer's result", "a status", format!("{other:?}")),
            };
            let held = words_held(&t, slot(initiator, index)).await?;
            all_or_nothing(&status, &held)?;
        }
    }
    t.works_without(&NodeSet::single(victim)).await
}

/// An initiator issues operations without waiting and then dies. None of its operations is half
/// done, and no operation is done after a missing operation.
pub(crate) async fn of_a_busy_initiator(t: Trial) -> Result<(), Failure> {
    const OPS: u32 = 30;
    let victim = NodeId(4);
    let slot = |index: u32| t.plan().bulk(u64::from(index) * 8);
    let op = |index| Op::Xfer {
        dest: t.all(),
        addr: slot(index),
        data: Payload::word(1),
        remote_event: None,
        status: Status::Wait,
    };
    let issue = t.try_issue(victim, (0..OPS).map(op).collect(), Pace::BackToBack);
    let (_, _death) = t.with_death(victim, 17, issue).await?;
    t.cluster().kill(victim).await;
    t.await_member(&t.survivors(), victim, Presence::Gone).await?;
    t.fence(NodeId::MM).await?;
    let mut missing = None;
    for index in 0..OPS {
        let happened =
            all_or_nothing(&InitiatorStatus::Nothing, &words_held(&t, slot(index)).await?)?;
        match (happened, missing) {
            (true, Some(gap)) => {
                let seen = format!("operation {index} happened, operation {gap} did not");
                return differs("the operations of a dead node", "a first part of them", seen);
            }
            (false, None) => missing = Some(index),
            (true, None) | (false, Some(_)) => {}
        }
    }
    t.works_without(&NodeSet::single(victim)).await
}

/// The values that the survivors hold of a word that changes from 0 to 1.
async fn words_held(t: &Trial, addr: crate::GlobalAddr) -> Result<BTreeMap<NodeId, Held>, Failure> {
    let held = |word| match word {
        0 => Held::Old,
        1 => Held::New,
        _ => Held::Torn,
    };
    let words = t.words(&t.survivors(), addr).await?;
    Ok(words.into_iter().map(|(node, word)| (node, held(word))).collect())
}

/// A lock that a dead node held can be taken from the survivors' set.
pub(crate) async fn of_a_lock_holder(t: Trial) -> Result<(), Failure> {
    let lock = t.plan().word(0);
    let take = |set: NodeSet, old, new| {
        CompareAndWrite::new(set, lock, Relation::Equal, old).then_write(lock, new)
    };
    let holder = NodeId(3);
    expect("n3 takes the lock", Ok(true), t.caw(holder, take(t.all(), 0, 3)).await?)?;
    kill_and_tell(&t, &NodeSet::single(holder)).await?;
    let error = PrimitiveError::NodesDead { nodes: NodeSet::single(holder) };
    expect("with the dead", Err(error), t.caw(NodeId(1), take(t.all(), 3, 1)).await?)?;
    let survivors = t.survivors();
    expect("n1 breaks the lock", Ok(true), t.caw(NodeId(1), take(survivors, 3, 1)).await?)?;
    t.expect_word(lock.addr(), &t.survivors(), 1, 0).await
}

/// Without the management node there is no cluster: every node is notified of its death.
pub(crate) async fn of_the_management_node(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(0);
    let op = put(&t.compute(), var.addr(), Payload::word(1));
    expect("a transfer before", Ok(()), t.xfer(NodeId(1), op).await?)?;
    t.cluster().kill(NodeId::MM).await;
    t.await_member(&t.compute(), NodeId::MM, Presence::Gone).await?;
    for node in t.compute().iter() {
        let op = put(&t.compute(), var.addr(), Payload::word(2));
        let status = t.xfer(node, op).await?;
        expect(format!("a transfer of {node}"), Err(PrimitiveError::Disconnected), status)?;
        let caw = CompareAndWrite::new(t.compute(), var, Relation::Equal, 1).then_write(var, 3);
        let answer = t.caw(node, caw).await?;
        expect(format!("a question of {node}"), Err(PrimitiveError::Disconnected), answer)?;
    }
    t.expect_word(var.addr(), &t.compute(), 1, 0).await
}

/// Operations in flight when the management node dies all end.
pub(crate) async fn of_the_management_node_under_load(t: Trial) -> Result<(), Failure> {
    let issue = async |node: NodeId| {
        let op = |n: u32| match n % 3 {
            0 => {
                let var = t.plan().word(node.0);
                Op::Caw(CompareAndWrite::new(t.compute(), var, Relation::Equal, 0))
            }
            _ => put(&t.compute(), t.plan().bulk(u64::from(n) * 8), Payload::word(1)),
        };
        t.issue(node, (0..20).map(op).collect(), Pace::BackToBack).await
    };
    let work = try_join_all(t.compute().iter().map(issue));
    let (all, _death) = t.with_death(NodeId::MM, 10, work).await?;
    for (node, results) in t.compute().iter().zip(all?) {
        for (index, result) in results.iter().enumerate() {
            let ended = matches!(
                result,
                OpResult::Xfer(Ok(()) | Err(PrimitiveError::Disconnected))
                    | OpResult::Caw(Ok(true) | Err(PrimitiveError::Disconnected))
            );
            expect(format!("{node}'s operation {index} ends: {result:?}"), true, ended)?;
        }
    }
    Ok(())
}
