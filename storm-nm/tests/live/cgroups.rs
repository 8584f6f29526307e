//! The control groups of a node under test, to do harm to them.

use crate::manager::node_config;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use storm_primitives::NodeId;

/// Where cgroup v2 is, alone or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// The directory of a node's control groups, where it has one.
pub(crate) fn of_node(node: NodeId) -> Option<PathBuf> {
    let config = node_config(node, PathBuf::new());
    let name = format!("storm-{}-{}", config.cluster, config.name);
    MOUNTS.iter().find_map(|mount| find(Path::new(mount), &name))
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let own = directory.join(name);
    if own.join("cgroup.max.descendants").exists() {
        return Some(own);
    }
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.find_map(|entry| find(&entry.path(), name))
}

/// No more control groups can be made there.
pub(crate) fn forbid_more(groups: &Path) {
    fs::write(groups.join("cgroup.max.descendants"), "0").expect("it is ours");
}

/// Kills what is in the control groups below, and removes them.
pub(crate) fn remove_places(groups: &Path) {
    for entry in fs::read_dir(groups).expect("it is there").flatten() {
        let place = entry.path();
        // Until the kernel has let go of the processes that were killed.
        while place.is_dir() && fs::remove_dir(&place).is_err() {
            let processes = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines().filter_map(|line| line.parse().ok()) {
                // It may have ended.
                let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
            }
        }
    }
}
