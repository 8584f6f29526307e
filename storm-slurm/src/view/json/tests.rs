use super::*;
use crate::view::sinfo::SinfoLine;
use crate::view::{ArrayPlace, JobFacts, NodeFacts, PartitionFacts, StateCode, Tasks};
use jiff::tz::TimeZone;
use std::rc::Rc;

fn show() -> Show {
    Show::new(TimeZone::UTC, Timestamp::UNIX_EPOCH, "lab")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_job_has_the_fields_of_slurms_specification() {
    let at = Timestamp::from_second(1_000).expect("a time");
    let job = JobFacts {
        name: "a\"b".to_owned(),
        state: StateCode::Running,
        node_list: "n[1-2]".to_owned(),
        nodes: 2,
        time_limit_s: Some(90),
        start: Some(at),
        array: Some(ArrayPlace { job: 6, tasks: Tasks::One(3), limit: None }),
        ..JobFacts::submitted(7, at)
    };
    let asked = Asked { command: vec!["squeue".to_owned()], ..Asked::default() };
    let document = parsed(&queued(&[job], &asked, &show()));
    let job = &document["jobs"][0];
    assert_eq!(job["job_state"], json!(["RUNNING"]));
    assert_eq!(job["name"], "a\"b");
    assert_eq!(job["time_limit"], json!({ "set": true, "infinite": false, "number": 2 }));
    assert_eq!(job["array_task_id"]["number"], 3);
    assert_eq!(job["start_time"]["number"], 1_000);
    assert_eq!(job["end_time"]["number"], 1_090);
    assert_eq!(job["job_resources"]["nodes"]["allocation"][1]["name"], "n2");
    assert_eq!(job["exit_code"]["status"], json!(["SUCCESS"]));
    assert_eq!(document["meta"]["slurm"]["version"]["major"], "25");
    assert_eq!(document["errors"], json!([]));
}

#[test]
fn no_limit_is_infinite_and_a_signal_is_named() {
    let job = JobFacts {
        exit: ExitCode { code: 0, signal: 9 },
        ..JobFacts::submitted(7, Timestamp::UNIX_EPOCH)
    };
    let used = None;
    let jobs = [account::Accounted { job, used, steps: Vec::new() }];
    let document = parsed(&accounted(&jobs, &Asked::default(), &show()));
    let job = &document["jobs"][0];
    assert_eq!(job["time"]["limit"], json!({ "set": false, "infinite": true, "number": 0 }));
    assert_eq!(job["exit_code"]["signal"]["name"], "KILL");
    assert_eq!(job["exit_code"]["status"], json!(["SIGNALED"]));
    assert_eq!(job["state"]["current"], json!(["PENDING"]));
    assert_eq!(job["required"]["CPUs"], 1);
}

#[test]
fn nodes_are_counted_by_what_they_do() {
    let partition = PartitionFacts {
        name: "main".to_owned(),
        default: true,
        up: true,
        node_list: "n[1-3]".to_owned(),
        nodes: 3,
        cpus: 6,
        memory_mib: None,
        max_time_s: None,
        default_time_s: None,
        job_nodes: (1, None),
        rows: 1,
        slices: false,
        accounts: Vec::new(),
        groups: Vec::new(),
    };
    let node = |name: &str, base, drained| {
        Rc::new(NodeFacts { base, drained, cpus: 2, ..NodeFacts::named(name) })
    };
    let nodes = vec![
        node("n1", crate::view::NodeBase::Allocated, false),
        node("n2", crate::view::NodeBase::Idle, false),
        node("n3", crate::view::NodeBase::Idle, true),
    ];
    let line = SinfoLine { partition: Rc::new(partition), place: 0, nodes };
    let document = parsed(&grouped(&[line], &Asked::default(), &show()));
    let line = &document["sinfo"][0];
    let counts = ["allocated", "idle", "other", "total"].map(|name| line["nodes"][name].clone());
    assert_eq!(counts, [json!(1), json!(1), json!(1), json!(3)]);
    assert_eq!(line["node"]["state"], json!(["ALLOCATED"]));
    assert_eq!(line["partition"]["name"], "main");
}
