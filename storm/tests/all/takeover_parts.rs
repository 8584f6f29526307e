//! Nodes whose ranks of a job have all ended while the job goes on elsewhere, and that get another
//! Node Manager before the Machine Manager is restarted: real daemons and processes
//! (`docs/decisions/0152-the-journal-keeps-the-end-of-a-lost-part.md`).

use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// The ranks of the first node end with status 3. The others wait for the file `go`.
const FIRST_NODE_ENDS: &str = "echo >> began-$STORM_RANK; [ $STORM_RANK -lt 2 ] && exit 3; \
                               while [ ! -e go ]; do sleep 0.02; done";

fn has_ended(job: &Value, rank: usize) -> bool {
    !job["ranks"][rank]["exit"].is_null()
}

#[test]
fn a_job_goes_on_when_a_node_that_is_done_and_then_the_manager_start_anew() {
    for (signal, options) in [(Signal::SIGKILL, ""), (Signal::SIGTERM, " --requeue")] {
        let settings = "partitions = [{ name = \"main\", sched = \"gang\" }]";
        let mut cluster = RealCluster::start(2, settings);
        let options = format!("-n 4 --no-bcast -o /dev/null{options}");
        let program = ["/bin/sh", "-c", FIRST_NODE_ENDS];
        let job = cluster.caller().submit(&options, &program).expect("a manager");
        cluster.caller().until(job, "RUNNING");
        let done = |job: &Value| (0..2).all(|rank| has_ended(job, rank)).then_some(());
        cluster.caller().wait_for(&format!("show {job}"), done);
        match signal {
            Signal::SIGKILL => cluster.kill_node(1),
            signal => cluster.end_node(1, signal),
        }
        cluster.caller().until_down("n1");
        cluster.start_node(1);
        let up = |nodes: &Value| (!nodes.to_string().contains("DOWN")).then_some(());
        cluster.caller().wait_for("nodes", up);
        cluster.end_manager(signal);
        cluster.start_manager();
        cluster.caller().wait_for("nodes", up);
        fs::write(cluster.scratch.work().join("go"), "").expect("written");
        let ended = cluster.caller().until(job, "FAILED");
        assert_eq!((&ended["runs"], &ended["exit_code"]), (&1.into(), &3.into()), "{ended}");
        assert!((0..4).all(|rank| has_ended(&ended, rank)), "{ended}");
        for rank in 0..4 {
            let began = fs::read(cluster.scratch.work().join(format!("began-{rank}")));
            assert_eq!(began.expect("it began"), b"\n", "rank {rank} began once");
        }
        cluster.caller().until_idle(2);
        cluster.end();
    }
}
