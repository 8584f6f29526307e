//! The Program Launcher: everything that touches application processes on a node.
//!
//! # Keeper, pads, PLs
//!
//! The NM starts one **keeper** per node: a tiny process with one thread, forked before the NM
//! makes a thread or executed as a hidden subcommand. The keeper keeps **pads**. A pad is a place
//! to run one job on this node: where cgroup v2 can be used a cgroup directory, and in it one
//! pre-forked **PL** per PE, born inside by `clone3(CLONE_INTO_CGROUP)` so that nothing migrates
//! later. Each PL waits on its command socket, the other end of which the NM holds: one descriptor
//! per waiting PL, handed over by SCM_RIGHTS.
//!
//! A launch is one message from the NM straight to the PL ([`KeeperHandle::launch`]); the keeper
//! is not involved. The NM makes the pipes and the PMI socket that the rank uses, and sends the
//! rank's ends along. While it has plenty of descriptors it keeps copies of those ends until the rank
//! has ended ([`OwnEnds`]). The PL turns itself into the application (limits, CPUs, user, directory,
//! streams, `execve`), and says which step failed if one did. Its command socket is closed by
//! `execve`, so the NM sees the very moment.
//!
//! The keeper is the parent and the reaper of all of them and the subreaper of what they leave
//! behind. It reports each end with its resource usage, kills strays when the job is over, and
//! fills the pad again off the critical path; PLs that a job did not use stay as they are.
//!
//! # Nobody outlives anybody
//!
//! | who dies | what follows |
//! |---|---|
//! | NM | the keeper reads end of file. It keeps the jobs that the NM left with it ([`KeeperHandle::keep`]) for a bounded time, in which the next NM takes them over ([`Keeper::take_over`]); all else it kills. Where nothing was left, or the time is over, it removes its cgroups and ends. One that was stopped goes on by PR_SET_PDEATHSIG |
//! | keeper | PLs and ranks die by PR_SET_PDEATHSIG; the NM kills the node's cgroup with all that had escaped them |
//! | NM stopped | what it holds a lease for ([`KeeperHandle::lease`]) the keeper ends when that runs out; all else goes on |
//! | both at once | ranks as above; daemonised children stay in the node's cgroup, which the next keeper of this name empties before it starts |
//!
//! Without cgroup v2 every pad has its own keeper, a child of the node's: being the nearest
//! subreaper, it is the ancestor of every process of the job however often that forks or calls
//! `setsid`, so the processes of a job are exactly its descendants. It keeps its job when the NM is gone; the
//! node's keeper has the bound, and hands the next NM a socket to it.
//! What that cannot do: when the node's keeper and a pad's keeper are killed in the same instant,
//! daemonised children of that pad survive, and no later start can tell them from others.
//!
//! # Files that ranks share
//!
//! Ranks that write to one file ([`Output::Lines`]) write into pipes. A further child of the keeper for
//! each job appends their lines to the file, as the user ([`SharedFiles`]). It is in no pad: it is
//! neither stopped nor killed with the job, and ends when the last writer of its pipes has ended.
//!
//! # Switching
//!
//! [`switch()`] stops one set of pads and resumes another: one byte into `cgroup.freeze` per job,
//! or SIGSTOP to every thread. [`Capabilities`] says which, and why not the better one.
//!
//! # Forking is sound here
//!
//! Only the keeper forks, and it has one thread from its first instruction to its last: no lock
//! can be held by a thread that the child lacks, so PLs may allocate. PLs leave by `execve` or
//! `_exit`, never through destructors or exit handlers of the keeper.
//!
//! What is deliberately not here: the network, the job table, output to clients, PMI. The NM has
//! those. This crate depends on no other crate of STORM.

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
