//! Reserved nodes on a cluster of real daemons whose manager is killed in between: the jobs that
//! get the nodes, the reasons of other jobs, and refused reservations.

use crate::scratch::real_cluster::RealCluster;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;

fn submit(cluster: &RealCluster, options: &str) -> u64 {
    let options = format!("--no-bcast {options}");
    cluster.caller().submit(&options, &["/bin/true"]).expect("it is taken")
}

/// The names and states of all reservations.
fn listed(cluster: &RealCluster) -> Vec<(String, bool)> {
    let all: Value = serde_json::from_str(&cluster.says("reservation list --json")).expect("JSON");
    let all = all.as_array().expect("a list");
    let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
    all.iter().map(|one| (name(one), one["active"] == true)).collect()
}

#[test]
fn reserved_nodes_are_for_the_jobs_of_the_reservation_until_it_is_deleted() {
    let mut cluster = RealCluster::start(2, "");
    let user = geteuid();
    cluster.says(&format!("reservation create --name now --duration 1h --nodes n1 --users {user}"));
    cluster.says("reservation create --name later --start now+2days --duration 2h --nodes n2");
    let both = vec![("now".to_owned(), true), ("later".to_owned(), false)];
    assert_eq!(listed(&cluster), both);
    // Both nodes are reserved, now or earlier than a job without a limit is sure to have ended.
    let foreign = submit(&cluster, "-n 1");
    let told = cluster.caller().until_because(foreign, "is reserved for");
    assert!(told["reason"].as_str().expect("text").contains("(ReqNodeNotAvail)"), "{told}");
    let waits = submit(&cluster, "-n 1 --reservation later");
    cluster.caller().until_because(waits, "its reservation later begins at");
    // The manager forgets no reservation.
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.caller().until_idle(2);
    assert_eq!(listed(&cluster), both);
    cluster.caller().until_because(foreign, "is reserved for");
    cluster.caller().until_because(waits, "its reservation later begins at");
    // Its jobs run on its nodes, and others where they end in time.
    let inside = submit(&cluster, "-n 2 --reservation now");
    assert_eq!(cluster.caller().until(inside, "COMPLETED")["node_list"], "n1");
    let harmless = submit(&cluster, "-n 1 --time 1");
    assert_eq!(cluster.caller().until(harmless, "COMPLETED")["node_list"], "n2");
    let shown = cluster.says("reservation show later");
    assert!(shown.contains("INACTIVE") && shown.contains("n2"), "{shown}");
    assert_eq!(cluster.says("reservation delete now"), "Deleted now\n");
    cluster.caller().until(foreign, "COMPLETED");
    cluster.says("reservation delete later");
    // A job whose reservation is gone becomes an ordinary job.
    cluster.caller().until(waits, "COMPLETED");
    assert_eq!(listed(&cluster), []);
    cluster.end();
}

#[test]
fn a_reservation_is_seen_at_its_nodes_and_named_beside_the_job_that_is_in_the_way() {
    let partition = "[[partitions]]\nname = \"all\"\nnodes = \"n[1-2]\"\nsched = \"backfill\"\n";
    let cluster = RealCluster::start(2, partition);
    let wait = ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.02; done"];
    let running = cluster.caller().submit("-n 4 --time 10 --no-bcast", &wait).expect("taken");
    cluster.caller().until(running, "RUNNING");
    cluster.says("reservation create --name demo --duration 1h --nodes n2");
    let waits = submit(&cluster, "-n 4 --time 2:00:00");
    cluster.caller().until(waits, "PENDING");
    let text = cluster.says(&format!("explain {waits}"));
    assert!(text.contains("; and n2 is reserved for demo from"), "{text}");
    assert!(text.contains(&format!("job {running} holds 4 PEs")), "{text}");
    let json: Value =
        serde_json::from_str(&cluster.says(&format!("explain {waits} --json"))).expect("JSON");
    assert_eq!(json["reserved"][0]["reservation"], "demo", "{json}");
    assert_eq!(json["reserved"][0]["node_list"], "n2", "{json}");
    let nodes = || -> Value { serde_json::from_str(&cluster.says("nodes --json")).expect("JSON") };
    let (busy, node) = (nodes(), |all: &Value, name: &str| {
        let all = all.as_array().expect("a list").clone();
        all.into_iter().find(|node| node["name"] == name).expect("it is there")
    });
    assert_eq!(node(&busy, "n2")["state"], "ALLOCATED");
    assert_eq!(node(&busy, "n2")["reservation"], "demo");
    cluster.says(&format!("cancel {waits}"));
    std::fs::write(cluster.scratch.work().join("go"), "").expect("written");
    cluster.caller().until(running, "COMPLETED");
    let idle = nodes();
    assert_eq!(
        (&node(&idle, "n1")["state"], &node(&idle, "n2")["state"]),
        (&"IDLE".into(), &"RESERVED".into())
    );
    let table = cluster.says("nodes");
    assert!(table.contains("RESERVED") && table.contains("reserved for demo"), "{table}");
    cluster.says("reservation delete demo");
    cluster.end();
}

#[test]
fn impossible_reservations_are_refused_with_the_reason() {
    let cluster = RealCluster::start(2, "");
    let create = "reservation create --name demo --duration 1h";
    cluster.says(&format!("{create} -N 1 --users nobody-else"));
    let day = "--start 2020-01-01";
    for (words, reason) in [
        (format!("{create} -N 1"), "there is a reservation \"demo\" already"),
        ("reservation create --name past --duration 1h -N 1 ".to_owned() + day, "cannot begin at"),
        ("reservation create --name more --duration 1h -N 2".to_owned(), "cannot be reserved"),
        ("reservation create --name more --duration 1h --nodes n1".to_owned(), "n1 is reserved"),
        ("reservation create --name more --duration 1h --nodes n7".to_owned(), "no node n7"),
        ("reservation create --name more --duration 1h".to_owned(), "--nodes"),
        ("reservation delete none".to_owned(), "there are: demo"),
        ("reservation show none".to_owned(), "there are: demo"),
        ("submit --reservation none --no-bcast /bin/true".to_owned(), "no reservation \"none\""),
        ("submit --reservation demo --no-bcast /bin/true".to_owned(), "may not use reservation"),
    ] {
        let told = cluster.refused(&words);
        assert!(told.contains(reason), "storm {words}: {told}");
    }
    cluster.says("reservation delete demo");
    cluster.says("reservation create --name demo --duration 1h -n 2");
    for (options, reason) in [("-n 3", "on its nodes alone"), ("-n 1 --time 2:00:00", "time limit")]
    {
        let told =
            cluster.refused(&format!("submit --reservation demo {options} --no-bcast /bin/true"));
        assert!(told.contains(reason), "{options}: {told}");
    }
    cluster.end();
}
