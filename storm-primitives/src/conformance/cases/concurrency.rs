//! Concurrent writers: COMPARE-AND-WRITEs take effect one after the other (paper, section 2.4.1,
//! point 2).

use super::Trial;
use crate::conformance::failure::{differs, expect};
use crate::conformance::trial::put;
use crate::conformance::{Failure, Op, Pace, Payload};
use crate::{CompareAndWrite, NodeId, PrimitiveError, Relation};
use futures_util::future::try_join_all;
use std::time::Duration;

/// The number of races in each case.
const ROUNDS: u64 = 8;
/// Attempts at a lock or counter after which a node counts as starving.
const MAX_ATTEMPTS: usize = 10_000;
/// The pause between two attempts at a lock, doubled each time. The holder of the lock waits
/// for data, which can take a network much longer than an answer.
const FIRST_PAUSE: Duration = Duration::from_micros(10);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

fn answered(node: NodeId, answer: Result<bool, PrimitiveError>) -> Result<bool, Failure> {
    match answer {
        Ok(holds) => Ok(holds),
        Err(error) => differs(format!("answer to {node}"), "TRUE or FALSE", format!("{error:?}")),
    }
}

/// All parameters are the same except the value: one value remains, on every node.
pub(crate) async fn leaves_one_value(t: Trial) -> Result<(), Failure> {
    let (guard, target) = (t.plan().word(0), t.plan().word(1));
    for round in 1..=ROUNDS {
        let write = async |node: NodeId| {
            let value = round << 8 | u64::from(node.0);
            let caw = CompareAndWrite::new(t.all(), guard, Relation::Equal, 0);
            let answer = t.caw(node, caw.then_write(target, value)).await?;
            expect(format!("answer to {node}"), Ok(true), answer)
        };
        try_join_all(t.all().iter().map(write)).await?;
        let value = t.word(NodeId::MM, target.addr()).await?;
        expect("the value is of this round", round, value >> 8)?;
        expect("its writer exists", true, t.all().contains(NodeId(value as u32 & 0xff)))?;
        t.expect_word(target.addr(), &t.all(), value, value).await?;
    }
    Ok(())
}

/// The node that finds the old value wins, and only one node can.
pub(crate) async fn has_one_winner(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(0);
    for _ in 0..ROUNDS {
        t.store_all(var.addr(), 0).await?;
        let race = async |node: NodeId| {
            let mine = u64::from(node.0) + 1;
            let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, 0);
            let won = answered(node, t.caw(node, caw.then_write(var, mine)).await?)?;
            Ok::<_, Failure>(won.then_some(mine))
        };
        let winners: Vec<u64> =
            try_join_all(t.all().iter().map(race)).await?.into_iter().flatten().collect();
        let [winner] = winners[..] else {
            return differs("winners of a race", "one", format!("{winners:?}"));
        };
        t.expect_word(var.addr(), &t.all(), winner, winner).await?;
    }
    Ok(())
}

/// Two operations that each write what the other compares: one of them sees the other's write.
pub(crate) async fn has_no_write_skew(t: Trial) -> Result<(), Failure> {
    let (x, y) = (t.plan().word(0), t.plan().word(1));
    for round in 0..ROUNDS * 4 {
        t.store_all(x.addr(), 0).await?;
        t.store_all(y.addr(), 0).await?;
        let one = NodeId(1 + round as u32 % 4);
        let two = NodeId(round as u32 % 2 * 4);
        let ask = async |node, read, write| {
            let caw = CompareAndWrite::new(t.all(), read, Relation::Equal, 0);
            answered(node, t.caw(node, caw.then_write(write, 1)).await?)
        };
        let both = futures_util::try_join!(ask(one, x, y), ask(two, y, x))?;
        if both != (true, false) && both != (false, true) {
            return differs("two crossed questions", "one TRUE, one FALSE", format!("{both:?}"));
        }
        t.expect_word(x.addr(), &t.all(), u64::from(both.1), 2).await?;
        t.expect_word(y.addr(), &t.all(), u64::from(both.0), 2).await?;
    }
    Ok(())
}

