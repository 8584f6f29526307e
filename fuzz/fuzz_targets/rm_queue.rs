//! The reader of a remote queue whose memory holds anything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::Script;
use storm_primitives::sim::{NetworkConfig, SimNetwork, Simulation};
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Runtime, Xfer};
use storm_rm::remote_queue::{QueuePlan, Reader, Writer};

/// Slots of the queue, and bytes of each.
const SLOTS: u32 = 4;
const SLOT_BYTES: u32 = 24;
/// Longest that an item is waited for, in virtual time.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(1);

async fn play(mut script: Script<'_>, network: SimNetwork, queue: QueuePlan, memory_bytes: u64) {
    let (mm, slave) = (network.node(NodeId::MM), network.node(NodeId(1)));
    let dest = NodeSet::single(NodeId(1));
    let mut writer = Writer::new(mm.clone(), &queue);
    let mut reader = Reader::new(slave.clone(), &queue);
    while let Some(step) = script.step(4) {
        match step {
            0 => {
                // Anything, anywhere: the region begins at 0.
                let addr = u64::from(script.byte()) % memory_bytes;
                let data = script.bytes();
                let len = (data.len() as u64).min(memory_bytes - addr) as usize;
                let write =
                    Xfer::new(dest.clone(), storm_primitives::GlobalAddr(addr), data.slice(..len));
                assert_eq!(mm.xfer_and_wait(write).await, Ok(()));
            }
            1 => {
                let data = script.bytes();
                let room = mm.runtime().timeout(PATIENCE, writer.space()).await;
                if room.is_some() {
                    let sent = writer.enqueue(&dest, data.clone()).await;
                    assert_eq!(sent.is_ok(), data.len() <= SLOT_BYTES as usize);
                }
            }
            2 => {
                let item = slave.runtime().timeout(PATIENCE, reader.dequeue()).await;
                match item {
                    Some(Ok(item)) => {
                        assert!(item.data.len() <= SLOT_BYTES as usize);
                        reader.release(item);
                    }
                    Some(Err(_)) => return,
                    None => {}
                }
            }
            _ => reader = Reader::reset(slave.clone(), &queue),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let mut layout = Layout::builder();
    let queue = QueuePlan::declare(&mut layout, "queue", SLOTS, SLOT_BYTES);
    let layout = layout.build();
    let simulation = Simulation::new(1);
    let network = SimNetwork::new(&simulation, 1, &layout, NetworkConfig::default());
    let input = input.to_vec();
    let size = layout.size();
    // Bounded by the steps of a script.
    let _ = simulation.run(async move { play(Script::new(&input), network, queue, size).await });
});
