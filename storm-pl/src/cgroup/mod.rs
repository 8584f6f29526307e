//! Control groups of version 2: finding them, and the directories this node makes in them.
//!
//! Uses what every cgroup has without any controller: `cgroup.procs`, `cgroup.freeze`,
//! `cgroup.kill`; and the memory controller, where it can be had ([`MemoryControl`]).

mod memory;
mod mount;
mod node_cgroup;
mod pad_cgroup;
mod unusable;

pub(crate) use memory::MemoryControl;
pub use memory::MemoryUnlimited;
pub(crate) use mount::own_directory;
pub use node_cgroup::remove_abandoned;
pub(crate) use node_cgroup::{
    NAME, NodeCgroup, NodeCgroupError, check_features, kill_and_remove, remove_remains,
};
pub(crate) use pad_cgroup::PadCgroup;
pub use unusable::CgroupUnusable;
