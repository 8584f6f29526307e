//! The programs that load a machine in section 4.2.2 of the paper.

use serde::{Deserialize, Serialize};

/// The load in addition to the observed jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// A tight loop on every processor.
    pub cpu: bool,
    /// Messages between pairs of processes, without pause.
    pub network: bool,
}

impl Load {
    /// No load.
    pub const NONE: Load = Load { cpu: false, network: false };
    /// The loop: Fig. 2b.
    pub const CPU: Load = Load { cpu: true, network: false };
    /// The messages: Fig. 2c.
    pub const NETWORK: Load = Load { cpu: false, network: true };
}