/// Questions about sets that overlap in part agree on the nodes in common.
pub(crate) async fn holds_for_overlapping_sets(t: Trial) -> Result<(), Failure> {
    use crate::conformance::trial::nodes;
    let var = t.plan().word(2);
    for _ in 0..ROUNDS {
        t.store_all(var.addr(), 0).await?;
        let sets = [nodes(&[1, 2, 3]), nodes(&[3, 4, 5]), nodes(&[5, 0, 1])];
        let race = async |index: usize| {
            let node = NodeId(index as u32 * 2 + 1);
            let caw = CompareAndWrite::new(sets[index].clone(), var, Relation::Equal, 0);
            answered(node, t.caw(node, caw.then_write(var, index as u64 + 1)).await?)
        };
        let won = try_join_all((0..3).map(race)).await?;
        let winners: Vec<usize> = (0..3).filter(|index| won[*index]).collect();
        // Any two of the sets have a node in common.
        let [winner] = winners[..] else {
            return differs("winners", "one", format!("{winners:?}"));
        };
        t.expect_word(var.addr(), &sets[winner], winner as u64 + 1, 0).await?;
    }
    Ok(())
}

/// A test-and-set lock keeps all others out of a read and a write that are two
/// operations.
pub(crate) async fn makes_a_lock(t: Trial) -> Result<(), Failure> {
    const EACH: u64 = 4;
    let (lock, count) = (t.plan().word(0), t.plan().word(1));
    let work = async |node: NodeId| {
        let mine = u64::from(node.0) + 1;
        for _ in 0..EACH {
            acquire(&t, node, mine).await?;
            let value = t.word(node, count.addr()).await?;
            let op = put(&t.all(), count.addr(), Payload::word(value + 1));
            expect(format!("status to {node}"), Ok(()), t.xfer(node, op).await?)?;
            let release = CompareAndWrite::new(t.all(), lock, Relation::Equal, mine);
            let answer = t.caw(node, release.then_write(lock, 0)).await?;
            expect(format!("{node} finds its lock"), Ok(true), answer)?;
        }
        Ok::<(), Failure>(())
    };
    try_join_all(t.all().iter().map(work)).await?;
    let total = EACH * t.all().len() as u64;
    t.expect_word(count.addr(), &t.all(), total, total).await
}

async fn acquire(t: &Trial, node: NodeId, mine: u64) -> Result<(), Failure> {
    let lock = t.plan().word(0);
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_ATTEMPTS {
        let take = CompareAndWrite::new(t.all(), lock, Relation::Equal, 0);
        if answered(node, t.caw(node, take.then_write(lock, mine)).await?)? {
            return Ok(());
        }
        t.cluster().sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Err(Failure::Endless { what: "the wait for a lock", limit: MAX_ATTEMPTS as u64 })
}

/// Increments by compare and retry are not lost.
pub(crate) async fn makes_a_counter(t: Trial) -> Result<(), Failure> {
    const EACH: u64 = 4;
    let var = t.plan().word(0);
    let work = async |node: NodeId| {
        let mut added = 0;
        for _ in 0..MAX_ATTEMPTS {
            if added == EACH {
                return Ok(());
            }
            let value = t.word(node, var.addr()).await?;
            let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, value);
            added += u64::from(answered(node, t.caw(node, caw.then_write(var, value + 1)).await?)?);
        }
        Err(Failure::Endless { what: "counting", limit: MAX_ATTEMPTS as u64 })
    };
    try_join_all(t.all().iter().map(work)).await?;
    let total = EACH * t.all().len() as u64;
    t.expect_word(var.addr(), &t.all(), total, total).await
}

/// A dropped question happened everywhere or nowhere, as later questions of the same node show.
pub(crate) async fn survives_abandonment(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(0);
    let mut old = 0;
    for value in 1..=ROUNDS {
        let node = NodeId(value as u32 % 4);
        let question = |relation, value| CompareAndWrite::new(t.all(), var, relation, value);
        let dropped = question(Relation::Less, value).then_write(var, value);
        t.issue(node, vec![Op::AbandonedCaw(dropped)], Pace::BackToBack).await?;
        let new = answered(node, t.caw(node, question(Relation::Equal, value)).await?)?;
        let same = answered(node, t.caw(node, question(Relation::Equal, old)).await?)?;
        if new == same {
            let seen = format!("new on all: {new}, old on all: {same}");
            return differs("a dropped question", "new on all or old on all", seen);
        }
        old = if new { value } else { old };
        t.expect_word(var.addr(), &t.all(), old, old).await?;
    }
    Ok(())
}
