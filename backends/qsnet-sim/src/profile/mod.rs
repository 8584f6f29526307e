//! A machine to simulate: what the analytic model knows of it, and what only a
//! simulation asks.
//!
//! Profiles are TOML text; files are the caller's. Every value is a table of
//! `value` and `source`, and its key ends in its unit.

mod error;

pub use error::ProfileError;

use serde::{Deserialize, Serialize};
use storm_model::{InputError, Network, Sourced};

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Network, hosts and protocol as the analytic model has them.
    pub machine: storm_model::Profile,
    /// More of the network.
    pub wire: WireProfile,
    /// More of the hosts.
    pub host: HostProfile,
    /// What load does.
    pub load: LoadProfile,
}

/// The text of a profile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    model: Option<String>,
    machine: Option<storm_model::Profile>,
    wire: WireProfile,
    host: HostProfile,
    load: LoadProfile,
}

/// What a simulation asks of the network beyond the analytic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WireProfile {
    /// From the issue of an XFER-AND-SIGNAL until its first byte leaves, in us.
    pub put_start_us: Sourced,
    /// Silence after which a node is known dead, in ms.
    pub detection_ms: Sourced,
    /// Children of each node of a tree; the model's choice where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<Sourced>,
}

/// What a simulation asks of a host beyond the analytic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostProfile {
    /// Reading a file over the network into main memory, in MiB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs_read_mib_s: Option<Sourced>,
    /// Reading a local disk into main memory, in MiB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read_mib_s: Option<Sourced>,
    /// Buffers in the NIC, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_buffers: Option<NicBuffers>,
    /// Writing a chunk at a receiver, in MiB/s, where the analytic model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mib_s: Option<Sourced>,
    /// Processors: what ranks leave of them is the daemons'.
    pub processors: Sourced,
    /// From a signal until the daemon that waits for it runs, in us.
    pub wake_us: Sourced,
    /// Mean time between two interruptions by the operating system, in ms; 0 for
    /// none.
    pub noise_period_ms: Sourced,
    /// Length of such an interruption, in us.
    pub noise_us: Sourced,
    /// From the order to start a process to its first instruction, in ms.
    pub fork_exec_ms: Sourced,
    /// Up to so much more, drawn evenly for each node: skew, in ms.
    pub exec_skew_ms: Sourced,
    /// From the end of a process until its node's daemon knows, in ms.
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

/// What the load of section 4.2.2 does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadProfile {
    /// Longest that the system lets a process that computes have a processor while
    /// others want it, in ms.
    pub cpu_slice_ms: Sourced,
    /// Length of a message of the program that loads a network with multicast, in MiB.
    pub network_message_mib: Sourced,
    /// Under network load a tree of messages gets this share of its bandwidth, from 0
    /// (not included) to 1.
    pub network_bandwidth_share: Sourced,
    /// Under network load a message of a tree waits so long on average (exponentially
    /// distributed), in ms.
    pub network_message_wait_ms: Sourced,
    /// Under network load a COMPARE-AND-WRITE waits so long on average
    /// (exponentially distributed), in us.
    pub network_conditional_wait_us: Sourced,
}

