//! How fast a machine is, by name.

use crate::interconnect::MessageCosts;
use crate::scenario::ScenarioError;
use crate::{HostCosts, MachineConfig};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::NetworkConfig;

/// The profiles there are.
pub const NAMES: &[&str] = &["plain"];

/// A profile.
#[derive(Clone, Copy, Debug)]
pub struct Profile;

/// The profile of that name.
///
/// # Errors
/// [`ScenarioError::UnknownProfile`] lists those there are.
pub fn by_name(name: &str) -> Result<Profile, ScenarioError> {
    if NAMES.contains(&name) {
        return Ok(Profile);
    }
    Err(ScenarioError::UnknownProfile { name: name.to_owned(), known: NAMES.join(", ") })
}

impl Profile {
    /// A machine of so many nodes of this kind.
    pub fn machine(self, seed: u64, nodes: u32) -> MachineConfig {
        MachineConfig {
            seed,
            nodes,
            pes: 4,
            sched: "gang".to_owned(),
            quantum: Duration::from_millis(50),
            mpl: 2,
            act_every: None,
            heartbeat_interval: Duration::from_millis(400),
            chunk_bytes: 512 * 1024,
            chunk_slots: 2,
            fabric: Rc::new(NetworkConfig::default()),
            messages: MessageCosts {
                overhead: Duration::from_micros(1),
                latency: Duration::from_micros(5),
                per_mib: Duration::from_millis(3),
                barrier: Duration::from_micros(10),
            },
            costs: HostCosts {
                read_per_mib: Duration::from_millis(2),
                write_per_mib: Duration::from_millis(2),
                prepare: Duration::from_micros(60),
                exec: Duration::from_micros(190),
                exec_noise: Duration::from_micros(100),
                exit: Duration::from_micros(20),
                exit_noise: Duration::from_micros(20),
                attend: Duration::ZERO,
                attend_noise: Duration::from_micros(10),
                switch: Duration::from_micros(10),
            },
            checks: true,
            traces: false,
        }
    }
}
