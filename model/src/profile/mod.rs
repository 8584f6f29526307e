//! A machine to predict for: its network, its hosts and the protocol's settings, each value with
//! its unit and its source.
//!
//! Profiles are TOML text. This module reads and writes the text; the caller reads and writes
//! files. The same text can describe the machine to a simulator, with additional parameters under
//! `simulation`. This module ignores the additional parameters.

mod builtin;
mod error;
mod key;
mod keys;
mod text;
mod values;

pub use builtin::{BUILTIN_NAMES, builtin, builtin_text};
pub use error::ProfileError;
pub use key::{Absent, KeyRange, ProfileKey, check_values};
pub use keys::KEYS;
pub use text::commented_tables;

use crate::{InputError, MibPerS, Network, Sourced};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Profile {
    /// The name.
    pub name: String,
    /// The machine in a sentence.
    pub about: String,
    /// The hosts.
    pub host: Host,
    /// The settings of file transfers.
    pub protocol: Protocol,
    /// The network between the hosts.
    pub network: Network,
}

/// The text of a profile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    name: String,
    about: String,
    host: Host,
    protocol: Protocol,
    network: Network,
    #[serde(rename = "simulation")]
    _simulation: Option<IgnoredAny>,
}

/// The parameters of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Host {
    /// BW_read of the management node, in MiB/s. If absent, reading takes no time.
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
    /// T_exec of any job, in ms.
    pub exec_ms: Sourced,
    /// Starting one process, in us. A node starts its processes one after the other.
    pub spawn_us: Sourced,
    /// T_timeslice: waiting for the ends of slices, in ms.
    pub timeslice_ms: Sourced,
    /// Stopping one job and resuming the next on a node, in us.
    pub switch_us: Sourced,
    /// The shortest time slice that the Node Manager handles, in us, if known.
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
    /// The text is no profile, or a value is invalid.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let Text { name, about, host, protocol, network, .. } =
            toml::from_str(text).map_err(Box::new)?;
        let profile = Profile { name, about, host, protocol, network };
        profile.check().map_err(|error| ProfileError::of_value(text, error))?;
        Ok(profile)
    }

    /// Writes it as text that [`Self::from_toml`] reads, with a comment on each
    /// parameter.
    pub fn to_toml(&self) -> String {
        let kind = match self.network {
            Network::Multicast(_) => "network.multicast.",
            Network::Tree(_) => "network.tree.",
            Network::SharedHost(_) => "network.shared-host.",
        };
        let of_this_kind =
            |key: &ProfileKey| !key.key.starts_with("network.") || key.key.starts_with(kind);
        let keys: Vec<ProfileKey> = KEYS.into_iter().filter(of_this_kind).collect();
        let (name, about) = (text::quoted(&self.name), text::quoted(&self.about));
        let tables = commented_tables(&keys, &self.values());
        format!("name = {name}\nabout = {about}\n{tables}")
    }

    /// Checks the values.
    ///
    /// # Errors
    /// A value is out of the range of its key.
    pub fn check(&self) -> Result<(), InputError> {
        check_values(&KEYS, &self.values())
    }
}

/// A bandwidth of a checked profile.
pub(crate) fn bandwidth(value: &Sourced) -> MibPerS {
    MibPerS(value.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of all values in a table of TOML.
    fn keys_in(table: &toml::Table, prefix: &str, found: &mut Vec<String>) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value.as_table() {
                Some(inner) if inner.contains_key("source") => found.push(key),
                Some(inner) => keys_in(inner, &format!("{key}."), found),
                None => {}
            }
        }
    }

    fn calibrated() -> Profile {
        let values = KEYS.iter().filter(|key| key.key.starts_with("network.shared-host."));
        let values = values.map(|key| {
            format!("{} = {{ value = {:?}, source = \"x\" }}\n", key.parts().1, key.range.least)
        });
        let network: String = values.collect();
        let ideal = builtin_text("ideal").unwrap();
        let (before, _) = ideal.split_once("[network.multicast]").unwrap();
        Profile::from_toml(&format!("{before}[network.shared-host]\n{network}")).unwrap()
    }

    #[test]
    fn every_value_is_listed_and_has_its_key() {
        let builtin = BUILTIN_NAMES.map(|name| builtin(name).unwrap());
        for profile in builtin.into_iter().chain([calibrated()]) {
            let mut there = Vec::new();
            keys_in(&toml::Table::try_from(&profile).unwrap(), "", &mut there);
            let mut listed: Vec<_> = profile.values().into_iter().map(|(key, _)| key).collect();
            there.sort();
            listed.sort_unstable();
            assert_eq!(there, listed, "{}", profile.name);
            for key in listed {
                assert_eq!(KEYS.iter().filter(|one| one.key == key).count(), 1, "{key}");
            }
        }
    }

    #[test]
    fn every_profile_survives_reading_and_writing() {
        for name in BUILTIN_NAMES {
            let profile = builtin(name).unwrap();
            assert_eq!(profile.name, name);
            let unsourced = profile.values().into_iter().find(|one| one.1.source.is_empty());
            assert_eq!(unsourced, None, "{name}");
        }
        let builtin = BUILTIN_NAMES.map(|name| builtin(name).unwrap());
        for profile in builtin.into_iter().chain([calibrated()]) {
            let text = profile.to_toml();
            assert_eq!(Profile::from_toml(&text).unwrap(), profile, "{text}");
        }
    }

    #[test]
    fn settings_for_a_simulator_are_accepted() {
        let text = builtin_text("ideal").unwrap();
        let more = format!("{text}\n[simulation.anything]\nx = 1\n");
        assert_eq!(Profile::from_toml(&more).unwrap(), builtin("ideal").unwrap());
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
    fn an_error_in_a_profile_names_the_fault_and_the_line() {
        let text = builtin_text("es40-qsnet").unwrap();
        let cable = text.replace("value = 3.94", "value = -3.94");
        let error = Profile::from_toml(&cable).unwrap_err().to_string();
        let line = cable.lines().position(|line| line.contains("-3.94")).unwrap() + 1;
        let wanted = "network.multicast.cable-ns-per-m is -3.94 ns/m: it must be 0 to 1000";
        assert_eq!(error, format!("line {line}: {wanted}"));
        let unknown = text.replace("spawn-us", "spawn-ms");
        let error = Profile::from_toml(&unknown).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("spawn-ms") && source.contains("line "), "{source}");
        assert!(!error.to_string().contains("spawn-ms"), "its source says so: {error}");
        let error = builtin("myrinet").unwrap_err();
        assert!(error.hint().contains("es40-qsnet"), "{error}");
    }
}