impl Profile {
    /// Reads a profile's text.
    ///
    /// # Errors
    /// It is not a profile, or a value makes no sense.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let text: Text = toml::from_str(text).map_err(Box::new)?;
        let machine = match (text.model, text.machine) {
            (Some(name), None) => storm_model::builtin(&name)?,
            (None, Some(machine)) => machine,
            (Some(_), Some(_)) | (None, None) => return Err(ProfileError::OneMachine),
        };
        let profile = Profile { machine, wire: text.wire, host: text.host, load: text.load };
        profile.check()?;
        Ok(profile)
    }

    /// The profile of this name, one of [`BUILTIN_NAMES`](crate::BUILTIN_NAMES).
    ///
    /// # Errors
    /// There is none.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        Profile::from_toml(match name {
            "es40-qsnet" => include_str!("../../profiles/es40-qsnet.toml"),
            "ideal" => include_str!("../../profiles/ideal.toml"),
            "gigabit-ethernet" => include_str!("../../profiles/gigabit-ethernet.toml"),
            "infiniband" => include_str!("../../profiles/infiniband.toml"),
            "ethernet-100g" => include_str!("../../profiles/ethernet-100g.toml"),
            _ => return Err(ProfileError::Unknown(name.to_owned())),
        })
    }

    /// Every value of a profile that only a simulation asks, under its key.
    pub fn values(&self) -> Vec<(&'static str, &Sourced)> {
        let (wire, host, load) = (&self.wire, &self.host, &self.load);
        let mut values = vec![
            ("wire.put-start-us", &wire.put_start_us),
            ("wire.detection-ms", &wire.detection_ms),
            ("host.processors", &host.processors),
            ("host.wake-us", &host.wake_us),
            ("host.noise-period-ms", &host.noise_period_ms),
            ("host.noise-us", &host.noise_us),
            ("host.fork-exec-ms", &host.fork_exec_ms),
            ("host.exec-skew-ms", &host.exec_skew_ms),
            ("host.exit-ms", &host.exit_ms),
            ("load.cpu-slice-ms", &load.cpu_slice_ms),
            ("load.network-message-mib", &load.network_message_mib),
            ("load.network-bandwidth-share", &load.network_bandwidth_share),
            ("load.network-message-wait-ms", &load.network_message_wait_ms),
            ("load.network-conditional-wait-us", &load.network_conditional_wait_us),
        ];
        let optional = [
            ("wire.fan-out", &wire.fan_out),
            ("host.nfs-read-mib-s", &host.nfs_read_mib_s),
            ("host.disk-read-mib-s", &host.disk_read_mib_s),
            ("host.write-mib-s", &host.write_mib_s),
        ];
        values.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))));
        if let Some(nic) = &host.nic_buffers {
            values.extend([
                ("host.nic-buffers.read-mib-s", &nic.read_mib_s),
                ("host.nic-buffers.disk-read-mib-s", &nic.disk_read_mib_s),
                ("host.nic-buffers.nfs-read-mib-s", &nic.nfs_read_mib_s),
                ("host.nic-buffers.bus-mib-s", &nic.bus_mib_s),
            ]);
        }
        values
    }

    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// A value is negative or not finite, or zero where it divides.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.machine.check().map_err(storm_model::ProfileError::from)?;
        if let Network::SharedHost(_) = self.machine.network {
            return Err(ProfileError::SharedHost { name: self.machine.name.clone() });
        }
        for (name, value) in self.values() {
            check_range(name, value.value)?;
        }
        let (period_ms, noise_ms) =
            (self.host.noise_period_ms.value, self.host.noise_us.value / 1e3);
        if period_ms > 0.0 && noise_ms >= period_ms {
            let (name, value) = ("host.noise-us", self.host.noise_us.value);
            return Err(ProfileError::OutOfRange { name, value, wanted: "less than its period" });
        }
        Ok(())
    }
}

/// Longest time that a parameter may be, in its own unit: what is longer is a
/// mistake in the unit.
const MAX_VALUE: f64 = 1e6;
/// Most processors of a node: beyond any that is built.
const MAX_PROCESSORS: u32 = 4096;

fn check_range(name: &'static str, value: f64) -> Result<(), ProfileError> {
    let divides = name.ends_with("-mib-s");
    let (fits, wanted) = match name {
        "load.network-bandwidth-share" => {
            (value > 0.0 && value <= 1.0, "more than 0 and at most 1")
        }
        "wire.fan-out" => {
            let most = f64::from(storm_model::MAX_FAN_OUT);
            (value.fract() == 0.0 && (1.0..=most).contains(&value), "a whole number, 1 to 1024")
        }
        "host.processors" => {
            let most = f64::from(MAX_PROCESSORS);
            (value.fract() == 0.0 && (1.0..=most).contains(&value), "a whole number, 1 to 4096")
        }
        "wire.detection-ms" => (value > 0.0 && value <= MAX_VALUE, "more than 0, at most 1e6"),
        _ if divides => (value > 0.0 && value <= MAX_VALUE, "more than 0, at most 1e6"),
        _ => ((0.0..=MAX_VALUE).contains(&value), "at least 0, at most 1e6"),
    };
    if fits { Ok(()) } else { Err(ProfileError::OutOfRange { name, value, wanted }) }
}

/// The bandwidth of an optional value.
pub(crate) fn rate(value: &Option<Sourced>) -> Option<f64> {
    value.as_ref().map(|value| value.value)
}

/// A checked input of the model.
pub(crate) fn node_count(nodes: u32) -> Result<storm_model::NodeCount, InputError> {
    storm_model::NodeCount::new(u64::from(nodes))
}
