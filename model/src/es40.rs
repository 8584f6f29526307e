//! The paper's machine: ES40 AlphaServers and their effect on a launch (sections 4.1, 4.2.1 and
//! 4.4).

use crate::{MibPerS, NodeCount};
use serde::{Deserialize, Serialize};

/// The file system from which the NIC reads the binary, with a host process's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceFile {
    /// A file system over the network.
    Nfs,
    /// A local disk.
    Disk,
    /// Memory.
    RamDisk,
}

/// Constants of the ES40 cluster. Bandwidths are the paper's MB/s, which are MiB/s.
#[derive(Clone, Copy, Debug)]
pub struct Es40;

impl Es40 {
    /// Processors of a node (section 4.1).
    pub const PROCESSORS_PER_NODE: u32 = 4;
    /// Hardware broadcast on 64 nodes, buffers in main memory: the PCI bus
    /// limits it (section 4.4.1, broadcast time).
    pub const BROADCAST_HOST_BUFFERS: MibPerS = MibPerS(175.0);
    /// The broadcast bandwidth with buffers in the NIC (section 4.4.1, broadcast time).
    pub const BROADCAST_NIC_BUFFERS: MibPerS = MibPerS(312.0);
    /// The rate of the file transfer protocol. It is lower than 175 MB/s because the host process
    /// that serves the NIC answers slowly (section 4.4.1).
    pub const PROTOCOL: MibPerS = MibPerS(131.0);
    /// Chunks of the file transfer (section 4.4.1).
    pub const CHUNK_BYTES: u32 = 512 << 10;
    /// Slots of the remote queue (section 4.4.1).
    pub const CHUNK_SLOTS: u32 = 2;
    /// T_exec: local execution and the notification of the MM, in ms (section 4.4.2).
    pub const EXEC_MS: f64 = 10.0;
    /// T_timeslice in ms. The paper gives no value. Values of 8.3 to 8.9 reproduce both 110 ms on
    /// 64 nodes and 135 ms on 16,384. With one decimal, 8.4 is the value that gives 110.0.
    pub const TIMESLICE_MS: f64 = 8.4;

    /// BW_read into buffers of main memory (section 4.4.1, read time).
    pub fn read_into_host(source: SourceFile) -> MibPerS {
        match source {
            SourceFile::Nfs => MibPerS(11.4),
            SourceFile::Disk => MibPerS(30.5),
            SourceFile::RamDisk => MibPerS(218.0),
        }
    }

    /// BW_read into buffers of the NIC (section 4.4.1, read time).
    pub fn read_into_nic(source: SourceFile) -> MibPerS {
        match source {
            SourceFile::Nfs => MibPerS(11.2),
            SourceFile::Disk => MibPerS(31.5),
            SourceFile::RamDisk => MibPerS(120.0),
        }
    }

    /// Processors of a machine of `nodes`.
    pub fn processors(nodes: NodeCount) -> u64 {
        nodes.get() * u64::from(Self::PROCESSORS_PER_NODE)
    }
}
