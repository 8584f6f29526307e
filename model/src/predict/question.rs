//! The question to the model.

use crate::input_error::positive;
use crate::{FanOut, InputError, Metres, Mib, Network, NodeCount, Profile};

/// A job on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Nodes of the machine. The job runs on all of them.
    pub nodes: NodeCount,
    /// Processes of each.
    pub processes_per_node: u32,
    /// Size of the program; nothing is sent if it is 0.
    pub size: Mib,
    /// Children of each node of a tree; chosen if none.
    pub fan_out: Option<FanOut>,
    /// Bytes of a chunk; `None` takes the profile's value.
    pub chunk_bytes: Option<u32>,
    /// Longest cable of a machine with hardware multicast; Equation 4 if none.
    pub cable: Option<Metres>,
    /// The length, in us, of the time slice to cost.
    pub quantum_us: Option<f64>,
}

impl Question {
    /// One process on each of `nodes` nodes, with the paper's binary and the profile's settings.
    pub fn of(nodes: NodeCount) -> Question {
        Question {
            nodes,
            processes_per_node: 1,
            size: Mib::PAPER_BINARY,
            fan_out: None,
            chunk_bytes: None,
            cable: None,
            quantum_us: None,
        }
    }

    /// Refuses input that is invalid, or has no meaning on this machine.
    pub(crate) fn check(&self, profile: &Profile) -> Result<(), InputError> {
        positive("the processes of a node", "processes", f64::from(self.processes_per_node))?;
        if let Some(bytes) = self.chunk_bytes {
            positive("the chunk", "bytes", f64::from(bytes))?;
        }
        if let Some(quantum_us) = self.quantum_us {
            positive("the time slice", "us", quantum_us)?;
        }
        let setting = match &profile.network {
            Network::Tree(_) => self.cable.map(|_| "length of cable"),
            Network::Multicast(_) => {
                self.fan_out.map(|_| "fan-out").or(self.chunk_bytes.map(|_| "chunk"))
            }
            Network::SharedHost(_) => self
                .fan_out
                .map(|_| "fan-out")
                .or(self.chunk_bytes.map(|_| "chunk"))
                .or(self.cable.map(|_| "length of cable")),
        };
        match setting {
            Some(setting) => {
                Err(InputError::WithoutMeaning { setting, profile: profile.name.clone() })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn chunk_bytes_on(&self, profile: &Profile) -> f64 {
        self.chunk_bytes.map_or(profile.protocol.chunk_bytes.value, f64::from)
    }

    pub(crate) fn processes(&self) -> f64 {
        self.nodes.as_f64() * f64::from(self.processes_per_node)
    }
}
