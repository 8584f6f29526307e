//! Blocks of every size at every alignment arrive whole, and their neighbours
//! stay as they were.

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::plan::{GUARD_BYTES, MAX_XFER_BYTES};
use crate::conformance::trial::{nodes, put};
use crate::conformance::{Failure, Op, OpResult, Pace, Pattern, Payload, Read, Seen, Status};
use crate::{NodeId, NodeSet};
use bytes::Bytes;
use futures_util::future::try_join_all;

/// Bytes of known content on each side of a block before it arrives.
const FRAME_BYTES: u64 = 24;

/// Transfers `len` bytes to `dest` at `offset`. Checks the bytes and their surroundings.
async fn arrives(
    t: &Trial,
    initiator: NodeId,
    dest: &NodeSet,
    offset: u64,
    len: u64,
) -> Result<(), Failure> {
    let frame = Pattern::new(0xf00d, FRAME_BYTES).bytes();
    let addr = t.plan().bulk(offset);
    let before = crate::GlobalAddr(addr.0 - FRAME_BYTES);
    let frames = |data: &[u8]| Payload::Bytes(Bytes::copy_from_slice(data));
    for at in [before, addr.offset(len)] {
        let status = t.xfer(NodeId::MM, put(&t.all(), at, frames(&frame))).await?;
        expect("status of the frame", Ok(()), status)?;
    }
    let pattern = Pattern::new(len << 20 | offset, len);
    let op = put(dest, addr, Payload::Pattern(pattern));
    let what = format!("{len} bytes at offset {offset} from {initiator} to {dest}");
    expect(format!("status of {what}"), Ok(()), t.xfer(initiator, op).await?)?;
    for node in t.all().iter() {
        if dest.contains(node) {
            expect(format!("{what} on {node}"), pattern.hash(), t.hash(node, addr, len).await?)?;
        }
        for at in [before, addr.offset(len)] {
            let seen = t.bytes(node, at, FRAME_BYTES).await?;
            let expected = Bytes::copy_from_slice(&frame);
            expect(format!("what surrounds {what} on {node}"), expected, seen)?;
        }
    }
    Ok(())
}

/// Small blocks, around the size of a word, at all offsets in it.
pub(crate) async fn around_a_word(t: Trial) -> Result<(), Failure> {
    for len in [0, 1, 2, 7, 8, 9, 15, 16, 17] {
        for offset in 0..8 {
            arrives(&t, NodeId(1), &nodes(&[1, 2]), offset, len).await?;
        }
    }
    Ok(())
}

/// Blocks around the sizes of pages, packets and buffers.
pub(crate) async fn around_pages(t: Trial) -> Result<(), Failure> {
    for page in [64, 512, 1_448, 4_096, 16_384, 65_536, 262_144, 1 << 20] {
        for len in [page - 1, page, page + 1] {
            arrives(&t, NodeId(3), &nodes(&[0, 1, 4]), len % 8, len).await?;
        }
    }
    Ok(())
}

/// Megabytes, from the management node and from a compute node.
pub(crate) async fn of_megabytes(t: Trial) -> Result<(), Failure> {
    arrives(&t, NodeId::MM, &t.compute(), 0, 12 << 20).await?;
    arrives(&t, NodeId(3), &nodes(&[0, 1, 2]), 5, (8 << 20) + 13).await
}

/// The largest block that is tested, 64 MiB.
pub(crate) async fn of_64_mib(t: Trial) -> Result<(), Failure> {
    const { assert!(GUARD_BYTES >= FRAME_BYTES) };
    arrives(&t, NodeId::MM, &t.compute(), 0, MAX_XFER_BYTES).await
}

/// Several nodes write bytes of one word at the same time, and no write is lost.
pub(crate) async fn share_a_word(t: Trial) -> Result<(), Failure> {
    for round in 0..8u8 {
        let write = async |node: NodeId| {
            let index = u64::from(node.0);
            let bytes = Bytes::from(vec![round * 16 + node.0 as u8; 3]);
            let op = put(&t.all(), t.plan().bulk(index * 3 + 1), Payload::Bytes(bytes));
            expect(format!("status to {node}"), Ok(()), t.xfer(node, op).await?)
        };
        try_join_all(t.all().iter().map(write)).await?;
        let expected: Bytes =
            t.all().iter().flat_map(|node| [round * 16 + node.0 as u8; 3]).collect();
        for node in t.all().iter() {
            let seen = t.bytes(node, t.plan().bulk(1), expected.len() as u64).await?;
            expect(format!("bytes side by side on {node}"), expected.clone(), seen)?;
        }
    }
    Ok(())
}

/// Hundreds of small operations in flight from every node at once.
pub(crate) async fn many_small_in_flight(t: Trial) -> Result<(), Failure> {
    const EACH: u64 = 300;
    let slot = |node: NodeId, index: u64| t.plan().bulk((u64::from(node.0) * EACH + index) * 8);
    let issue = async |node: NodeId| {
        let op = |index| put(&t.all(), slot(node, index), Payload::word(index + 1));
        let results = t.issue(node, (0..EACH).map(op).collect(), Pace::BackToBack).await?;
        expect(format!("status to {node}"), vec![OpResult::Xfer(Ok(())); EACH as usize], results)
    };
    try_join_all(t.all().iter().map(issue)).await?;
    for (node, by) in
        t.all().iter().flat_map(|n| t.all().iter().map(move |by| (n, by)).collect::<Vec<_>>())
    {
        let reads = (0..EACH).map(|index| Read::Word(slot(by, index))).collect();
        let expected: Vec<Seen> = (1..=EACH).map(Seen::Word).collect();
        expect(format!("words of {by} on {node}"), expected, t.read(node, reads).await?)?;
    }
    Ok(())
}

/// Several large blocks in flight at once, from different nodes.
pub(crate) async fn many_large_in_flight(t: Trial) -> Result<(), Failure> {
    const LEN: u64 = (1 << 20) + 1;
    let place = |node: NodeId, index: u64| t.plan().bulk((u64::from(node.0) * 3 + index) * LEN);
    let pattern =
        |node: NodeId, index: u64| Pattern::new(u64::from(node.0) << 50 | index << 40, LEN);
    let issue = async |node: NodeId| {
        let op = |index| Op::Xfer {
            dest: t.all(),
            addr: place(node, index),
            data: Payload::Pattern(pattern(node, index)),
            remote_event: None,
            status: Status::Wait,
        };
        let results = t.issue(node, (0..3).map(op).collect(), Pace::BackToBack).await?;
        expect(format!("status to {node}"), vec![OpResult::Xfer(Ok(())); 3], results)
    };
    try_join_all(t.all().iter().map(issue)).await?;
    for node in t.all().iter() {
        for by in t.all().iter() {
            for index in 0..3 {
                let seen = t.hash(node, place(by, index), LEN).await?;
                expect(
                    format!("block {index} of {by} on {node}"),
                    pattern(by, index).hash(),
                    seen,
                )?;
            }
        }
    }
    Ok(())
}
