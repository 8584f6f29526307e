//! The reasons why a scenario cannot be run, for its author.

use crate::MachineError;
use crate::profile::NamedProfileError;
use std::path::PathBuf;
use thiserror::Error;

/// A scenario that is invalid.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("the scenario {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The text is not a scenario.
    #[error("the scenario cannot be understood")]
    Parse(#[from] toml::de::Error),
    /// The machine is invalid.
    #[error("the machine of the scenario cannot be built")]
    Machine(#[from] MachineError),
    /// The profile cannot make this machine.
    #[error("the profile cannot make this machine")]
    Profile(#[from] storm_qsnet_sim::MachineError),
    /// The simulated network failed an operation that nothing disturbed.
    #[error("the simulated network failed")]
    Network(#[from] storm_primitives::PrimitiveError),
    /// A job does not fit.
    #[error(
        "job {name:?} has {procs} ranks; a partition of the machine has {elements} processing \
         elements: make the job smaller or the machine larger"
    )]
    JobTooLarge {
        /// The name.
        name: String,
        /// The ranks.
        procs: u32,
        /// Nodes times processing elements.
        elements: u64,
    },
    /// A job without ranks.
    #[error("job {name:?} has no ranks: `procs` counts from 1")]
    EmptyJob {
        /// The name.
        name: String,
    },
    /// A workload without jobs.
    #[error("the scenario has no job: add a [[job]] or [generated-jobs]")]
    NoJob,
    /// A fault of a node that does not exist.
    #[error("a fault at {at:?} names node {node}; the machine has nodes 1 to {nodes}")]
    NoSuchNode {
        /// When.
        at: std::time::Duration,
        /// The node.
        node: u32,
        /// Nodes of the machine.
        nodes: u32,
    },
    /// A fault that needs a node but names none.
    #[error("a fault {kind:?} at {at:?} needs a node: add `node = N`")]
    NodeMissing {
        /// When.
        at: std::time::Duration,
        /// The kind of fault.
        kind: super::FaultKind,
    },
    /// A fault of the manager that names a node.
    #[error("a fault {kind:?} at {at:?} hits the manager: leave out `node = {node}`")]
    NodeNotTaken {
        /// When.
        at: std::time::Duration,
        /// The kind of fault.
        kind: super::FaultKind,
        /// The node.
        node: u32,
    },
    /// A field that belongs to another kind of fault.
    #[error("a fault {kind:?} takes no `{field}`: leave it out")]
    FieldNotTaken {
        /// The kind of fault.
        kind: super::FaultKind,
        /// The field.
        field: &'static str,
    },
    /// A field of a fault that is left out.
    #[error("a fault of this kind needs `{field}`: add it")]
    FieldMissing {
        /// The field.
        field: &'static str,
    },
    /// Pairs that are not all pairs.
    #[error(
        "job {name:?} is a ping-pong of {procs} ranks, of which one has no partner: give it an \
         even number of `procs`"
    )]
    OddPingPong {
        /// The name.
        name: String,
        /// The ranks.
        procs: u64,
    },
    /// A load for hosts that cannot model it.
    #[error(
        "the profile {profile:?} has no hosts or network that a load could burden: leave `load` \
         out, or use a profile of a machine"
    )]
    NoLoad {
        /// The profile.
        profile: &'static str,
    },
    /// A number that is invalid, or makes the run endless.
    #[error("{name} = {value} is out of range: use {least} to {most}")]
    Bounds {
        /// Which.
        name: &'static str,
        /// The value as given.
        value: String,
        /// Smallest.
        least: String,
        /// Largest.
        most: String,
    },
    /// A rate that is none.
    #[error("{name} = {rate}: a rate is 0, or a number from 0.000001 to {most}, per second")]
    Rate {
        /// Which.
        name: &'static str,
        /// The rate as given.
        rate: f64,
        /// Largest.
        most: f64,
    },
    /// The profile cannot be had.
    #[error(transparent)]
    NamedProfile(#[from] NamedProfileError),
}
