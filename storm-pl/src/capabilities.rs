//! The capabilities that this node gives the daemon. The daemon logs them at its start.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::cgroup::{self, CgroupUnusable};
use crate::realtime::{DEFAULT_PRIORITY, RealtimeRefused, probe_realtime};

/// The capabilities that can be used here, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The directory for cgroups of version 2, or the reason why there is none. Without this
    /// directory, switches use signals.
    pub cgroup: Result<PathBuf, CgroupUnusable>,
    /// Whether a thread may be put on SCHED_FIFO.
    pub realtime: Result<(), RealtimeRefused>,
}

impl Capabilities {
    /// Tries every capability, in `cgroup_parent` or else in this process's own cgroup, and leaves
    /// nothing behind.
    #[must_use]
    pub fn probe(cgroup_parent: Option<&Path>) -> Self {
        let parent = match cgroup_parent {
            Some(parent) => Ok(parent.to_owned()),
            None => cgroup::own_directory(),
        };
        let cgroup = parent.and_then(|parent| cgroup::check_features(&parent).map(|()| parent));
        Self { cgroup, realtime: probe_realtime(DEFAULT_PRIORITY) }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cgroup {
            Ok(parent) => write!(f, "jobs are switched by cgroup v2 in {}", parent.display())?,
            Err(why) => write!(f, "jobs are switched by signals to every thread: {why}")?,
        }
        match &self.realtime {
            Ok(()) => f.write_str("; strobes are handled on SCHED_FIFO"),
            Err(why) => write!(f, "; strobes are handled by an ordinary thread: {why}"),
        }
    }
}
