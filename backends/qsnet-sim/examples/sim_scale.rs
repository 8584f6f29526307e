//! The cost of a large simulated machine. Multicasts a file in chunks to every node, with the flow
//! control of Algorithms 1, 6 and 7: a COMPARE-AND-WRITE before each chunk, two slots. Prints
//! virtual time, real time, events and memory.
//!
//! `cargo run --release -p storm-qsnet-sim --example sim_scale -- [nodes] [profile] [chunks]`
//!
//! The example is the network's part of a launch; another crate has the daemons.

use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::{SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{
    CompareAndWrite, EventId, Layout, NodeId, NodeSet, PrimitiveError, Primitives, Region,
    Relation, Runtime, Var, Xfer,
};
use storm_qsnet_sim::{HostModel, Machine, Profile};

const CHUNK_BYTES: u64 = 512 << 10;
const SLOTS: u64 = 2;
const POLL: Duration = Duration::from_micros(50);

/// The variables at the receivers.
#[derive(Clone, Copy)]
struct Plan {
    slots: Region,
    written: Var<u64>,
    arrived: EventId,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let nodes: u32 = arguments.next().map_or(Ok(16_384), |text| text.parse())?;
    let profile = arguments.next().unwrap_or_else(|| "es40-qsnet".to_owned());
    let chunks: u64 = arguments.next().map_or(Ok(24), |text| text.parse())?;

    let begun = std::time::Instant::now();
    let machine = Machine::new(Profile::builtin(&profile)?, nodes)?;
    let mut layout = Layout::builder();
    let plan = Plan {
        slots: layout.region("slots", SLOTS * CHUNK_BYTES),
        written: layout.var("written"),
        arrived: layout.event("arrived"),
    };
    let simulation = Simulation::new(1);
    simulation.trace().silence(true);
    let network = SimNetwork::with_fabric(&simulation, nodes, &layout.build(), machine.fabric()?);
    let host = Rc::new(machine.host());
    for node in NodeSet::compute(nodes).iter() {
        let (node, host) = (network.node(node), host.clone());
        let receiver = node.clone();
        node.runtime()
            .spawn(async move {
                for chunk in 0..chunks {
                    if receiver.await_event(plan.arrived).await.is_err() {
                        return;
                    }
                    let slot = plan.slots.addr.offset(chunk % SLOTS * CHUNK_BYTES);
                    let read = receiver.memory().read_bytes(slot, CHUNK_BYTES as usize);
                    assert!(read.is_ok_and(|bytes| bytes[0] == chunk as u8));
                    let time = host.write(CHUNK_BYTES, &receiver.runtime().random());
                    receiver.runtime().sleep(time).await;
                    receiver.memory().store(plan.written, chunk + 1);
                }
            })
            .detach();
    }
    let built = begun.elapsed();
    let master = network.node(NodeId::MM);
    let set = NodeSet::compute(nodes);
    simulation.run(async move { send(master, set, plan, host, chunks).await })??;
    report(&simulation, nodes, chunks, built, begun.elapsed());
    Ok(())
}

/// The master's side: reads, waits for a slot, multicasts. At the end waits until all nodes have
/// written.
async fn send(
    master: SimPrimitives,
    set: NodeSet,
    plan: Plan,
    host: Rc<HostModel>,
    chunks: u64,
) -> Result<(), PrimitiveError> {
    for chunk in 0..chunks {
        master.runtime().sleep(host.read(CHUNK_BYTES)).await;
        await_written(&master, &set, plan, (chunk + 1).saturating_sub(SLOTS)).await?;
        let data = Bytes::from(vec![chunk as u8; CHUNK_BYTES as usize]);
        let slot = plan.slots.addr.offset(chunk % SLOTS * CHUNK_BYTES);
        master.xfer_and_signal(Xfer::new(set.clone(), slot, data).signal_remote(plan.arrived));
    }
    await_written(&master, &set, plan, chunks).await
}

async fn await_written(
    master: &SimPrimitives,
    set: &NodeSet,
    plan: Plan,
    chunks: u64,
) -> Result<(), PrimitiveError> {
    let question =
        CompareAndWrite::new(set.clone(), plan.written, Relation::GreaterOrEqual, chunks);
    while !master.compare_and_write(question.clone()).await? {
        master.runtime().sleep(POLL).await;
    }
    Ok(())
}

fn report(simulation: &Simulation, nodes: u32, chunks: u64, built: Duration, total: Duration) {
    let (effort, virtual_time) = (simulation.effort(), simulation.now().since_origin());
    let events = effort.polls + effort.calls;
    let running = (total - built).as_secs_f64();
    println!("{nodes} nodes, {chunks} chunks of {CHUNK_BYTES} bytes");
    println!("virtual time  {:.3} ms", virtual_time.as_secs_f64() * 1e3);
    println!(
        "real time     {:.3} s, of which {:.3} s to build",
        total.as_secs_f64(),
        built.as_secs_f64()
    );
    if let Some(processor_s) = processor_s() {
        println!("processor     {processor_s:.2} s");
    }
    println!("events        {events} ({} polls, {} network events)", effort.polls, effort.calls);
    println!("              {:.0} events/s", events as f64 / running);
    if let Some(kib) = peak_kib() {
        println!("memory        {:.1} MiB at most", kib as f64 / 1024.0);
    }
}

/// Processor time so far in seconds, if the system reports it: the time of the run on an otherwise
/// idle host.
fn processor_s() -> Option<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    // User and system time are the 14th and 15th field of the line.
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|text| text.parse::<f64>().ok()).sum();
    Some(ticks / TICKS_PER_S)
}

/// The largest resident set so far, if the system tells it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
