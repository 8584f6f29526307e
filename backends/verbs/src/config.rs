//! Settings of verbs, each with its default and the reason.

use std::net::IpAddr;
use std::time::Duration;

/// Settings of one member.
#[derive(Clone, Debug)]
pub struct VerbsConfig {
    /// The device, such as `mlx5_0`. Default none: the first with an active port.
    pub device: Option<String>,
    /// The port, from 1. Default 1.
    pub port: u8,
    /// The index of this member's address in the port's table of GIDs. Default none: the first of
    /// these that exists is taken. They are the index of `address`, the index of the first RoCE
    /// version 2 address over IPv4, and 0. InfiniBand has only index 0.
    pub gid_index: Option<u8>,
    /// The address by which the other members know this member. Used with RoCE only.
    pub address: Option<IpAddr>,
    /// How long to poll for completions before sleeping. Default zero, because the daemons share
    /// their processors with the jobs. If a core is free, some tens of microseconds save a wake-up
    /// at each level of the tree.
    pub spin: Duration,
    /// The longest payload of a chunk. Default 256 KiB. A block is locked memory, and each node
    /// keeps `blocks_per_lane` of them ready.
    pub chunk_bytes: u32,
    /// The blocks that a node grants to its parent at a time. Default 4: one is arriving, one is
    /// being passed on, and two are being written to files.
    pub blocks_per_lane: u32,
    /// The most blocks that may be registered. Default 512, 136 MiB. Data stays in its block until
    /// the global memory is overwritten. When no block is left, data is copied.
    pub max_blocks: u32,
    /// For the root: whether it sends large transfers to all members at once. Default none. Other
    /// members keep none and follow their parent.
    pub multicast: Option<Multicast>,
}

/// How the root sends large transfers for most members: once by multicast, or down the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// Down the tree.
    #[default]
    Off,
    /// By multicast, as soon as at least two children of the root receive it. A member that
    /// receives nothing gets the data from its parent.
    Auto,
    /// By multicast, even for a single child.
    On,
}

impl Default for VerbsConfig {
    fn default() -> VerbsConfig {
        VerbsConfig {
            device: None,
            port: 1,
            gid_index: None,
            address: None,
            spin: Duration::ZERO,
            chunk_bytes: 256 << 10,
            blocks_per_lane: 4,
            max_blocks: 512,
            multicast: None,
        }
    }
}
