//! What a machine is like, by the name of its profile: the network and the hosts
//! of `storm-qsnet-sim`, and one of no particular kind for tests.

use crate::MachineConfig;
use crate::hosts::{PlainHosts, ProfiledHosts};
use crate::interconnect::MessageCosts;
use crate::scenario::ScenarioError;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::{
    Fabric, NetworkConfig, Operation, OperationKind, Random, Simulation, Spread,
};
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_qsnet_sim::{BUILTIN_NAMES, Load, Machine, Profile};

/// The machine of no particular kind: random delays, so that tests see as many
/// interleavings as there are seeds.
pub const PLAIN: &str = "plain";

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Chunks and their number as in the paper (section 4.4.1), for the plain machine.
const CHUNK_BYTES: u32 = 512 * 1024;
const CHUNK_SLOTS: u32 = 2;
/// Processing elements of a node unless the scenario says otherwise: those of an
/// ES40 (section 4.1).
const PES: u32 = 4;

/// The names of all profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTIN_NAMES.into_iter().chain([PLAIN])
}

/// A machine of so many nodes of a profile: the name of one, or the path of a
/// file.
///
/// # Errors
/// [`ScenarioError`]: there is none of that name, or it makes no sense.
pub fn machine(
    name: &str,
    seed: u64,
    nodes: u32,
    load: Load,
) -> Result<MachineConfig, ScenarioError> {
    if name == PLAIN {
        return match load {
            Load::NONE => Ok(plain(seed, nodes)),
            _ => Err(ScenarioError::NoLoad { profile: PLAIN }),
        };
    }
    let profile = if BUILTIN_NAMES.contains(&name) {
        Profile::builtin(name)
    } else if name.ends_with(".toml") {
        let path = name.into();
        let text = std::fs::read_to_string(name);
        Profile::from_toml(&text.map_err(|source| ScenarioError::Read { path, source })?)
    } else {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(ScenarioError::UnknownProfile { name: name.to_owned(), known });
    };
    let machine = Machine::new(profile.map_err(storm_qsnet_sim::MachineError::from)?, nodes)?;
    profiled(seed, &machine.under(load))
}

fn profiled(seed: u64, machine: &Machine) -> Result<MachineConfig, ScenarioError> {
    let host = &machine.profile().machine.host;
    let protocol = &machine.profile().machine.protocol;
    let attend_us = host.shortest_quantum_us.as_ref().map_or(0.0, |shortest| shortest.value);
    let attend = Duration::from_secs_f64(attend_us.max(0.0) / 1e6);
    let messages = message_costs(&*machine.fabric()?, &Simulation::new(seed).runtime().random());
    Ok(MachineConfig {
        chunk_bytes: protocol.chunk_bytes.value as u32,
        chunk_slots: protocol.chunk_slots.value as u32,
        fabric: machine.fabric()?,
        messages,
        hosts: Rc::new(ProfiledHosts { model: machine.host(), attend }),
        ..plain(seed, machine.nodes())
    })
}

fn plain(seed: u64, nodes: u32) -> MachineConfig {
    MachineConfig {
        seed,
        nodes,
        pes: PES,
        sched: "gang".to_owned(),
        quantum: Duration::from_millis(50),
        mpl: 2,
        act_every: None,
        heartbeat_interval: Duration::from_millis(400),
        chunk_bytes: CHUNK_BYTES,
        chunk_slots: CHUNK_SLOTS,
        fabric: Rc::new(NetworkConfig::default()),
        messages: MessageCosts {
            latency: Duration::from_micros(5),
            per_mib: Duration::from_millis(3),
            barrier: Duration::from_micros(10),
        },
        hosts: Rc::new(PlainHosts {
            per_mib: Duration::from_millis(2),
            exec: Duration::from_micros(300),
            exit: Duration::from_micros(40),
            attend: Duration::from_micros(10),
            switch: Duration::from_micros(10),
        }),
        checks: true,
        traces: false,
        defect: None,
    }
}

/// Messages between ranks go as transfers between daemons do, and a barrier as a
/// COMPARE-AND-WRITE; asked of a fabric that nobody uses yet.
fn message_costs(fabric: &dyn Fabric, random: &Random<'_>) -> MessageCosts {
    let set = NodeSet::single(NodeId(1));
    let operation = |kind, bytes| Operation {
        kind,
        initiator: NodeId::MM,
        set: &set,
        bytes,
        now: Instant::ORIGIN,
    };
    let put = |bytes| {
        let operation = operation(OperationKind::Put, bytes);
        fabric.to_sequencer(&operation, random) + longest(fabric.to_nodes(&operation, random))
    };
    let question = operation(OperationKind::Compare, 0);
    let barrier = fabric.to_sequencer(&question, random)
        + longest(fabric.to_nodes(&question, random))
        + fabric.answer(&question, &[NodeId(1)], random)
        + fabric.outcome(&question, random);
    let latency = put(0);
    MessageCosts { latency, per_mib: put(MIB).saturating_sub(latency), barrier }
}

fn longest(spread: Spread) -> Duration {
    match spread {
        Spread::Together(time) => time,
        Spread::Each(times) => times.into_iter().max().unwrap_or_default(),
    }
}
