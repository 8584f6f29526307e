//! Control groups of version 2: finding them, and the directories that this node makes in them.
//!
//! The files used exist in every cgroup without any controller: `cgroup.procs`, `cgroup.freeze`,
//! `cgroup.kill`. The memory controller is used if it is available ([`MemoryControl`]).

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
