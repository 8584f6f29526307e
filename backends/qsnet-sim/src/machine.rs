//! One simulated machine: a profile, a number of nodes, a load and a place for the buffers. It
//! yields a network and hosts.

use crate::profile::{node_count, rate};
use crate::{
    Broadcast, FatTree, Fidelity, HostModel, Load, NetworkLoader, Profile, ProfileError,
    QsNetFabric, SourceFile, TreeFabric,
};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use storm_model::{FanOut, InputError, Network, Question, predict};
use storm_primitives::sim::Fabric;
use thiserror::Error;

/// Most nodes of a simulated machine: the largest number that a node set can name.
const MAX_SIMULATED_NODES: u32 = 1 << 16;
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The place of the buffers of a file transfer (section 4.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferPlace {
    /// In main memory: read fast, broadcast over the host's bus.
    #[default]
    Host,
    /// In the NIC's memory: read slowly, broadcast fast.
    Nic,
}

/// Why a machine cannot be simulated.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The profile is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The number of nodes, or a value of the model's part, is invalid.
    #[error(transparent)]
    Value(#[from] InputError),
    /// More nodes than a node set holds.
    #[error("{nodes} nodes are more than the {MAX_SIMULATED_NODES} that can be simulated")]
    TooManyNodes {
        /// The number asked for.
        nodes: u32,
    },
    /// The profile has no buffers in the NIC.
    #[error("the machine {name:?} has no buffers in its NIC")]
    NoNicBuffers {
        /// The machine.
        name: String,
    },
    /// The profile has no speed for this file system.
    #[error("the machine {name:?} does not say how fast it reads from {file:?}")]
    UnknownSource {
        /// The machine.
        name: String,
        /// The file system.
        file: SourceFile,
    },
}

impl MachineError {
    /// Advice to the user.
    pub fn hint(&self) -> String {
        match self {
            MachineError::Profile(error) => error.hint(),
            MachineError::Value(error) => error.hint(),
            MachineError::TooManyNodes { .. } => {
                format!("give at most {MAX_SIMULATED_NODES} nodes; the model takes more")
            }
            MachineError::NoNicBuffers { .. } => {
                "put the buffers into main memory, or add [host.nic-buffers]".to_owned()
            }
            MachineError::UnknownSource { .. } => {
                "read from the RAM disk, or add the bandwidth to [host]".to_owned()
            }
        }
    }
}

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct Machine {
    profile: Profile,
    nodes: u32,
    load: Load,
    fidelity: Fidelity,
    buffers: BufferPlace,
    file: SourceFile,
}

impl Machine {
    /// A machine of `nodes` compute nodes without load, which reads from a RAM disk into main
    /// memory.
    ///
    /// # Errors
    /// No nodes, or too many.
    pub fn new(profile: Profile, nodes: u32) -> Result<Machine, MachineError> {
        node_count(nodes)?;
        if nodes > MAX_SIMULATED_NODES {
            return Err(MachineError::TooManyNodes { nodes });
        }
        let (buffers, file) = (BufferPlace::Host, SourceFile::RamDisk);
        let (load, fidelity) = (Load::NONE, Fidelity::default());
        Ok(Machine { profile, nodes, load, fidelity, buffers, file })
    }

    /// The same machine, with transfers simulated at this level of detail.
    #[must_use]
    pub fn simulated(self, fidelity: Fidelity) -> Machine {
        Machine { fidelity, ..self }
    }

    /// The same machine under `load`.
    #[must_use]
    pub fn under(self, load: Load) -> Machine {
        Machine { load, ..self }
    }

    /// The same machine, reading files of this file system into buffers in this place.
    ///
    /// # Errors
    /// The profile has no speeds for this file system or these buffers.
    pub fn reading(self, file: SourceFile, buffers: BufferPlace) -> Result<Machine, MachineError> {
        let machine = Machine { file, buffers, ..self };
        let name = machine.profile.machine.name.clone();
        if buffers == BufferPlace::Nic && machine.profile.host.nic_buffers.is_none() {
            return Err(MachineError::NoNicBuffers { name });
        }
        if file != SourceFile::RamDisk && machine.read_mib_s().is_none() {
            return Err(MachineError::UnknownSource { name, file });
        }
        Ok(machine)
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Compute nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The level of detail of this machine's transfers.
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// Processors of a node.
    pub fn processors(&self) -> u32 {
        // Checked to be a small whole number.
        self.profile.host.processors.value as u32
    }

    /// The load.
    pub fn load(&self) -> Load {
        self.load
    }

    /// BW_read of the management node, in MiB/s; `None` if reading is free.
    pub fn read_mib_s(&self) -> Option<f64> {
        let host = &self.profile.host;
        match (self.buffers, &host.nic_buffers) {
            (BufferPlace::Nic, Some(nic)) => Some(match self.file {
                SourceFile::RamDisk => nic.read_mib_s.value,
                SourceFile::Disk => nic.disk_read_mib_s.value,
                SourceFile::Nfs => nic.nfs_read_mib_s.value,
            }),
            (BufferPlace::Host, _) | (BufferPlace::Nic, None) => match self.file {
                SourceFile::RamDisk => rate(&self.profile.machine.host.read_mib_s),
                SourceFile::Disk => rate(&host.disk_read_mib_s),
                SourceFile::Nfs => rate(&host.nfs_read_mib_s),
            },
        }
    }

    /// The most that the source's host sends, in MiB/s: limited by its bus and by the process that
    /// serves the NIC. `None` for a host that keeps up.
    pub fn source_mib_s(&self) -> Option<f64> {
        let host = &self.profile.machine.host;
        let bus = match (self.buffers, &self.profile.host.nic_buffers) {
            (BufferPlace::Nic, Some(nic)) => Some(nic.bus_mib_s.value),
            (BufferPlace::Host, _) | (BufferPlace::Nic, None) => rate(&host.bus_mib_s),
        };
        [bus, rate(&host.service_mib_s)].into_iter().flatten().reduce(f64::min)
    }

    /// The additional traffic on the machine's QsNet under network load. If no bus limits the
    /// hosts, the network's own bandwidth does.
    pub(crate) fn network_loader(&self, tree: FatTree) -> Option<NetworkLoader> {
        let message_bytes = self.profile.load.network_message_mib.value * BYTES_PER_MIB;
        let bus = rate(&self.profile.machine.host.bus_mib_s);
        let bus_mib_s = bus.unwrap_or_else(|| Broadcast::new(tree).bandwidth_mib_s());
        let (processes, packet_bytes) = (self.processors(), tree.packet_bytes());
        self.load
            .network
            .then(|| NetworkLoader::new(processes, message_bytes as u64, bus_mib_s, packet_bytes))
    }

    /// The analytic model's time of a COMPARE-AND-WRITE over all nodes, in us.
    ///
    /// # Errors
    /// The profile is invalid.
    pub fn conditional_us(&self) -> Result<f64, MachineError> {
        Ok(predict(&self.profile.machine, &self.question()?)?.compare_and_write_us)
    }

    /// The timing of its network.
    ///
    /// # Errors
    /// The profile is invalid.
    pub fn fabric(&self) -> Result<Rc<dyn Fabric>, MachineError> {
        match &self.profile.machine.network {
            Network::Multicast(network) => Ok(Rc::new(QsNetFabric::new(self, network)?)),
            Network::Tree(network) => Ok(Rc::new(TreeFabric::new(self, network)?)),
            Network::SharedHost(_) => {
                let name = self.profile.machine.name.clone();
                Err(ProfileError::SharedHost { name }.into())
            }
        }
    }

    /// The timing of its hosts.
    pub fn host(&self) -> HostModel {
        HostModel::new(self)
    }

    /// The number of children of each node of a tree of messages: from the profile, or the number
    /// with which the analytic model launches fastest.
    pub(crate) fn fan_out(&self) -> Result<FanOut, MachineError> {
        if let Some(fan_out) = &self.profile.wire.fan_out {
            // Checked to be a small whole number.
            return Ok(FanOut::new(fan_out.value as u32)?);
        }
        let chosen = predict(&self.profile.machine, &self.question()?)?.fan_out;
        Ok(chosen.unwrap_or(FanOut::ONE))
    }

    fn question(&self) -> Result<Question, MachineError> {
        Ok(Question::of(node_count(self.nodes)?))
    }
}
