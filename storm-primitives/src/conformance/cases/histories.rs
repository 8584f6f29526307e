//! Random concurrent operations. The check: some total order explains their answers and the memory
//! at the end.

use super::Trial;
use crate::conformance::failure::{differs, expect};
use crate::conformance::history::{Event, History};
use crate::conformance::pattern::mix;
use crate::conformance::trial::put;
use crate::conformance::{Failure, Op, OpResult, Pace, Payload};
use crate::{CompareAndWrite, NodeId, NodeSet, Relation};
use futures_util::future::try_join_all;

/// Words that the operations fight over.
const WORDS: u32 = 3;
/// Histories in one case.
const HISTORIES: u64 = 12;

/// The composition of a history.
struct Mix {
    ops_per_node: u64,
    /// COMPARE-AND-WRITEs per ten operations.
    caws_of_ten: u64,
    pace: Pace,
}

/// Transfers and questions in equal parts, back to back.
pub(crate) async fn of_everything(t: Trial) -> Result<(), Failure> {
    explain(&t, Mix { ops_per_node: 6, caws_of_ten: 5, pace: Pace::BackToBack }).await
}

/// Questions only, nearly all of which write.
pub(crate) async fn of_questions(t: Trial) -> Result<(), Failure> {
    explain(&t, Mix { ops_per_node: 6, caws_of_ten: 10, pace: Pace::BackToBack }).await
}

/// A few questions among many transfers.
pub(crate) async fn of_transfers(t: Trial) -> Result<(), Failure> {
    explain(&t, Mix { ops_per_node: 7, caws_of_ten: 2, pace: Pace::BackToBack }).await
}

/// Each node waits for one operation before it issues the next.
pub(crate) async fn of_patient_nodes(t: Trial) -> Result<(), Failure> {
    explain(&t, Mix { ops_per_node: 6, caws_of_ten: 6, pace: Pace::OneByOne }).await
}

async fn explain(t: &Trial, mixture: Mix) -> Result<(), Failure> {
    for round in 0..HISTORIES {
        for word in 0..WORDS {
            t.store_all(t.plan().word_addr(word), 0).await?;
        }
        let run = async |node: NodeId| {
            let seed = mix(t.seed() << 20 | round << 8 | u64::from(node.0));
            let ops: Vec<Op> =
                (0..mixture.ops_per_node).map(|n| random_op(t, &mixture, mix(seed ^ n))).collect();
            let results = t.issue(node, ops.clone(), mixture.pace).await?;
            let seen: Result<Vec<Event>, Failure> =
                ops.iter().zip(&results).map(|(op, result)| observe(t, node, op, result)).collect();
            Ok::<_, Failure>((node, seen?))
        };
        let issued = try_join_all(t.all().iter().map(run)).await?.into_iter().collect();
        let mut history = History { issued, ..History::default() };
        for node in t.all().iter() {
            let mut words = Vec::new();
            for word in 0..WORDS {
                words.push(t.word(node, t.plan().word_addr(word)).await?);
            }
            history.finals.insert(node, words);
        }
        if let Err(error) = history.total_order() {
            return differs(
                format!("history {round}"),
                "a total order",
                format!("{error}: {history:?}"),
            );
        }
    }
    Ok(())
}

/// An operation that `random` decides: few words and values, so that they meet.
fn random_op(t: &Trial, mixture: &Mix, random: u64) -> Op {
    let pick = |shift: u64, bound: u64| mix(random.wrapping_add(shift << 48)) % bound;
    let set: NodeSet = match pick(1, 3) {
        0 => t.all(),
        _ => t.all().iter().filter(|node| pick(2 + u64::from(node.0), 3) != 0).collect(),
    };
    let value = 1 + pick(20, 4);
    let word = pick(21, u64::from(WORDS)) as u32;
    if pick(22, 10) >= mixture.caws_of_ten {
        return put(&set, t.plan().word_addr(word), Payload::word(value));
    }
    let relation = Relation::ALL[pick(23, 4) as usize];
    let caw = CompareAndWrite::new(set, t.plan().word(word), relation, pick(24, 4));
    Op::Caw(match pick(25, 5) {
        0 => caw,
        _ => caw.then_write(t.plan().word(pick(26, u64::from(WORDS)) as u32), value),
    })
}

/// The operation with its answer, for the checker.
fn observe(t: &Trial, node: NodeId, op: &Op, result: &OpResult) -> Result<Event, Failure> {
    let index = |addr| (0..WORDS as usize).position(|w| t.plan().word_addr(w as u32) == addr);
    let index = |addr| index(addr).unwrap_or_default();
    match (op, result) {
        (Op::Xfer { dest, addr, data, .. }, OpResult::Xfer(status)) => {
            expect(format!("status to {node}"), &Ok(()), status)?;
            let mut value = [0; 8];
            value.copy_from_slice(&data.to_bytes());
            let value = u64::from_ne_bytes(value);
            Ok(Event::Put { dest: dest.clone(), word: index(*addr), value })
        }
        (Op::Caw(caw), OpResult::Caw(Ok(answer))) => Ok(Event::Caw {
            set: caw.set.clone(),
            word: index(caw.var),
            relation: caw.relation,
            value: caw.value,
            write: caw.write.map(|(addr, value)| (index(addr), value)),
            answer: *answer,
        }),
        (op, result) => differs(format!("{op:?}"), "an answer of its kind", format!("{result:?}")),
    }
}
