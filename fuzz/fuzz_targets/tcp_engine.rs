//! One node of the tree that gets anything from its parent, its children and the root.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_backend_tcp::engine::Engine;
use storm_backend_tcp::wire::{Chunk, Down, Up, View, encode};
use storm_fuzz::Script;
use storm_primitives::{EventTable, GlobalMemory, Layout, NodeId};

/// Bytes of global memory.
const MEMORY_BYTES: u64 = 4096;
/// The most outputs of the engine after one step: each child gets each operation once.
const MAX_OUTPUT: usize = 1 << 17;
/// Nodes that are asked for.
const NODES: u32 = 16;

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let mut layout = Layout::builder();
    layout.region("memory", MEMORY_BYTES);
    layout.events("events", 4);
    let layout = layout.build();
    let (memory, events) = (GlobalMemory::new(&layout), EventTable::new(&layout));
    let node = NodeId(u32::from(script.byte()) % NODES);
    let fanout = if script.byte() == u8::MAX { u32::MAX } else { u32::from(script.byte()) % 5 };
    let mut engine = Engine::new(node, fanout, memory, events);
    while let Some(step) = script.step(6) {
        match step {
            0 => {
                let Some(view) = script.message::<View>() else { return };
                if engine.on_view(&view).is_err() {
                    // The driver leaves the cluster.
                    return;
                }
            }
            1 => {
                let Some(down) = script.message::<Down>() else { return };
                let payload = script.bytes();
                let raw = encode(&down, &payload);
                if script.byte() % 2 == 0 {
                    engine.on_down(&down, &payload, &raw);
                } else {
                    engine.on_lent(&down, payload.into());
                }
            }
            2 => {
                let from = NodeId(u32::from(script.byte()) % NODES);
                let Some(up) = script.message::<Up>() else { return };
                engine.on_up(from, up);
            }
            3 => {
                let Some(chunk) = script.message::<Chunk>() else { return };
                let payload = script.bytes();
                if engine.on_chunk(&chunk, payload).is_err() {
                    return;
                }
            }
            4 => {
                let child = NodeId(u32::from(script.byte()) % NODES);
                if let Some((chunk, piece)) = engine.next_chunk(child) {
                    assert!(!piece.bytes().is_empty() && chunk.total >= chunk.offset);
                }
            }
            _ => {
                engine.report_stages();
                let _ = engine.attach_message();
            }
        }
        let sent = std::iter::from_fn(|| engine.take_output()).take(MAX_OUTPUT).count();
        assert!(sent < MAX_OUTPUT, "it never stops sending");
    }
});
