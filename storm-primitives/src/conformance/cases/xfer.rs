//! XFER-AND-SIGNAL reaches exactly its set and reports once (paper, section
//! 2.4.1, points 2 and 3).

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::trial::{nodes, put, put_signal};
use crate::conformance::{Failure, Op, OpResult, Pace, Payload, Read, Seen, Status};
use crate::{NodeId, NodeSet};

/// Each set gets a word from each of these initiators, and no other node does.
async fn reaches(t: &Trial, sets: &[NodeSet], from: &[u32]) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    for (round, dest) in (1..).zip(sets) {
        for &initiator in from {
            t.store_all(addr, 0).await?;
            let value = round * 100 + u64::from(initiator);
            let op = put(dest, addr, Payload::word(value));
            let status = t.xfer(NodeId(initiator), op).await?;
            expect(format!("status of a transfer n{initiator} to {dest}"), Ok(()), status)?;
            t.expect_word(addr, dest, value, 0).await?;
        }
    }
    Ok(())
}

/// A transfer to one node, for every pair of nodes: the data arrives there and nowhere else.
pub(crate) async fn reaches_one_node(t: Trial) -> Result<(), Failure> {
    let sets: Vec<NodeSet> = t.all().iter().map(NodeSet::single).collect();
    reaches(&t, &sets, &[0, 1, 2, 3, 4]).await
}

/// A transfer to all nodes, the issuing node among them.
pub(crate) async fn reaches_all_nodes(t: Trial) -> Result<(), Failure> {
    reaches(&t, &[t.all(), t.compute()], &[0, 1, 6]).await
}

/// Sets with holes: nodes in between receive nothing, even if data passes them.
pub(crate) async fn reaches_a_set_with_holes(t: Trial) -> Result<(), Failure> {
    let sets = [
        nodes(&[1, 3, 5, 7]),
        nodes(&[2, 4, 6, 8]),
        nodes(&[1, 8, 9, 12]),
        nodes(&[12]),
        nodes(&[0, 5, 11]),
        nodes(&[3, 4, 10]),
    ];
    reaches(&t, &sets, &[0, 3, 12]).await
}

/// Random sets from random nodes.
pub(crate) async fn reaches_random_sets(t: Trial) -> Result<(), Failure> {
    use crate::conformance::pattern::mix;
    let addr = t.plan().word_addr(1);
    for round in 1..=24u64 {
        let random = mix(t.seed().wrapping_mul(1_000).wrapping_add(round));
        let dest: NodeSet = t.all().iter().filter(|node| random >> node.0 & 1 == 1).collect();
        let initiator = NodeId((random >> 40) as u32 % 13);
        t.store_all(addr, 0).await?;
        let status = t.xfer(initiator, put(&dest, addr, Payload::word(round))).await?;
        expect(format!("status of a transfer {initiator} to {dest}"), Ok(()), status)?;
        t.expect_word(addr, &dest, round, 0).await?;
    }
    Ok(())
}

/// The empty set: success, and nothing happens anywhere.
pub(crate) async fn to_nobody_succeeds(t: Trial) -> Result<(), Failure> {
    let (addr, event) = (t.plan().word_addr(0), t.plan().event(0));
    let op = put_signal(&NodeSet::new(), addr, Payload::word(9), event);
    expect("status of a transfer to nobody", Ok(()), t.xfer(NodeId(1), op).await?)?;
    t.fence(NodeId(1)).await?;
    t.expect_word(addr, &NodeSet::new(), 0, 0).await?;
    for node in t.all().iter() {
        expect(format!("signal on {node}"), None, t.poll(node, event).await?)?;
    }
    Ok(())
}

/// Zero bytes: the event is signalled and no byte changes.
pub(crate) async fn of_zero_bytes_signals(t: Trial) -> Result<(), Failure> {
    let (addr, event) = (t.plan().word_addr(0), t.plan().event(3));
    let dest = nodes(&[2, 3]);
    t.store_all(addr, 5).await?;
    let op = put_signal(&dest, addr, Payload::empty(), event);
    expect("status", Ok(()), t.xfer(NodeId(1), op).await?)?;
    for node in t.all().iter() {
        let expected = dest.contains(node).then_some(Ok(()));
        expect(format!("signal on {node}"), expected, t.poll(node, event).await?)?;
    }
    t.expect_word(addr, &t.all(), 5, 5).await
}

/// A transfer without events: the data arrives, and no event is signalled.
pub(crate) async fn needs_no_event(t: Trial) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    let (dest, data) = (t.compute(), Payload::word(11));
    let op = Op::Xfer { dest, addr, data, remote_event: None, status: Status::Ignore };
    t.issue(NodeId(1), vec![op], Pace::BackToBack).await?;
    t.fence(NodeId(1)).await?;
    t.expect_word(addr, &t.compute(), 11, 0).await?;
    for (node, event) in t.all().iter().flat_map(|node| (0..16).map(move |e| (node, e))) {
        let signal = t.poll(node, t.plan().event(event)).await?;
        expect(format!("event {event} on {node}"), None, signal)?;
    }
    Ok(())
}

/// The operation keeps its place when the caller is dropped.
pub(crate) async fn outlives_its_caller(t: Trial) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    let op = Op::Xfer {
        dest: t.all(),
        addr,
        data: Payload::word(3),
        remote_event: None,
        status: Status::Abandon,
    };
    let results = t.issue(NodeId(2), vec![op], Pace::BackToBack).await?;
    expect("results", vec![OpResult::Unwatched], results)?;
    t.fence(NodeId(2)).await?;
    t.expect_word(addr, &t.all(), 3, 0).await
}

/// The local event is signalled once for each operation, on the issuing node
/// only, when the data is everywhere.
pub(crate) async fn reports_its_status_once(t: Trial) -> Result<(), Failure> {
    let (addr, event) = (t.plan().word_addr(0), t.plan().event(5));
    let initiator = NodeId(2);
    for round in 1..=5 {
        let op = Op::Xfer {
            dest: t.all(),
            addr,
            data: Payload::word(round),
            remote_event: None,
            status: Status::Event(event),
        };
        t.issue(initiator, vec![op], Pace::BackToBack).await?;
        let (signal, seen) = t.wait(initiator, event, vec![Read::Word(addr)]).await?;
        expect("status", (Ok(()), vec![Seen::Word(round)]), (signal, seen))?;
        t.expect_word(addr, &t.all(), round, 0).await?;
    }
    t.fence(initiator).await?;
    for node in t.all().iter() {
        expect(format!("signals left on {node}"), vec![], t.drain(node, event).await?)?;
    }
    Ok(())
}

/// An event that is both the remote and the local event is signalled twice.
pub(crate) async fn may_name_one_event_twice(t: Trial) -> Result<(), Failure> {
    let (addr, event) = (t.plan().word_addr(0), t.plan().event(6));
    let op = Op::Xfer {
        dest: nodes(&[1, 2]),
        addr,
        data: Payload::word(1),
        remote_event: Some(event),
        status: Status::Event(event),
    };
    t.issue(NodeId(1), vec![op], Pace::BackToBack).await?;
    for _ in 0..2 {
        expect("signal on n1", Ok(()), t.wait(NodeId(1), event, vec![]).await?.0)?;
    }
    t.fence(NodeId(1)).await?;
    expect("signals left on n1", vec![], t.drain(NodeId(1), event).await?)?;
    expect("signals on n2", vec![Ok(())], t.drain(NodeId(2), event).await?)
}
