//! The configuration file of a cluster: `storm mm --config storm.toml`.
//!
//! ```toml
//! cluster = "lab"
//! listen = "10.0.0.1:7117"
//!
//! [security]
//! key-file = "/etc/storm/cluster.key"
//!
//! [clients]
//! listen = "10.0.0.1:7118"
//!
//! [[nodes]]
//! names = "n[1-4]"
//! pes = 16
//! memory = "64GiB"
//! features = ["gpu", "fast"]
//!
//! [[partitions]]
//! name = "main"
//! nodes = "n[1-4]"
//! sched = "gang"
//! quantum = "50ms"
//! default = true
//! ```
//!
//! Names are in kebab-case; an unknown name is an error. This module starts nothing and resolves
//! no host names.

mod clients;
mod error;
mod file;
mod flexible;
mod given_param;
mod line;
mod policies;
mod resolve;
mod security;
mod service;
mod user_name;
mod users;
mod written_address;
mod written_memory;
mod written_time;

pub(crate) use clients::Revoked;
pub(crate) use error::{ConfigError, ConfigProblem};
pub(crate) use file::{
    DEFAULT_CLUSTER, DEFAULT_SPOOL_BYTES, MmConfig, NetworkConfig, PartitionEntry, TimeoutConfig,
};
pub(crate) use given_param::{GivenParam, ParamProblem, refuse_both, with_params};
pub(crate) use policies::{Idle, offer, policies};
pub(crate) use resolve::{ClusterPlan, MAX_PES, PlannedPartition};
pub(crate) use security::SecurityConfig;
pub(crate) use service::ServiceProblem;
pub(crate) use users::KnownUsers;

#[cfg(test)]
mod tests;
