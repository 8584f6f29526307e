//! The directory of a node's jobs' files, shared with other files and other nodes.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use nix::sys::signal::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// The words that start a node with its files in `shared`.
fn words(cluster: &RealCluster, node: u32) -> String {
    format!("{} --config storm.toml --work-dir shared", cluster.node_words(node))
}

#[test]
fn nodes_that_share_a_directory_leave_what_is_not_theirs() {
    let mut cluster = RealCluster::without_nodes(2, "");
    let shared = cluster.scratch.work().join("shared");
    let others = ["jobs/alice/thesis", "cache/7/mine", "mine"].map(|file| shared.join(file));
    for file in &others {
        fs::create_dir_all(file.parent().expect("it has one")).expect("made");
        fs::write(file, "precious").expect("written");
    }
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("ours");
    for node in [1, 2] {
        cluster.start_node_as(node, &words(&cluster, node));
    }
    cluster.caller().until_idle(2);
    let run = |cluster: &RealCluster| {
        let done = cluster.caller().storm("run -n 2 -N 2 /bin/echo well").output();
        let done = done.expect("storm starts");
        assert_eq!(stdout(&done), "well\nwell\n", "{}", told(&done));
    };
    run(&cluster);
    // The next Node Manager of the same name takes over the files of one that was killed.
    cluster.kill_node(2);
    cluster.caller().until_down("n2");
    cluster.start_node_as(2, &words(&cluster, 2));
    cluster.caller().until_idle(2);
    run(&cluster);
    cluster.end_node(1, Signal::SIGTERM);
    cluster.end_node(2, Signal::SIGTERM);
    assert_eq!(fs::metadata(&shared).expect("it is there").permissions().mode() & 0o7777, 0o1777);
    for file in &others {
        assert_eq!(fs::read_to_string(file).expect("it is there"), "precious");
    }
    let left = fs::read_dir(&shared).expect("it is there").count();
    assert_eq!(left, others.len(), "of the nodes nothing is left");
    cluster.end();
}

#[test]
fn a_second_node_manager_of_a_name_leaves_the_first_ones_files_alone() {
    let mut cluster = RealCluster::without_nodes(1, "");
    cluster.start_node_as(1, &words(&cluster, 1));
    cluster.caller().until_idle(1);
    let refused = cluster.scratch.does(&words(&cluster, 1));
    assert!(!refused.status.success(), "{}", told(&refused));
    let said = stderr(&refused);
    assert!(said.contains("another Node Manager works in shared/storm-nm-"), "{said}");
    assert!(said.contains("--work-dir"), "what to try: {said}");
    let done = cluster.caller().storm("run -n 2 /bin/echo well").output().expect("storm starts");
    assert_eq!(stdout(&done), "well\nwell\n", "{}", told(&done));
    cluster.end_node(1, Signal::SIGTERM);
    assert!(!cluster.scratch.work().join("shared").exists(), "it was made for the node");
    cluster.end();
}

#[test]
fn a_node_manager_that_is_asked_to_end_says_so_and_looks_for_no_way_back() {
    let mut cluster = RealCluster::start(1, "");
    cluster.end_node(1, Signal::SIGTERM);
    let log = cluster.log("n1");
    assert!(log.contains("asked to end by SIGTERM"), "{log}");
    let misleads = ["joining again", "no way back", "cut off", "cannot be reached"];
    misleads.iter().for_each(|words| assert!(!log.contains(words), "{log}"));
    cluster.end();
}
