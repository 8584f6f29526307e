//! The Program Launcher: everything that touches application processes on a node.
//!
//! # Keeper, pads, PLs
//!
//! The NM starts one **keeper** per node. The keeper is a small process with one thread. The keeper
//! is forked before the NM makes a thread, or executed as a hidden subcommand. The keeper manages
//! **pads**. A pad is a place to run one job on this node, and contains one pre-forked **PL** per
//! PE. With cgroup v2, a pad is also a cgroup directory. `clone3(CLONE_INTO_CGROUP)` creates the
//! PLs in it, so no process migrates later. Each PL waits on its command socket. The NM gets the
//! other end by SCM_RIGHTS, and thus has one descriptor per waiting PL.
//!
//! A launch is one message from the NM straight to the PL ([`KeeperHandle::launch`]); the keeper is
//! not involved. The NM makes the pipes and the PMI socket of the rank, and sends the rank's ends
//! with the message. While the NM has plenty of descriptors, it keeps copies of those ends until
//! the rank has ended ([`OwnEnds`]). The PL turns itself into the application (limits, CPUs, user,
//! directory, streams, `execve`). If a step fails, the PL reports it. `execve` closes the command
//! socket, so the NM gets the exact moment.
//!
//! The keeper is the parent and the reaper of all PLs and the subreaper of their descendants. The
//! keeper reports each end with its resource usage, and kills strays when the job is over. The
//! keeper then fills the pad again off the critical path. PLs that a job did not use stay as they
//! are.
//!
//! # When a process dies
//!
//! - **The NM dies**: the keeper reads end of file and keeps the jobs that the NM left with it
//!   ([`KeeperHandle::keep`]); it kills the rest. For a bounded time the next NM can take the jobs
//!   over ([`Keeper::take_over`]). If no job was left, or the time is over, the keeper removes its
//!   cgroups and ends. A stopped keeper resumes by PR_SET_PDEATHSIG.
//! - **The keeper dies**: PLs and ranks die by PR_SET_PDEATHSIG. The NM kills the node's cgroup
//!   with all processes that escaped.
//! - **The NM is stopped**: the keeper kills the pads with a lease ([`KeeperHandle::lease`]) when
//!   the lease runs out. Any other pad continues.
//! - **Both die at once**: the ranks die as above. Daemonised children stay in the node's cgroup,
//!   which the next keeper of this name empties before it starts.
//!
//! Without cgroup v2, every pad has its own keeper, a child of the node's keeper. This keeper is
//! the nearest subreaper, and thus the ancestor of every process of the job, however often a
//! process forks or calls `setsid`. The processes of a job are therefore exactly its descendants. A
//! pad's keeper keeps its job when the NM is gone. The node's keeper enforces the bound, and gives
//! the next NM a socket to the pad's keeper. One case stays open: the node's keeper and a pad's
//! keeper are killed at the same instant. Daemonised children of the pad then survive, and no later
//! start can recognise them.
//!
//! # Files that ranks share
//!
//! Ranks that write to one file ([`Output::Lines`]) write into pipes. A further child of the keeper
//! for each job appends their lines to the file, as the user ([`SharedFiles`]). This child, the
//! writer, is in no pad: it is neither stopped nor killed with the job. The writer ends when the
//! last process that writes into its pipes has ended.
//!
//! # Switching
//!
//! [`switch()`] stops one set of pads and resumes another: one byte into `cgroup.freeze` per job,
//! or SIGSTOP to every thread. [`Capabilities`] reports which way is used, and why the better way
//! is not.
//!
//! # Forking is sound here
//!
//! Only the keeper forks, and it has one thread from its first instruction to its last. No lock
//! can be held by a thread that the child lacks, so PLs may allocate. PLs leave by `execve` or
//! `_exit`, never through destructors or exit handlers of the keeper.
//!
//! The crate deliberately contains no network, job table, client output or PMI, which belong to the
//! NM. The crate depends on no other crate of STORM.

pub mod boost;
mod capabilities;
mod carried;
mod cgroup;
mod credentials;
mod descriptors;
mod exit;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host_time;
mod ids;
mod keeper;
mod launch_failure;
mod launch_spec;
mod launcher;
mod node;
mod original;
pub mod parcel;
mod process_tree;
mod protocol;
pub mod realtime;
mod remove_tree;
mod seqpacket;
mod shared_files;
mod shortage;
pub mod switch;
mod sys;
mod title;

pub use capabilities::Capabilities;
pub use cgroup::{CgroupUnusable, MemoryUnlimited, remove_abandoned};
pub use credentials::{Credentials, CredentialsError};
pub use descriptors::DescriptorLimit;
pub use exit::{ExitStatus, Usage};
pub use host_time::HostTime;
pub use ids::{Errno, PadId, PlIndex, PlaceId, ProcessId};
pub use keeper::{
    KeptId, Leftovers, PlaceFailure, PlaceSpec, PlaceStep, Survival, give_back_heap, keeper_at,
};
pub use launch_failure::{LaunchFailure, LaunchStep, RefusedLimit};
pub use launch_spec::{EncodedSpec, Input, LaunchSpec, Output, RankSpec, ResourceLimit, SpecError};
pub use node::{
    Event, InheritedJob, InheritedLaunch, InheritedRank, Keeper, KeeperConfig, KeeperEvents,
    KeeperHandle, LaunchError, Launching, LineEnds, NAME_RULE, OwnEnds, PlEnds, StartError,
    StartMethod, is_name, keeper_main,
};
pub use original::stands_in_for;
pub use protocol::{PadStep, Refusal};
pub use remove_tree::remove_tree;
pub use shared_files::{FileFailure, FileStep, FilesEnd, SharedFiles, SharedFilesSpec};
pub use shortage::Shortage;
pub use switch::{CgroupFreezer, FreezeError, Freezer, SignalFreezer, SwitchError, switch};
pub use sys::unread_by_peer;
