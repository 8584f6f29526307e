//! One total order that keeps each node's own (paper, section 2.4.1, point 2).

use super::Trial;
use crate::conformance::failure::{differs, expect};
use crate::conformance::trial::{nodes, put, put_signal, wrong};
use crate::conformance::{
    Command, Failure, Op, OpResult, Pace, Pattern, Payload, Read, Reply, Seen, Status, Store,
};
use crate::{CompareAndWrite, EventId, GlobalAddr, NodeId, NodeSet, Relation};
use futures_util::future::try_join_all;

fn unwatched(dest: &NodeSet, addr: GlobalAddr, data: Payload, event: Option<EventId>) -> Op {
    Op::Xfer { dest: dest.clone(), addr, data, remote_event: event, status: Status::Ignore }
}

/// A small block behind a large one to the same node does not overtake it.
pub(crate) async fn small_stays_behind_large(t: Trial) -> Result<(), Failure> {
    let (flag, event, len) = (t.plan().word_addr(0), t.plan().event(0), 4 << 20);
    for (round, dest) in (1..).zip([nodes(&[2]), t.all(), nodes(&[0, 3, 6])]) {
        for initiator in [NodeId::MM, NodeId(1)] {
            let seed = round * 10 + u64::from(initiator.0);
            let large = Pattern::new(seed << 32, len);
            let script = vec![
                unwatched(&dest, t.plan().bulk(1), Payload::Pattern(large), None),
                unwatched(&dest, flag, Payload::word(seed), Some(event)),
            ];
            let reads = vec![Read::Word(flag), Read::Hash(t.plan().bulk(1), len)];
            let wait = |node| t.wait(node, event, reads.clone());
            let waits = try_join_all(dest.iter().map(wait));
            let issue = t.issue(initiator, script, Pace::BackToBack);
            let (seen, _) = futures_util::try_join!(waits, issue)?;
            for (node, (_, seen)) in dest.iter().zip(seen) {
                let expected = vec![Seen::Word(seed), Seen::Hash(large.hash())];
                expect(format!("flag and block on {node}"), expected, seen)?;
            }
        }
    }
    Ok(())
}

/// A COMPARE-AND-WRITE sees an earlier transfer of the same node, even though nobody waited for the
/// transfer.
pub(crate) async fn caw_sees_own_xfer(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(3);
    for value in 1..=20u64 {
        let initiator = NodeId(value as u32 % 5);
        let op = unwatched(&t.all(), var.addr(), Payload::word(value), None);
        let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, value);
        let results = t.issue(initiator, vec![op, Op::Caw(caw)], Pace::BackToBack).await?;
        let expected = vec![OpResult::Unwatched, OpResult::Caw(Ok(true))];
        expect(format!("question of {initiator} behind its transfer"), expected, results)?;
    }
    Ok(())
}

/// A transfer behind a question of the same node is ordered after the question's write.
pub(crate) async fn xfer_overwrites_own_caw(t: Trial) -> Result<(), Failure> {
    let var = t.plan().word(3);
    for round in 1..=10u64 {
        let initiator = NodeId(round as u32 % 5);
        t.store_all(var.addr(), 0).await?;
        let caw = CompareAndWrite::new(t.all(), var, Relation::Equal, 0).then_write(var, 77);
        let op = put(&t.all(), var.addr(), Payload::word(round));
        let results = t.issue(initiator, vec![Op::Caw(caw), op], Pace::BackToBack).await?;
        let expected = vec![OpResult::Caw(Ok(true)), OpResult::Xfer(Ok(()))];
        expect(format!("results to {initiator}"), expected, results)?;
        t.expect_word(var.addr(), &t.all(), round, 0).await?;
    }
    Ok(())
}

