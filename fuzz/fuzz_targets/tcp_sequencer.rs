//! The root that gets anything from nodes. Its answers go to the nodes that asked, and its messages
//! down the tree write only within global memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use storm_backend_tcp::NameTable;
use storm_backend_tcp::sequencer::{Limits, Output, Sequencer};
use storm_backend_tcp::shared_memory::HostId;
use storm_backend_tcp::wire::{
    Down, Join, Member, Operation, PROTOCOL_VERSION, Request, RequestId, Seq, StageId,
};
use storm_fuzz::Script;
use storm_primitives::{Epoch, GlobalAddr, Incarnation, Instant, Layout, NodeId, NodeSet};

/// Bytes of global memory.
const MEMORY_BYTES: u64 = 4096;
/// Events.
const EVENTS: u32 = 4;
/// Nodes that can join.
const NODES: u32 = 6;
const LIMITS: Limits = Limits {
    inline_limit_bytes: 16,
    chunk_bytes: 8,
    stage_window_bytes: 200,
    operation_window: 8,
    request_window: 16,
};

/// Whether the operation touches only the node's memory.
fn is_sound(down: &Down, payload_bytes: u64) -> bool {
    let within =
        |addr: GlobalAddr, len: u64| addr.0.checked_add(len).is_some_and(|end| end <= MEMORY_BYTES);
    match down.operation {
        Operation::Put { addr, event } => {
            within(addr, payload_bytes) && event.is_none_or(|event| event.0 < EVENTS)
        }
        Operation::Commit { addr, event, .. } => {
            within(addr, 0) && event.is_none_or(|event| event.0 < EVENTS)
        }
        Operation::Compare { var, .. } | Operation::Store { var, .. } => within(var, 8),
    }
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let mut layout = Layout::builder();
    layout.region("memory", MEMORY_BYTES);
    layout.events("events", EVENTS);
    let layout = layout.build();
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let root = Member { node: NodeId::MM, incarnation: Incarnation(1), listen: nowhere };
    let host = HostId::own();
    // Data of one piece, but more than an inline operation, goes by reference.
    let chunk_bytes = if script.byte() % 2 == 0 { LIMITS.chunk_bytes } else { 64 };
    let limits = Limits { chunk_bytes, ..LIMITS };
    let mut root = Sequencer::new(limits, layout.clone(), NameTable::open(NODES), 2, root)
        .at_host(host.clone());
    let mut asked = 0;
    while let Some(step) = script.step(11) {
        root.set_now(Instant::from_nanos(u64::from(script.byte())));
        match step {
            0 => {
                let join = Join {
                    version: PROTOCOL_VERSION,
                    cluster: "fuzz".to_owned(),
                    name: format!("host{}", script.byte() % 8),
                    layout: layout.hash(),
                    listen: nowhere,
                    fabric: String::new(),
                    host: if script.byte() % 4 == 0 { None } else { host.clone() },
                };
                // A name that is in use is refused.
                let _ = root.join(&join, "fuzz");
            }
            1 => {
                let from = script.node(NODES);
                let Some(request) = script.message::<Request>() else { return };
                let data = script.bytes();
                // As in the driver, only members are heard.
                if root.alive().contains(from) {
                    match root.request(from, request, data) {
                        Ok(()) => asked += 1,
                        Err(_) => root.lost(&NodeSet::single(from)),
                    }
                }
            }
            2 => {
                let (from, request) = (script.node(NODES), RequestId(u64::from(script.byte())));
                let offset = script.message::<u64>().unwrap_or_default();
                let data = script.bytes();
                if root.alive().contains(from) && root.data(from, request, offset, &data).is_err() {
                    root.lost(&NodeSet::single(from));
                }
            }
            3 => root.complete(Seq(u64::from(script.byte())), script.byte() % 2 == 0),
            4 => root.staged(StageId(u64::from(script.byte()))),
            5 => root.lost(&NodeSet::single(script.node(NODES))),
            6 => root.link_lost(script.message::<Epoch>().unwrap_or_default()),
            7 => root.issued(script.message().unwrap_or_default()),
            8 => {
                let asked = Instant::from_nanos(u64::from(script.byte()));
                root.answered(script.node(NODES), asked);
            }
            9 => root.references(script.node(NODES), script.byte() % 2 == 0),
            _ => {
                let _ =
                    (root.snapshot(), root.older_than(Instant::from_nanos(7)), root.low_water());
            }
        }
        while let Some(output) = root.take_output() {
            match output {
                Output::View(view) => assert!(view.len <= NODES + 1),
                Output::Down(down, data) => {
                    assert!(is_sound(&down, data.len() as u64), "{down:?}");
                    assert!(down.dest.is_subset(root.alive()) || !down.dest.is_empty());
                }
                Output::Chunk(chunk, data) => {
                    assert!(chunk.offset + data.len() as u64 <= chunk.total, "{chunk:?}");
                }
                Output::Done { to, .. } => {
                    assert!(root.alive().contains(to) || asked > 0);
                }
                Output::Grant { to, .. } => assert!(to != NodeId::MM),
            }
        }
    }
});
