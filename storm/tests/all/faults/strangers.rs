//! Nodes that join late, and nodes that the cluster does not expect: with another layout of global
//! memory, another version, fewer processing elements, or an unknown name.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use storm_backend_tcp::wire::{Hello, Join, JoinAnswer, PROTOCOL_VERSION, Refusal, decode, encode};
use storm_primitives::Layout;

/// Checks that a job on the first node succeeds.
fn assert_works(cluster: &RealCluster) {
    let done = cluster.caller().storm("run -n 2 -N 1 --no-bcast /bin/echo well").output();
    let done = done.expect("storm starts");
    assert_eq!(stdout(&done), "well\nwell\n", "{}", told(&done));
}

#[test]
fn a_job_waits_for_the_node_that_joins_late() {
    let mut cluster = RealCluster::without_nodes(2, "");
    cluster.start_node(1);
    cluster.caller().until_idle(1);
    let job = cluster.caller().submit_script("", "exit 0").expect("a manager");
    cluster.caller().until_because(job, "n2");
    cluster.start_node(2);
    cluster.caller().until(job, "COMPLETED");
    cluster.end();
}

/// Regression: the node was refused, so every node needed a new configuration before the manager.
#[test]
fn a_node_with_another_plan_of_memory_takes_the_managers() {
    let mut cluster = RealCluster::without_nodes(2, "");
    cluster.start_node(1);
    let config = fs::read_to_string(cluster.scratch.work().join("storm.toml")).expect("ours");
    let config = format!("{config}[network]\njob-slots = 8\n");
    fs::write(cluster.scratch.work().join("other.toml"), config).expect("written");
    let dir = cluster.node_dir(2).display().to_string();
    let words = format!("{} --config other.toml --work-dir {dir}", cluster.node_words(2));
    cluster.start_node_as(2, &words);
    cluster.caller().until_idle(2);
    assert!(cluster.log("n2").contains("the plan of memory is now the manager's"));
    let done = cluster.caller().storm("run -n 2 -N 2 --no-bcast /bin/echo well").output();
    let done = done.expect("storm starts");
    assert_eq!(stdout(&done), "well\nwell\n", "{}", told(&done));
    cluster.end();
}

#[test]
fn a_node_of_another_version_is_refused_with_the_reason() {
    let cluster = RealCluster::start(1, "");
    let ours = Join {
        version: PROTOCOL_VERSION + 1,
        cluster: cluster.scratch.cluster(),
        name: "n1".to_owned(),
        layout: Layout::builder().build().hash(),
        listen: cluster.manager_address(),
        fabric: "tcp".to_owned(),
        host: None,
    };
    // A version whose hello differs after the number.
    let other = (0u32, PROTOCOL_VERSION - 1, "something else");
    for (hello, node) in [
        (encode(&Hello::Join(ours), &[]), PROTOCOL_VERSION + 1),
        (encode(&other, &[]), PROTOCOL_VERSION - 1),
    ] {
        let mut stranger = TcpStream::connect(cluster.manager_address()).expect("it listens");
        stranger.write_all(&hello).expect("it listens");
        let mut answer = Vec::new();
        stranger.read_to_end(&mut answer).expect("an answer and an end");
        let (answer, _) = decode::<JoinAnswer>(&answer).expect("a frame").expect("all of it");
        let root = PROTOCOL_VERSION;
        let refused = JoinAnswer::Refused(Refusal::Version { root, node });
        assert_eq!(format!("{answer:?}"), format!("{refused:?}"));
        let why = format!("version {root} of the protocol, the node {node}");
        // The line is logged after the answer.
        while !cluster.log("mm").contains(&why) {
            std::thread::yield_now();
        }
    }
    assert_works(&cluster);
    cluster.end();
}

#[test]
fn a_node_that_offers_less_or_that_nobody_knows_is_refused_with_the_reason() {
    let mut cluster = RealCluster::without_nodes(2, "");
    cluster.start_node(1);
    let unknown = cluster.node_words(9);
    let at = format!("--cluster {} --work-dir n9", cluster.scratch.cluster());
    let refused = cluster.scratch.does(&format!("{unknown} {at}"));
    assert!(!refused.status.success(), "{}", told(&refused));
    assert!(
        stderr(&refused).contains("\"n9\" is not in the manager's configuration"),
        "{}",
        told(&refused)
    );
    let small = cluster.node_words(2).replace("--pes 2", "--pes 1");
    let dir = cluster.node_dir(2).display().to_string();
    let refused = cluster.scratch.does(&format!("{small} --config storm.toml --work-dir {dir}"));
    assert!(!refused.status.success(), "{}", told(&refused));
    let why = "it offers 1 PEs, 2 are configured";
    let said = stderr(&refused);
    assert!(said.contains(&format!("refuses this node: {why}")), "{said}");
    assert!(said.contains("--pes") && said.contains("[[nodes]]"), "what to try: {said}");
    let reason = cluster.caller().wait_for("nodes", |nodes| {
        let reason = nodes.as_array()?.iter().find(|node| node["name"] == "n2")?["reason"].as_str();
        reason.filter(|reason| reason.contains("PEs")).map(str::to_owned)
    });
    assert_eq!(reason, why);
    assert_works(&cluster);
    let job = cluster.caller().submit_script("", "exit 0").expect("a manager");
    cluster.caller().until_because(job, &format!("(n2 was refused: {why})"));
    cluster.start_node(2);
    cluster.caller().until(job, "COMPLETED");
    cluster.end();
}

#[test]
fn a_node_that_is_refused_again_and_again_does_not_fill_the_log() {
    let cluster = RealCluster::start(1, "");
    let stranger = Join {
        version: PROTOCOL_VERSION,
        cluster: "another".to_owned(),
        name: "n1".to_owned(),
        layout: Layout::builder().build().hash(),
        listen: cluster.manager_address(),
        fabric: "tcp".to_owned(),
        host: None,
    };
    let hello = encode(&Hello::Join(stranger), &[]);
    for _ in 0..10 {
        let mut stranger = TcpStream::connect(cluster.manager_address()).expect("it listens");
        stranger.write_all(&hello).expect("it listens");
        stranger.read_to_end(&mut Vec::new()).expect("an answer and an end");
    }
    let log = cluster.log("mm");
    assert_eq!(log.matches("a node was refused").count(), 1, "{log}");
    assert_works(&cluster);
    cluster.end();
}
