//! COMPARE-AND-WRITE: the comparison on every node of the set, and the write
//! if it holds on all (paper, section 2.4.1 and Algorithm 12).

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::trial::{nodes, put};
use crate::conformance::{Failure, Payload, Store};
use crate::{CompareAndWrite, NodeId, NodeSet, Relation};

/// All four relations, each with a smaller, an equal and a larger value.
pub(crate) async fn knows_four_relations(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(0);
    t.store_all(var.addr(), 10).await?;
    let table = [
        (Relation::GreaterOrEqual, [true, true, false]),
        (Relation::Less, [false, false, true]),
        (Relation::Equal, [false, true, false]),
        (Relation::NotEqual, [true, false, true]),
    ];
    for (relation, answers) in table {
        for (value, expected) in [9, 10, 11].into_iter().zip(answers) {
            for initiator in [0, 1, 3] {
                let caw = CompareAndWrite::new(t.all(), var, relation, value);
                let answer = t.caw(NodeId(initiator), caw).await?;
                expect(format!("10 {relation:?} {value} from n{initiator}"), Ok(expected), answer)?;
            }
        }
    }
    t.expect_word(var.addr(), &t.all(), 10, 10).await
}

/// The comparison is of unsigned 64-bit words.
pub(crate) async fn compares_unsigned(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(0);
    let extremes =
        [0, 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX, 1 << 32, u64::MAX >> 32];
    for left in extremes {
        t.store_all(var.addr(), left).await?;
        for right in extremes {
            for relation in Relation::ALL {
                let caw = CompareAndWrite::new(t.compute(), var, relation, right);
                let answer = t.caw(NodeId::MM, caw).await?;
                let expected = Ok(relation.holds(left, right));
                expect(format!("{left:#x} {relation:?} {right:#x}"), expected, answer)?;
            }
        }
    }
    Ok(())
}

/// TRUE: the write is on every node of the set when the operation returns, and
/// on no other.
pub(crate) async fn writes_when_true(t: Trial) -> Result<(), Failure> {
    let (var, target) = (t.plan().word(0), t.plan().word(9));
    for (round, set) in (1..).zip([t.all(), nodes(&[2, 5]), nodes(&[0]), nodes(&[1, 3, 4, 6])]) {
        for initiator in [0, 2, 6] {
            t.store_all(target.addr(), 0).await?;
            let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, 0);
            let answer = t.caw(NodeId(initiator), caw.then_write(target, round)).await?;
            expect(format!("answer to n{initiator} about {set}"), Ok(true), answer)?;
            t.expect_word(target.addr(), &set, round, 0).await?;
            t.expect_word(var.addr(), &t.all(), 0, 0).await?;
        }
    }
    Ok(())
}

/// FALSE: nothing is written anywhere.
pub(crate) async fn writes_nothing_when_false(t: Trial) -> Result<(), Failure> {
    let (var, target) = (t.plan().word(0), t.plan().word(9));
    let caw = CompareAndWrite::new(t.all(), var, Relation::NotEqual, 0).then_write(target, 7);
    expect("answer", Ok(false), t.caw(NodeId(1), caw).await?)?;
    t.fence(NodeId(1)).await?;
    t.expect_word(target.addr(), &NodeSet::new(), 0, 0).await
}

/// Compared and written variable may be the same.
pub(crate) async fn may_write_what_it_compares(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(4);
    for value in 0..10u64 {
        let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, value);
        let initiator = NodeId(value as u32 % 4);
        let answer = t.caw(initiator, caw.then_write(var, value + 1)).await?;
        expect(format!("answer to {initiator}"), Ok(true), answer)?;
        t.expect_word(var.addr(), &t.all(), value + 1, 0).await?;
    }
    Ok(())
}

/// The empty set compares TRUE and writes nothing.
pub(crate) async fn of_nobody_is_true(t: Trial) -> Result<(), Failure> {
    let (var, target) = (t.plan().word(0), t.plan().word(1));
    for relation in Relation::ALL {
        let caw = CompareAndWrite::new(NodeSet::new(), var, relation, 1).then_write(target, 7);
        expect(format!("answer to {relation:?}"), Ok(true), t.caw(NodeId(1), caw).await?)?;
    }
    t.fence(NodeId(1)).await?;
    t.expect_word(target.addr(), &NodeSet::new(), 0, 0).await
}

/// One node that differs makes the answer FALSE, wherever it is.
pub(crate) async fn finds_one_dissenter(t: Trial) -> Result<(), Failure> {
    let (var, target) = (t.plan().word(0), t.plan().word(1));
    for (dissenter, initiator) in t.all().iter().zip([0, 5, 12, 3].into_iter().cycle()) {
        let caw = CompareAndWrite::new(t.all(), var, Relation::Less, 5).then_write(target, 7);
        t.store(dissenter, Store::Word(var.addr(), 5)).await?;
        let answer = t.caw(NodeId(initiator), caw.clone()).await?;
        expect(format!("answer with {dissenter} against"), Ok(false), answer)?;
        t.expect_word(target.addr(), &NodeSet::new(), 0, 0).await?;
        t.store(dissenter, Store::Word(var.addr(), 4)).await?;
        let answer = t.caw(NodeId(initiator), CompareAndWrite { write: None, ..caw }).await?;
        expect(format!("answer with {dissenter} for"), Ok(true), answer)?;
    }
    Ok(())
}

/// Nodes outside the set are not compared.
pub(crate) async fn asks_only_its_set(t: Trial) -> Result<(), Failure> {
    let (var, target) = (t.plan().word(0), t.plan().word(1));
    let set = nodes(&[2, 3, 7, 11]);
    for node in t.all().difference(&set).iter() {
        t.store(node, Store::Word(var.addr(), 1)).await?;
    }
    for initiator in [0, 1, 2, 12] {
        let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, 0);
        let caw = caw.then_write(target, u64::from(initiator) + 1);
        let answer = t.caw(NodeId(initiator), caw).await?;
        expect(format!("answer to n{initiator}"), Ok(true), answer)?;
        t.expect_word(target.addr(), &set, u64::from(initiator) + 1, 0).await?;
    }
    Ok(())
}

/// A node's own store takes effect at once: its next question sees it.
pub(crate) async fn sees_own_stores(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(2);
    for value in 1..=20 {
        t.store(NodeId(1), Store::Word(var.addr(), value)).await?;
        let set = NodeSet::single(NodeId(1));
        let caw = CompareAndWrite::new(set, var, Relation::Equal, value);
        expect(format!("answer about {value}"), Ok(true), t.caw(NodeId(1), caw).await?)?;
    }
    Ok(())
}

/// The last word of global memory is as good as any.
pub(crate) async fn reaches_the_last_word(t: Trial) -> Result<(), Failure> {
    let last = t.plan().last_word();
    let status = t.xfer(NodeId(1), put(&t.all(), last.addr(), Payload::word(6))).await?;
    expect("status", Ok(()), status)?;
    let caw = CompareAndWrite::new(t.all(), last, Relation::Equal, 6).then_write(last, u64::MAX);
    expect("answer", Ok(true), t.caw(NodeId(2), caw).await?)?;
    t.expect_word(last.addr(), &t.all(), u64::MAX, 0).await
}
