//! Machines by the names of their profiles: the network and the hosts of `storm-qsnet-sim`, and one
//! generic machine for tests.

use crate::MachineConfig;
use crate::bounded_file;
use crate::hosts::{PlainHosts, ProfiledHosts};
use crate::interconnect::MessageCosts;
use crate::scenario::ScenarioError;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::{
    Arrivals, Fabric, NetworkConfig, Operation, OperationKind, Random, Simulation,
};
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_qsnet_sim::{BUILTIN_NAMES, Fidelity, Load, Machine, Profile, ProfileError};
use thiserror::Error;

/// A generic machine. Its delays are random, so each seed gives tests another interleaving.
pub const PLAIN: &str = "plain";

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Chunks and their number as in the paper (section 4.4.1), for the plain machine.
const CHUNK_BYTES: u32 = 512 * 1024;
const CHUNK_SLOTS: u32 = 2;
/// Processing elements of a node unless the scenario sets them: those of an ES40 (section 4.1).
const PES: u32 = 4;

/// Why a name gives no profile.
#[derive(Debug, Error)]
pub enum NamedProfileError {
    /// The name is neither built in nor the path of a file.
    #[error("there is no machine profile {0:?}; built in are {names}", names = BUILTIN_NAMES.join(", "))]
    Unknown(String),
    /// The file cannot be read.
    #[error("the machine profile {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The contents of the file are invalid.
    #[error("the machine profile {path} is invalid")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: ProfileError,
    },
    /// A built-in profile is invalid.
    #[error(transparent)]
    BuiltIn(#[from] ProfileError),
}

impl NamedProfileError {
    /// Advice for the user.
    pub fn hint(&self) -> String {
        match self {
            NamedProfileError::Unknown(_) => {
                "give one of these, or the path of a file, with a / or .toml in it".to_owned()
            }
            NamedProfileError::Read { .. } => {
                format!("one of {}, or the path of a file", BUILTIN_NAMES.join(", "))
            }
            NamedProfileError::Wrong { source, .. } | NamedProfileError::BuiltIn(source) => {
                source.hint()
            }
        }
    }
}

/// The built-in profile of this name, or the profile in the file at this path.
///
/// # Errors
/// There is no such profile, or it is invalid.
pub fn named(name: &str) -> Result<Profile, NamedProfileError> {
    if BUILTIN_NAMES.contains(&name) {
        return Ok(Profile::builtin(name)?);
    }
    let path = Path::new(name);
    if !(name.contains('/') || name.ends_with(".toml") || path.exists()) {
        return Err(NamedProfileError::Unknown(name.to_owned()));
    }
    let text = bounded_file::read(path)
        .map_err(|source| NamedProfileError::Read { path: path.to_owned(), source })?;
    Profile::from_toml(&text)
        .map_err(|source| NamedProfileError::Wrong { path: path.to_owned(), source })
}

/// A machine of `nodes` nodes of a profile, which is given by its name or by the path of a file.
///
/// # Errors
/// [`ScenarioError`]: there is no such profile, or it is invalid.
pub fn machine(
    name: &str,
    seed: u64,
    nodes: u32,
    load: Load,
) -> Result<MachineConfig, ScenarioError> {
    machine_simulated(name, seed, nodes, load, Fidelity::default())
}

/// A machine of `nodes` nodes of a profile, with a network that is simulated at this level of
/// detail.
///
/// # Errors
/// [`ScenarioError`]: there is no such profile, or it is invalid.
pub fn machine_simulated(
    name: &str,
    seed: u64,
    nodes: u32,
    load: Load,
    fidelity: Fidelity,
) -> Result<MachineConfig, ScenarioError> {
    if name == PLAIN {
        return match load {
            Load::NONE => Ok(plain(seed, nodes)),
            _ => Err(ScenarioError::NoLoad { profile: PLAIN }),
        };
    }
    let machine = Machine::new(named(name)?, nodes)?;
    profiled(seed, &machine.under(load).simulated(fidelity))
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

/// The ratio to the lease of a simulated node, 80 ms, is about that of 60 s to 7 s on a live node.
const NODE_RETURN: Duration = Duration::from_millis(600);

/// Most rows of the matrix: two jobs that take turns, as in most of the paper's experiments.
pub(crate) const DEFAULT_MPL: u32 = 2;

fn plain(seed: u64, nodes: u32) -> MachineConfig {
    MachineConfig {
        seed,
        nodes,
        spare_nodes: 0,
        hand_over: false,
        node_return: NODE_RETURN,
        pes: PES,
        partitions: 1,
        sched: storm_sched::DEFAULT_POLICY.to_owned(),
        policies: storm_sched::Registry::standard(),
        quantum: storm_sched::DEFAULT_QUANTUM,
        mpl: DEFAULT_MPL,
        act_every: None,
        strobe_span: Duration::ZERO,
        class_rules: Default::default(),
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

/// Messages between ranks take as long as transfers between daemons, and a barrier takes as long as
/// a COMPARE-AND-WRITE. The times are those of an idle fabric.
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

fn longest(spread: Arrivals) -> Duration {
    match spread {
        Arrivals::Together(time) => time,
        Arrivals::Each(times) => times.into_iter().max().unwrap_or_default(),
    }
}
