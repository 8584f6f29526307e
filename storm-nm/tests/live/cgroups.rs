//! The control groups of a node under test, for tests that damage them.

use crate::manager::node_config;
use std::fs;
use std::path::{Path, PathBuf};
use storm_primitives::NodeId;

/// Where cgroup v2 is, alone or together with version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// The directory of a node's control groups, if it has any.
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

/// Forbids new control groups there.
pub(crate) fn forbid_more(groups: &Path) {
    fs::write(groups.join("cgroup.max.descendants"), "0").expect("it is ours");
}
