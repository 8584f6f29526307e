//! A machine to simulate: the parameters of the analytic model, and additional ones for the
//! simulation.
//!
//! Profiles are TOML text; the caller reads files. The text is a profile of the analytic model with
//! the additional parameters under `simulation`, all of them optional. Every value is a table of
//! `value` and `source`, and its key ends in its unit.

mod defaults;
mod error;
mod keys;

pub use error::ProfileError;
pub use keys::SIMULATION_KEYS;

use serde::{Deserialize, Serialize};
use storm_model::{InputError, Network, Sourced, check_values, commented_tables};

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Network, hosts and protocol of the analytic model.
    pub machine: storm_model::Profile,
    /// Additional parameters of the network.
    pub wire: WireProfile,
    /// Additional parameters of the hosts.
    pub host: HostProfile,
    /// The load's parameters.
    pub load: LoadProfile,
}

/// The part of a profile's text that the analytic model does not have.
#[derive(Deserialize)]
struct Text {
    #[serde(default)]
    simulation: Simulation,
}

/// The part under `simulation`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Simulation {
    wire: WireProfile,
    host: HostProfile,
    load: LoadProfile,
}

/// The network's parameters beyond the analytic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct WireProfile {
    /// The time from the issue of an XFER-AND-SIGNAL until its first byte leaves, in us.
    pub put_start_us: Sourced,
    /// Silence after which a node counts as dead, in ms.
    pub detection_ms: Sourced,
    /// Children of each node of a tree; the model's choice if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<Sourced>,
}

/// A host's parameters beyond the analytic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostProfile {
    /// Reading a file over the network into main memory, in MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfs_read_mib_s: Option<Sourced>,
    /// Reading a local disk into main memory, in MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read_mib_s: Option<Sourced>,
    /// Buffers in the NIC, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_buffers: Option<NicBuffers>,
    /// Writing a chunk at a receiver, in MiB/s, if the analytic model has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_mib_s: Option<Sourced>,
    /// Processors. Daemons run on those that ranks leave free.
    pub processors: Sourced,
    /// The time from a signal until its waiting daemon runs, in us.
    pub wake_us: Sourced,
    /// Mean time between two interruptions by the operating system, in ms; 0 for
    /// none.
    pub noise_period_ms: Sourced,
    /// Length of an interruption, in us.
    pub noise_us: Sourced,
    /// The time from the order to start a process to its first instruction, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_exec_ms: Option<Sourced>,
    /// Skew: the most additional time, drawn uniformly for each node, in ms.
    pub exec_skew_ms: Sourced,
    /// The time from the end of a process until its node's daemon knows, in ms.
    pub exit_ms: Sourced,
}

/// Bandwidths with the buffers in the NIC, in MiB/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NicBuffers {
    /// Reading a RAM disk.
    pub read_mib_s: Sourced,
    /// Reading a local disk.
    pub disk_read_mib_s: Sourced,
    /// Reading over the network.
    pub nfs_read_mib_s: Sourced,
    /// The I/O bus while it broadcasts.
    pub bus_mib_s: Sourced,
}

/// The parameters of the load of section 4.2.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadProfile {
    /// The longest time for which a computing process keeps a processor while other processes want
    /// it, in ms.
    pub cpu_slice_ms: Sourced,
    /// Length of a message of the program that loads a network with multicast, in MiB.
    pub network_message_mib: Sourced,
    /// The share of its bandwidth that a tree of messages gets under network load, from 0 (not
    /// included) to 1.
    pub network_bandwidth_share: Sourced,
    /// The mean wait of a message of a tree under network load (exponentially distributed), in ms.
    pub network_message_wait_ms: Sourced,
    /// The mean wait of a COMPARE-AND-WRITE under network load (exponentially distributed), in us.
    pub network_conditional_wait_us: Sourced,
}

