//! Daemons that choose their network themselves, on a host without the RDMA device that they look
//! for. `backends/verbs/vm/cluster.sh` tests a host with a working device.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};

/// No kernel gives a device this name.
const AUTO: &str = "--backend auto --rdma-device storm-has-no-such";

#[test]
fn daemons_without_a_device_are_on_tcp_and_say_why() {
    let mut cluster = RealCluster::without_manager(2, "");
    cluster.start_manager_as(&format!("mm --config storm.toml {AUTO}"));
    for node in 1..=2 {
        let dir = cluster.node_dir(node).display().to_string();
        let words = cluster.node_words(node);
        let words = format!("{words} --config storm.toml --work-dir {dir} {AUTO}");
        cluster.start_node_as(node, &words);
    }
    cluster.caller().until_idle(2);
    let done = cluster.caller().storm("run -n 4 /bin/echo well").output().expect("storm starts");
    assert_eq!(stdout(&done), "well\n".repeat(4), "{}", told(&done));
    for daemon in ["mm", "n1", "n2"] {
        let log = cluster.log(daemon);
        // A host without the library reports the library instead.
        let why = log.contains("on TCP, as there is no RDMA device")
            || log.contains("on TCP, as libibverbs.so.1 cannot be loaded");
        assert!(why, "{daemon}: {log}");
    }
    cluster.end();
}

#[test]
fn a_daemon_that_must_be_on_verbs_does_not_start_without_a_device() {
    let cluster = RealCluster::without_manager(1, "");
    let refused = cluster
        .scratch
        .does("mm --config storm.toml --backend verbs --rdma-device storm-has-no-such");
    assert!(!refused.status.success(), "{}", told(&refused));
    let said = stderr(&refused);
    assert!(said.contains("verbs cannot be used"), "{said}");
    assert!(said.contains("storm nodes --fabric"), "what to try: {said}");
    cluster.end();
}
