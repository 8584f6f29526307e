//! A machine to predict for: its network, its hosts and the protocol's settings,
//! each value with its unit and its source.
//!
//! Profiles are TOML text. This reads and writes the text; files are the
//! caller's.

mod builtin;
mod error;

pub use builtin::{BUILTIN_NAMES, builtin};
pub use error::ProfileError;

use crate::{InputError, MibPerS, Network, Sourced};
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The hosts.
    pub host: Host,
    /// How files are sent.
    pub protocol: Protocol,
    /// What connects the hosts.
    pub network: Network,
}

/// What a host contributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Host {
    /// BW_read of the management node, in MiB/s; without it reading is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mib_s: Option<Sourced>,
    /// The I/O bus while it broadcasts, in MiB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mib_s: Option<Sourced>,
    /// The host process that serves the NIC, in MiB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_mib_s: Option<Sourced>,
    /// BW_write of a node, in MiB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mib_s: Option<Sourced>,
    /// T_exec whatever the job, in ms.
    pub exec_ms: Sourced,
    /// Starting one process, in us; a node starts its processes in turn.
    pub spawn_us: Sourced,
    /// T_timeslice: waiting for the ends of slices, in ms.
    pub timeslice_ms: Sourced,
    /// Stopping one job and resuming the next on a node, in us.
    pub switch_us: Sourced,
    /// Shortest time slice that the NM keeps up with, in us, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_quantum_us: Option<Sourced>,
}

/// Settings of the file transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Protocol {
    /// Bytes of a chunk.
    pub chunk_bytes: Sourced,
    /// Slots of the remote queue.
    pub chunk_slots: Sourced,
}

impl Profile {
    /// Reads a profile's text.
    ///
    /// # Errors
    /// It is not a profile, or a value makes no sense.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(Box::new)?;
        profile.check()?;
        Ok(profile)
    }

    /// Writes it as text that [`Self::from_toml`] reads.
    ///
    /// # Errors
    /// A number has no form in TOML.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        toml::to_string_pretty(self).map_err(|error| ProfileError::Unwritable(Box::new(error)))
    }

    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// A value is negative or not finite, or zero where it divides.
    pub fn check(&self) -> Result<(), InputError> {
        self.host.check()?;
        self.protocol.check()?;
        self.network.check()
    }
}

impl Host {
    fn check(&self) -> Result<(), InputError> {
        let bandwidths = [
            ("read-mib-s", &self.read_mib_s),
            ("bus-mib-s", &self.bus_mib_s),
            ("service-mib-s", &self.service_mib_s),
            ("write-mib-s", &self.write_mib_s),
        ];
        for (name, bandwidth) in bandwidths {
            bandwidth.iter().try_for_each(|value| value.check_positive(name, "MiB/s"))?;
        }
        self.exec_ms.check_not_negative("exec-ms", "ms")?;
        self.spawn_us.check_not_negative("spawn-us", "us")?;
        self.timeslice_ms.check_not_negative("timeslice-ms", "ms")?;
        self.switch_us.check_not_negative("switch-us", "us")?;
        let shortest = self.shortest_quantum_us.iter();
        shortest.into_iter().try_for_each(|value| value.check_positive("shortest-quantum-us", "us"))
    }
}

impl Protocol {
    fn check(&self) -> Result<(), InputError> {
        self.chunk_bytes.check_positive("chunk-bytes", "bytes")?;
        self.chunk_slots.check_positive("chunk-slots", "slots")
    }
}

/// A bandwidth of a checked profile.
pub(crate) fn bandwidth(value: &Sourced) -> MibPerS {
    MibPerS(value.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_read_and_written_as_it_is() {
        for name in BUILTIN_NAMES {
            let profile = builtin(name).unwrap();
            assert_eq!(profile.name, name);
            let text = profile.to_toml().unwrap();
            assert_eq!(Profile::from_toml(&text).unwrap(), profile);
            let without_source = text.lines().any(|line| line == "source = \"\"");
            assert!(!without_source, "{name} has a value without a source");
        }
    }

    #[test]
    fn the_papers_network_is_table_2() {
        for name in ["es40-qsnet", "ideal"] {
            let Network::Multicast(network) = builtin(name).unwrap().network else {
                panic!("{name} has hardware multicast")
            };
            assert_eq!(network.delays(), crate::QsNet::PAPER);
        }
    }

    #[test]
    fn a_wrong_profile_says_what_is_wrong() {
        let text = builtin("es40-qsnet").unwrap().to_toml().unwrap();
        let cable = text.replace("value = 3.94", "value = -3.94");
        let error = Profile::from_toml(&cable).unwrap_err();
        assert!(error.to_string().contains("cable"), "{error}");
        let unknown = text.replace("spawn-us", "spawn-ms");
        let error = Profile::from_toml(&unknown).unwrap_err();
        assert!(error.to_string().contains("spawn-ms"), "{error}");
        let error = builtin("myrinet").unwrap_err();
        assert!(error.hint().contains("es40-qsnet"), "{error}");
    }
}