/// One node writes one place by many small and large transfers. The last write remains.
pub(crate) async fn last_of_a_node_remains(t: Trial) -> Result<(), Failure> {
    let sizes = [8, 100_000, 16, 3, 40_000, 65_536, 1];
    let pattern = |n: u64| Pattern::new(n << 32, sizes[n as usize % sizes.len()]);
    for initiator in [NodeId::MM, NodeId(2)] {
        let op = |n| unwatched(&t.all(), t.plan().bulk(0), Payload::Pattern(pattern(n)), None);
        t.issue(initiator, (0..42).map(op).collect(), Pace::BackToBack).await?;
        t.fence(initiator).await?;
        let mut expected = vec![0; 100_000];
        for n in 0..42 {
            let bytes = pattern(n).bytes();
            expected[..bytes.len()].copy_from_slice(&bytes);
        }
        let expected = crate::conformance::pattern::hash(&expected);
        for node in t.all().iter() {
            let seen = t.hash(node, t.plan().bulk(0), 100_000).await?;
            expect(format!("what {initiator} left on {node}"), expected, seen)?;
        }
    }
    Ok(())
}

/// All nodes see all transfers in one order: of any two intermediate states, one contains the
/// other.
pub(crate) async fn is_the_same_everywhere(t: Trial) -> Result<(), Failure> {
    const EACH: u64 = 15;
    let event = t.plan().event(4);
    let counter = |node: NodeId| t.plan().word_addr(node.0);
    let words: Vec<GlobalAddr> = t.all().iter().map(counter).collect();
    let signals = EACH as u32 * t.all().len() as u32;
    let sample = async |node: NodeId| {
        let command = Command::Sample { event, signals, words: words.clone() };
        match t.call(node, command).await? {
            Reply::Sampled(samples) => Ok(samples),
            reply => Err(wrong(node, reply)),
        }
    };
    let issue = async |node: NodeId| {
        let op = |n| unwatched(&t.all(), counter(node), Payload::word(n), Some(event));
        t.issue(node, (1..=EACH).map(op).collect(), Pace::BackToBack).await
    };
    let samples = try_join_all(t.all().iter().map(sample));
    let issues = try_join_all(t.all().iter().map(issue));
    let (samples, _) = futures_util::try_join!(samples, issues)?;
    // Sorted by their sums, each state must contain the previous one.
    let mut states: Vec<Vec<u64>> = samples.into_iter().flatten().collect();
    states.sort_by_key(|state| state.iter().sum::<u64>());
    for pair in states.windows(2) {
        if pair[0].iter().zip(&pair[1]).any(|(earlier, later)| earlier > later) {
            let seen = format!("{:?} on one node, {:?} on another", pair[0], pair[1]);
            return differs("states that nodes passed through", "one order of states", seen);
        }
    }
    Ok(())
}

/// A node that acts on a message acts after the message, as seen by all nodes. In the case, n1
/// writes to n3 and then signals n2; n2 writes to n3. A node that sees n2's write also sees n1's.
pub(crate) async fn is_causal(t: Trial) -> Result<(), Failure> {
    let (cause, effect) = (t.plan().bulk(0), t.plan().word_addr(1));
    let (told, done) = (t.plan().event(0), t.plan().event(1));
    let third = NodeSet::single(NodeId(3));
    for (round, len) in (1..=8).zip([8, 200_000].into_iter().cycle()) {
        let pattern = Pattern::new(round << 32, len);
        let script = vec![
            unwatched(&third, cause, Payload::Pattern(pattern), None),
            unwatched(&nodes(&[2]), t.plan().word_addr(0), Payload::empty(), Some(told)),
        ];
        let first = t.issue(NodeId(1), script, Pace::BackToBack);
        let second = async {
            let (signal, _) = t.wait(NodeId(2), told, vec![]).await?;
            expect("signal on n2", Ok(()), signal)?;
            let op = put_signal(&third, effect, Payload::word(round), done);
            t.xfer(NodeId(2), op).await
        };
        let reads = vec![Read::Word(effect), Read::Hash(cause, len)];
        let look = t.wait(NodeId(3), done, reads);
        let (_, status, (_, seen)) = futures_util::try_join!(first, second, look)?;
        expect("status to n2", Ok(()), status)?;
        let expected = vec![Seen::Word(round), Seen::Hash(pattern.hash())];
        expect("effect and cause on n3", expected, seen)?;
    }
    Ok(())
}

