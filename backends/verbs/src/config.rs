//! Settings of verbs, each with its default and why.

use std::net::IpAddr;
use std::time::Duration;

/// Settings of one member.
#[derive(Clone, Debug)]
pub struct VerbsConfig {
    /// The device, such as `mlx5_0`. Default none: the first with an active port.
    pub device: Option<String>,
    /// Its port, from 1. Default 1.
    pub port: u8,
    /// The place of the own address in the port's table of GIDs. Default none: that of
    /// `address` where the port has it, or else the first of RoCE version 2 over IPv4, or
    /// else 0, which is the only one on InfiniBand.
    pub gid_index: Option<u8>,
    /// The address by which the other members know this one; of use with RoCE only.
    pub address: Option<IpAddr>,
    /// How long to look for completions before going to sleep. Default zero: the daemons
    /// share their processors with the jobs. Some tens of microseconds save a wake-up per
    /// hop of the tree where a core is to spare.
    pub spin: Duration,
    /// The longest payload of a chunk. Default 256 KiB: a block is locked memory, and as
    /// many as `blocks_per_lane` wait at each node.
    pub chunk_bytes: u32,
    /// Blocks that a node lets its parent write to at a time. Default 4: one is on its way,
    /// one is passed on, and two are in the hands of those who write files.
    pub blocks_per_lane: u32,
    /// Blocks that may be registered in all. Default 512, 136 MiB: what comes in stays
    /// where it arrived until global memory is written over; when there are no more, it is
    /// copied.
    pub max_blocks: u32,
    /// Of the root: whether it sends large transfers to all members at once. Default none,
    /// which is for all others: they do as their parent tells.
    pub multicast: Option<Multicast>,
}

/// Whether large transfers for most members are sent once, by multicast, or down the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// Down the tree.
    #[default]
    Off,
    /// By multicast, as soon as at least two children of the root have heard it; a member
    /// that does not hear gets what it needs from its parent.
    Auto,
    /// The same even for one child.
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
