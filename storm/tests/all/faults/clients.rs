//! Clients that vanish silently in the middle of `storm run`.

use crate::scratch::Scratch;
use crate::scratch::real_cluster::RealCluster;
use std::io::Read;
use std::process::{Child, Command, Stdio};

/// More than all buffers on the way to a client hold.
const MUCH: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done
                    head -c 8388608 /dev/zero; touch written-$STORM_RANK";

/// Starts a client and waits until its job prints `up`.
fn follow(mut command: Command) -> Child {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = piped.spawn().expect("storm starts");
    let mut up = [0; 3];
    client.stdout.as_mut().expect("piped").read_exact(&mut up).expect("it writes");
    assert_eq!(&up, b"up\n");
    client
}

fn vanish(mut client: Child) {
    client.kill().expect("it lives");
    client.wait().expect("our child");
}

#[test]
fn a_job_whose_client_vanishes_goes_on_to_its_end() {
    let cluster = RealCluster::start(2, "");
    let caller = cluster.caller();
    let mut command = caller.storm("run -n 1 --no-bcast /bin/sh -c");
    command.arg(MUCH);
    let client = follow(command);
    let job = caller.wait_for("queue", |queue| queue[0]["id"].as_u64());
    vanish(client);
    std::fs::write(cluster.scratch.work().join("go"), "").expect("written");
    caller.until(job, "COMPLETED");
    assert!(cluster.scratch.work().join("written-0").exists());
    cluster.end();
}

#[test]
fn an_embedded_cluster_is_gone_with_its_client() {
    let scratch = Scratch::make();
    let mut command = scratch.storm("run --nodes 2 --pes 1 -n 2 --no-bcast /bin/sh -c".split(' '));
    command.arg("test $STORM_RANK = 0 && echo up; trap '' TERM; while :; do sleep 0.05; done");
    vanish(follow(command));
    while !scratch.processes().is_empty() {
        std::thread::yield_now();
    }
}