/// A node writes to n3 and then stores a word of its own. Another node finds the word and then
/// writes to n3. The second write must remain. The first node waits for the status of its write
/// only if the backend does not promise the order.
pub(crate) async fn reaches_past_own_stores(t: Trial) -> Result<(), Failure> {
    let (cause, effect) = (t.plan().bulk(0), t.plan().word_addr(1));
    let (flag, done) = (t.plan().word(0), t.plan().event(1));
    let third = NodeSet::single(NodeId(3));
    let pairs = [(1, 0), (0, 1), (6, 0), (1, 2), (5, 6), (3, 0), (2, 3)];
    for (round, (by, asker)) in (1..).zip(pairs.into_iter().cycle()).take(28) {
        let (by, asker) = (NodeId(by), NodeId(asker));
        let len = [8, 20_000, 200_000][round as usize % 3];
        let pattern = Pattern::new(round << 32, len);
        let put = put(&third, cause, Payload::Pattern(pattern));
        let stores = vec![Store::Word(flag.addr(), round)];
        let first = t.call(by, Command::IssueThenWrite { ops: vec![put], stores });
        let second = async {
            let set = NodeSet::single(by);
            let ask = CompareAndWrite::new(set, flag, Relation::GreaterOrEqual, round);
            loop {
                match t.caw(asker, ask.clone()).await? {
                    Ok(true) => break,
                    Ok(false) => {}
                    failed => expect(format!("the answer to {asker}"), Ok(true), failed)?,
                }
            }
            let op = put_signal(&third, effect, Payload::word(round), done);
            t.xfer(asker, op).await
        };
        let look = t.wait(NodeId(3), done, vec![Read::Word(effect), Read::Hash(cause, len)]);
        let (_, status, (_, seen)) = futures_util::try_join!(first, second, look)?;
        expect(format!("status to {asker}"), Ok(()), status)?;
        let expected = vec![Seen::Word(round), Seen::Hash(pattern.hash())];
        expect(format!("what {by} issued before its store"), expected, seen)?;
    }
    Ok(())
}

/// Several nodes write overlapping blocks. Every node ends with the same bytes, and each word was
/// written by one of the writers.
pub(crate) async fn of_overlapping_blocks(t: Trial) -> Result<(), Failure> {
    const WORDS: u64 = 2_000;
    for round in 1..=5u64 {
        let write = async |node: NodeId| {
            let stamp = round << 8 | u64::from(node.0);
            let first = u64::from(node.0) * 100;
            let bytes: Vec<u8> = (first..WORDS).flat_map(|_| stamp.to_ne_bytes()).collect();
            let op = put(&t.all(), t.plan().bulk(first * 8), Payload::Bytes(bytes.into()));
            expect(format!("status to {node}"), Ok(()), t.xfer(node, op).await?)
        };
        try_join_all(t.all().iter().map(write)).await?;
        let first = t.bytes(NodeId::MM, t.plan().bulk(0), WORDS * 8).await?;
        for node in t.all().iter() {
            let seen = t.hash(node, t.plan().bulk(0), WORDS * 8).await?;
            let expected = crate::conformance::pattern::hash(&first);
            expect(format!("blocks on {node}, as on {}", NodeId::MM), expected, seen)?;
        }
        // The last block of the order covers everything from its start on.
        let tail = &first[800 * t.all().len()..];
        let whole = tail.chunks(8).all(|word| word == &tail[..8]);
        expect("the end of the blocks is from one node", true, whole)?;
    }
    Ok(())
}