impl Profile {
    /// Reads a profile's text.
    ///
    /// # Errors
    /// The text is no profile, or a value is invalid.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let machine = storm_model::Profile::from_toml(text)?;
        let Text { simulation } = toml::from_str(text).map_err(Box::new)?;
        let Simulation { wire, host, load } = simulation;
        let profile = Profile { machine, wire, host, load };
        check_values(&SIMULATION_KEYS, &profile.simulation_values())
            .map_err(|error| storm_model::ProfileError::of_value(text, error))?;
        profile.check_noise()?;
        Ok(profile)
    }

    /// The profile of this name, one of [`BUILTIN_NAMES`](crate::BUILTIN_NAMES).
    ///
    /// # Errors
    /// There is no profile of this name.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        let machine = storm_model::builtin_text(name)?;
        let simulation = match name {
            "es40-qsnet" => include_str!("../../profiles/es40-qsnet.toml"),
            "ideal" => include_str!("../../profiles/ideal.toml"),
            "gigabit-ethernet" => include_str!("../../profiles/gigabit-ethernet.toml"),
            "infiniband" => include_str!("../../profiles/infiniband.toml"),
            "ethernet-100g" => include_str!("../../profiles/ethernet-100g.toml"),
            "soft-roce" => include_str!("../../profiles/soft-roce.toml"),
            _ => "",
        };
        Profile::from_toml(&format!("{machine}\n{simulation}"))
    }

    /// Writes it as text that [`Self::from_toml`] and the analytic model read, with
    /// a comment on each parameter.
    pub fn to_toml(&self) -> String {
        let machine = self.machine.to_toml();
        match self.machine.network {
            Network::Multicast(_) | Network::Tree(_) => {
                machine + &commented_tables(&SIMULATION_KEYS, &self.simulation_values())
            }
            // A shared host cannot be simulated.
            Network::SharedHost(_) => machine,
        }
    }

    /// Every value that only a simulation needs, by key.
    pub fn simulation_values(&self) -> Vec<(&'static str, &Sourced)> {
        let (wire, host, load) = (&self.wire, &self.host, &self.load);
        let mut values = vec![
            ("simulation.wire.put-start-us", &wire.put_start_us),
            ("simulation.wire.detection-ms", &wire.detection_ms),
            ("simulation.host.processors", &host.processors),
            ("simulation.host.wake-us", &host.wake_us),
            ("simulation.host.noise-period-ms", &host.noise_period_ms),
            ("simulation.host.noise-us", &host.noise_us),
            ("simulation.host.exec-skew-ms", &host.exec_skew_ms),
            ("simulation.host.exit-ms", &host.exit_ms),
            ("simulation.load.cpu-slice-ms", &load.cpu_slice_ms),
            ("simulation.load.network-message-mib", &load.network_message_mib),
            ("simulation.load.network-bandwidth-share", &load.network_bandwidth_share),
            ("simulation.load.network-message-wait-ms", &load.network_message_wait_ms),
            ("simulation.load.network-conditional-wait-us", &load.network_conditional_wait_us),
        ];
        let optional = [
            ("simulation.wire.fan-out", &wire.fan_out),
            ("simulation.host.nfs-read-mib-s", &host.nfs_read_mib_s),
            ("simulation.host.disk-read-mib-s", &host.disk_read_mib_s),
            ("simulation.host.write-mib-s", &host.write_mib_s),
            ("simulation.host.fork-exec-ms", &host.fork_exec_ms),
        ];
        values.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))));
        if let Some(nic) = &host.nic_buffers {
            values.extend([
                ("simulation.host.nic-buffers.read-mib-s", &nic.read_mib_s),
                ("simulation.host.nic-buffers.disk-read-mib-s", &nic.disk_read_mib_s),
                ("simulation.host.nic-buffers.nfs-read-mib-s", &nic.nfs_read_mib_s),
                ("simulation.host.nic-buffers.bus-mib-s", &nic.bus_mib_s),
            ]);
        }
        values
    }

    /// The time from the order to start a process to its first instruction, in ms.
    pub(crate) fn fork_exec_ms(&self) -> f64 {
        let model = &self.machine.host;
        let modelled = || model.exec_ms.value + model.spawn_us.value / 1e3;
        self.host.fork_exec_ms.as_ref().map_or_else(modelled, |value| value.value)
    }

    /// Checks that interruptions do not overlap.
    fn check_noise(&self) -> Result<(), ProfileError> {
        let (period_ms, noise_us) = (self.host.noise_period_ms.value, self.host.noise_us.value);
        if period_ms > 0.0 && noise_us / 1e3 >= period_ms {
            return Err(ProfileError::Noise { noise_us, period_ms });
        }
        Ok(())
    }
}

/// The bandwidth of an optional value.
pub(crate) fn rate(value: &Option<Sourced>) -> Option<f64> {
    value.as_ref().map(|value| value.value)
}

/// The number of nodes, checked as the model does.
pub(crate) fn node_count(nodes: u32) -> Result<storm_model::NodeCount, InputError> {
    storm_model::NodeCount::new(u64::from(nodes))
}
