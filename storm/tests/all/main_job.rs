//! The main job: `storm submit -n 256 ./sweep3d` without a cluster, on the embedded one (paper,
//! sections 3 and 4.3). The program checks its own answer. Benchmarks measure the cost.

use crate::scratch::{Scratch, stderr, stdout, sweep3d, told};
use std::path::Path;
use std::process::Output;

fn submit(scratch: &Scratch, options: &str, arguments: &str) -> Output {
    let mut command = scratch.storm(["submit"]);
    command.args(options.split_whitespace()).arg(sweep3d()).args(arguments.split_whitespace());
    command.output().expect("storm starts")
}

fn assert_right(done: &Output) {
    assert!(done.status.success(), "{}", told(done));
    assert!(stdout(done).contains("answer: OK"), "{}", told(done));
}

#[test]
fn the_main_job_under_gang_scheduling() {
    let scratch = Scratch::make();
    let done = submit(&scratch, "-n 256 --sched gang", "");
    assert_right(&done);
    let said = stderr(&done);
    assert!(said.contains("embedded cluster of 64 nodes x 4 PEs"), "{said}");
    assert!(said.contains("256 processes launched"), "{said}");
    for column in ["read", "send", "write", "exec", "wait for slice"] {
        assert!(said.contains(column), "no {column} in the breakdown: {said}");
    }
    scratch.assert_nothing_runs();
}

#[test]
fn the_main_job_first_come_first_served() {
    let scratch = Scratch::make();
    assert_right(&submit(&scratch, "-n 256 --sched fcfs", ""));
    scratch.assert_nothing_runs();
}

#[test]
fn a_small_one_is_what_one_process_computes_bit_for_bit() {
    let scratch = Scratch::make();
    let done = submit(&scratch, "-n 6 --nodes 3 --pes 2", "--verify --grid 12x10x8");
    assert_right(&done);
    assert!(stderr(&done).contains("on n[1-3]"), "{}", told(&done));
}

#[test]
fn an_embedded_cluster_leaves_nothing_behind() {
    let scratch = Scratch::make();
    let mut command =
        scratch.storm(["submit", "-n", "4", "--nodes", "2", "--pes", "2", "sh", "-c"]);
    let done = command.arg("echo $STORM_JOB_DIR").output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let directories = stdout(&done);
    assert_eq!(directories.lines().count(), 4, "{}", told(&done));
    for directory in directories.lines() {
        let cluster = Path::new(directory)
            .ancestors()
            .find(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with("storm-"))
            })
            .unwrap_or_else(|| panic!("{directory} is not in a cluster's directory"));
        assert!(!cluster.exists(), "{} is left", cluster.display());
    }
    scratch.assert_nothing_runs();
}

#[test]
fn a_policy_that_there_is_not_is_refused_with_those_that_there_are() {
    let scratch = Scratch::make();
    let done = submit(&scratch, "-n 2 --sched nosuch", "");
    assert_eq!(done.status.code(), Some(2), "{}", told(&done));
    let said = stderr(&done);
    assert!(said.contains("nosuch") && said.contains("gang"), "{said}");
    scratch.assert_nothing_runs();
}
