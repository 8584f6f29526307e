//! `storm` in a job addresses the job's own cluster.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{STORM, Scratch, stderr, stdout, told};
use serde_json::Value;

/// The number of nodes in the output of `storm nodes` in a job run with these words.
fn nodes_seen(scratch: &Scratch, words: &[&str], variables: &[(&str, &str)]) -> usize {
    let mut command = scratch.storm(["run"]);
    command.args(words).args(["--no-bcast", STORM, "nodes", "--json"]);
    let done = command.envs(variables.iter().copied()).output().expect("storm starts");
    assert!(done.status.success(), "{words:?}: {}", told(&done));
    let nodes: Value = serde_json::from_str(&stdout(&done)).expect("JSON");
    nodes.as_array().map_or(0, Vec::len)
}

#[test]
fn a_job_asks_its_own_cluster_whatever_named_it() {
    let cluster = RealCluster::start(1, "");
    let scratch = &cluster.scratch;
    let socket = cluster.caller().socket.display().to_string();
    scratch.prints("up --nodes 2 --pes 2");
    let kept =
        stdout(&scratch.storm(["run", "printenv", "STORM_SOCKET"]).output().expect("storm starts"));
    assert_eq!(nodes_seen(scratch, &["--socket", &socket], &[]), 1);
    let variables = [("STORM_SOCKET", kept.trim()), ("STORM_MANAGER", "nowhere:1")];
    assert_eq!(nodes_seen(scratch, &["--socket", &socket], &variables), 1);
    assert_eq!(nodes_seen(scratch, &[], &[]), 2);
    assert_eq!(nodes_seen(scratch, &["--export", "NONE"], &[]), 2);
    let embedded = ["--nodes", "3", "--pes", "1"];
    assert_eq!(nodes_seen(scratch, &embedded, &variables), 3);
    let nested =
        ["--nodes", "3", "--pes", "1", "--no-bcast", STORM, "run", "--nodes", "2", "--pes", "1"];
    assert_eq!(nodes_seen(scratch, &nested, &[]), 2);
    // A job can also end the kept cluster that it runs in.
    let named = scratch.storm(["down"]).env("STORM_SOCKET", &socket).output().expect("it starts");
    assert!(stderr(&named).contains("names another cluster"), "{}", told(&named));
    let own = scratch.storm(["down"]).env("STORM_SOCKET", kept.trim()).output();
    let own = own.expect("storm starts");
    assert!(own.status.success(), "{}", told(&own));
    cluster.end();
}

#[test]
fn a_job_on_another_host_is_told_where_its_manager_is() {
    let scratch = Scratch::make();
    let mut command = scratch.storm(["submit", "--no-bcast", "/bin/true"]);
    command.env("STORM_SOCKET", "/s").env("STORM_SOCKET_HOST", "another-boot head /s");
    let done = command.output().expect("storm starts");
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    assert!(said.contains("the manager of this job's cluster is on another host, head"), "{said}");
    assert!(said.contains("--manager head:PORT"), "{said}");
}
