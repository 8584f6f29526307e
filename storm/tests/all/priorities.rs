//! Priorities on a cluster of real daemons: jobs start in the order that `storm priority` shows.

use crate::scratch::real_cluster::RealCluster;
use std::fs;

fn settings(sched: &str) -> String {
    format!(
        "[[partitions]]\nname = \"all\"\nnodes = \"n[1-2]\"\nsched = \"{sched}\"\n\
         [priority]\nqos = 10000\n\
         [[qos]]\nname = \"urgent\"\npriority = 100\n\
         [[qos]]\nname = \"patient\"\npriority = 10\n"
    )
}

/// Submits a job for all elements, whose first rank writes the job's name when it starts and then
/// waits for a file.
fn submit(cluster: &RealCluster, options: &str, name: &str) -> u64 {
    let script = format!(
        "[ $STORM_RANK != 0 ] || echo {name} >> order; until [ -e {name}.go ]; do sleep 0.02; done"
    );
    let options = format!("-n 4 --time 10 --no-bcast {options}");
    cluster.caller().submit(&options, &["/bin/sh", "-c", &script]).expect("it is taken")
}

#[test]
fn the_order_that_is_shown_is_that_in_which_jobs_start() {
    for sched in ["conservative", "backfill", "fcfs", "sjf"] {
        let cluster = RealCluster::start(2, &settings(sched));
        let first = submit(&cluster, "", "first");
        cluster.caller().until(first, "RUNNING");
        let patient = submit(&cluster, "--qos patient", "patient");
        let urgent = submit(&cluster, "--qos urgent", "urgent");
        let shown: serde_json::Value =
            serde_json::from_str(&cluster.says("priority --json")).expect("JSON");
        assert_eq!((&shown[0]["id"], &shown[1]["id"]), (&urgent.into(), &patient.into()));
        let says_so = cluster.says("priority").contains("among equal limits only");
        assert_eq!(says_so, sched == "sjf", "{sched}");
        for name in ["first", "urgent", "patient"] {
            fs::write(cluster.scratch.work().join(format!("{name}.go")), "").expect("written");
        }
        cluster.caller().until(patient, "COMPLETED");
        let order = fs::read_to_string(cluster.scratch.work().join("order")).expect("they ran");
        assert_eq!(order, "first\nurgent\npatient\n", "{sched}");
        cluster.end();
    }
}
