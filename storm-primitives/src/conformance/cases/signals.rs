//! TEST-EVENT: one test takes one signal, and a signal follows its data (paper, Algorithms 10 and
//! 11).

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::trial::{nodes, put_signal};
use crate::conformance::{Failure, Op, Pace, Pattern, Payload, Read, Seen, Status};
use crate::{EventId, GlobalAddr, NodeId, NodeSet};
use futures_util::future::try_join_all;

/// The number of transfers in a case whose transfers may each go wrong in their own way.
const ROUNDS: u64 = 12;

fn silent(dest: &NodeSet, addr: GlobalAddr, data: Payload, event: EventId) -> Op {
    let (dest, remote_event) = (dest.clone(), Some(event));
    Op::Xfer { dest, addr, data, remote_event, status: Status::Ignore }
}

/// A node that waits for the remote event finds the whole block when the signal arrives.
pub(crate) async fn come_after_the_data(t: Trial) -> Result<(), Failure> {
    let event = t.plan().event(0);
    let (addr, dest) = (t.plan().bulk(3), t.compute());
    for (round, len) in (1..=ROUNDS).zip([1, 8, 100, 5_000, 70_000, 300_000].into_iter().cycle()) {
        let pattern = Pattern::new(round << 32, len);
        let op = put_signal(&dest, addr, Payload::Pattern(pattern), event);
        let wait = |node| t.wait(node, event, vec![Read::Hash(addr, len)]);
        let waits = try_join_all(dest.iter().map(wait));
        let (seen, status) = futures_util::try_join!(waits, t.xfer(NodeId::MM, op))?;
        expect("status", Ok(()), status)?;
        for (node, (signal, seen)) in dest.iter().zip(seen) {
            expect(format!("signal on {node}"), Ok(()), signal)?;
            let whole = vec![Seen::Hash(pattern.hash())];
            expect(format!("the {len} bytes on {node} at their signal"), whole, seen)?;
        }
    }
    Ok(())
}

/// `n` signals are taken by exactly `n` tests.
pub(crate) async fn are_counted(t: Trial) -> Result<(), Failure> {
    let (event, addr) = (t.plan().event(1), t.plan().word_addr(0));
    let dest = nodes(&[1, 3]);
    let script = |count: usize| vec![silent(&dest, addr, Payload::empty(), event); count];
    for (initiator, count) in [(1, 40), (2, 25), (0, 1)] {
        t.issue(NodeId(initiator), script(count), Pace::BackToBack).await?;
        t.fence(NodeId(initiator)).await?;
        for node in t.all().iter() {
            let expected = if dest.contains(node) { vec![Ok(()); count] } else { vec![] };
            expect(format!("signals on {node}"), expected, t.drain(node, event).await?)?;
        }
    }
    Ok(())
}

/// Signals from several nodes to one event add up.
pub(crate) async fn of_several_nodes_add_up(t: Trial) -> Result<(), Failure> {
    let (event, addr, target) = (t.plan().event(1), t.plan().word_addr(0), NodeId(2));
    let dest = NodeSet::single(target);
    let script = vec![silent(&dest, addr, Payload::empty(), event); 10];
    let issue = async |node: NodeId| {
        t.issue(node, script.clone(), Pace::BackToBack).await?;
        t.fence(node).await
    };
    try_join_all(t.all().iter().map(issue)).await?;
    let expected = vec![Ok(()); 10 * t.all().len()];
    expect("signals", expected, t.drain(target, event).await?)
}

/// Signals of one event do not show on another.
pub(crate) async fn of_events_are_separate(t: Trial) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    for index in 0..16 {
        let op = silent(&t.all(), addr, Payload::empty(), t.plan().event(index));
        t.issue(NodeId(1), vec![op], Pace::BackToBack).await?;
        t.fence(NodeId(1)).await?;
        for other in 0..16 {
            let expected = if other == index { vec![Ok(())] } else { vec![] };
            let signals = t.drain(NodeId(2), t.plan().event(other)).await?;
            expect(format!("event {other} after a signal of {index}"), expected, signals)?;
        }
    }
    Ok(())
}

/// Several blocking tests wait, and each signal releases one of them.
pub(crate) async fn release_one_waiter_each(t: Trial) -> Result<(), Failure> {
    let (event, addr, target) = (t.plan().event(2), t.plan().word_addr(0), NodeId(2));
    let dest = NodeSet::single(target);
    let waits = try_join_all((0..3).map(|_| t.wait(target, event, vec![])));
    let signals = async {
        for _ in 0..3 {
            let op = put_signal(&dest, addr, Payload::empty(), event);
            expect("status", Ok(()), t.xfer(NodeId(1), op).await?)?;
        }
        Ok(())
    };
    let (taken, ()) = futures_util::try_join!(waits, signals)?;
    expect("signals taken", vec![Ok(()); 3], taken.into_iter().map(|(s, _)| s).collect())?;
    t.fence(NodeId(1)).await?;
    expect("signals left", vec![], t.drain(target, event).await?)
}

/// The data of the n-th signal is there once n signals have been taken, even while more arrive.
pub(crate) async fn keep_step_with_the_data(t: Trial) -> Result<(), Failure> {
    use crate::conformance::{Command, Reply};
    let (event, addr, target) = (t.plan().event(2), t.plan().word_addr(0), NodeId(3));
    let dest = NodeSet::single(target);
    let script = |value| silent(&dest, addr, Payload::word(value), event);
    let sample = Command::Sample { event, signals: 50, words: vec![addr] };
    let issue = t.issue(NodeId(1), (1..=50).map(script).collect(), Pace::BackToBack);
    let (reply, _) = futures_util::try_join!(t.call(target, sample), issue)?;
    let Reply::Sampled(samples) = reply else {
        return Err(crate::conformance::trial::wrong(target, reply));
    };
    expect("snapshots", 50, samples.len())?;
    for (taken, seen) in (1u64..).zip(samples) {
        let newest = seen.into_iter().max().unwrap_or(0);
        let in_step = (taken..=50).contains(&newest);
        expect(format!("word {newest} after {taken} signals is in step"), true, in_step)?;
    }
    Ok(())
}
