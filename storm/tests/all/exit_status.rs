//! The input and the results of a job: environment, input and files, output and exit status, and
//! its end by an interruption.

use crate::scratch::{Scratch, stderr, stdout, told};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

/// A kept cluster of 2 nodes with 2 processing elements each.
fn cluster() -> Scratch {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 2");
    scratch
}

/// Runs a shell command, with options.
fn shell(scratch: &Scratch, options: &str, script: &str) -> Output {
    let mut command = scratch.storm(["run"]);
    command.args(options.split_whitespace()).args(["sh", "-c", script]);
    command.output().expect("storm starts")
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("it can be written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_exit_status_is_the_jobs_highest() {
    let scratch = cluster();
    assert_eq!(scratch.does("run -n 4 true").status.code(), Some(0));
    assert_eq!(scratch.does("run false").status.code(), Some(1));
    let highest = shell(&scratch, "-n 3", "exit $STORM_RANK");
    assert_eq!(highest.status.code(), Some(2), "{}", told(&highest));
    let killed = shell(&scratch, "", "kill -9 $$");
    assert_eq!(killed.status.code(), Some(137), "{}", told(&killed));
    assert!(stderr(&killed).contains("signal 9"), "{}", told(&killed));
}

#[test]
fn a_program_that_cannot_run_is_reported_before_the_launch() {
    let scratch = cluster();
    let missing = scratch.does("run ./nosuchprogram");
    assert_eq!(missing.status.code(), Some(127), "{}", told(&missing));
    let missing = scratch.does("run nosuchprogram");
    assert_eq!(missing.status.code(), Some(127), "{}", told(&missing));
    let directory = scratch.does("run /tmp");
    assert_eq!(directory.status.code(), Some(126), "{}", told(&directory));
    let text = scratch.work().join("text");
    write(&text, "not a program", 0o644);
    let forbidden = scratch.does("run ./text");
    assert_eq!(forbidden.status.code(), Some(126), "{}", told(&forbidden));
    let large = scratch.does("run -n 5 true");
    assert_eq!(large.status.code(), Some(1), "{}", told(&large));
    let said = stderr(&large);
    assert!(said.contains("at most 4"), "{said}");
    assert_eq!(scratch.does("run --nosuchoption true").status.code(), Some(2));
}

/// Regression: for a wrong policy, a manager exited with 1 and not with the status of misuse.
#[test]
fn a_policy_that_there_is_not_is_wrong_use_of_a_manager_too() {
    let scratch = Scratch::make();
    let config = scratch.work().join("storm.toml");
    let nodes = "[[nodes]]\nnames = \"n1\"\npes = 1\n";
    let partitions = "[[partitions]]\nname = \"main\"\nsched = \"lottery\"\n";
    write(&config, &format!("{nodes}{partitions}"), 0o644);
    let wrong = scratch.does("mm --config storm.toml");
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
    let said = stderr(&wrong);
    assert!(
        said.contains("storm.toml, line 6, cannot be used") && said.contains("lottery"),
        "{said}"
    );
    let none = scratch.does("mm --config none.toml");
    assert_eq!(none.status.code(), Some(1), "{}", told(&none));
}

#[test]
fn a_rank_knows_its_place() {
    let scratch = cluster();
    let script = "echo $STORM_RANK $STORM_SIZE $STORM_LOCAL_RANK $STORM_NODE_ID $STORM_NODELIST \
                  $STORM_JOB_ID";
    let done = shell(&scratch, "-n 4", script);
    assert!(done.status.success(), "{}", told(&done));
    let said = stdout(&done);
    let expected = ["0 4 0 1 n[1-2] 1", "1 4 1 1 n[1-2] 1", "2 4 0 2 n[1-2] 1", "3 4 1 2 n[1-2] 1"];
    assert_eq!(sorted(&said), expected);
}

#[test]
fn output_is_labelled_or_goes_to_files() {
    let scratch = cluster();
    let labelled = shell(&scratch, "-n 3 --label", "echo from $STORM_RANK");
    assert!(labelled.status.success(), "{}", told(&labelled));
    assert_eq!(sorted(&stdout(&labelled)), ["0: from 0", "1: from 1", "2: from 2"]);
    let written = shell(&scratch, "-n 3 --output out-%j-%r.txt", "echo from $STORM_RANK");
    assert!(written.status.success(), "{}", told(&written));
    assert_eq!(stdout(&written), "");
    for rank in 0..3 {
        let file = scratch.work().join(format!("out-2-{rank}.txt"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        assert_eq!(text, format!("from {rank}\n"));
    }
}

#[test]
fn scripts_and_files_come_along() {
    let scratch = cluster();
    write(&scratch.work().join("script"), "#!/bin/sh\necho \"script: $1\"\n", 0o755);
    assert_eq!(scratch.prints("run -n 2 ./script word"), "script: word\nscript: word\n");
    write(&scratch.work().join("data"), "shipped\n", 0o644);
    let mut command = scratch.storm(["run", "-n", "2", "--bcast", "data", "sh", "-c"]);
    let done = command.arg("cat $STORM_JOB_DIR/data").output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(stdout(&done), "shipped\nshipped\n");
    let there = scratch.prints("run --no-bcast /bin/echo there");
    assert_eq!(there, "there\n");
    let job = scratch.json("show 3");
    assert_eq!(job["spec"]["shipped"], false, "{job}");
}

#[test]
fn standard_input_goes_to_rank_zero_or_to_all() {
    let scratch = cluster();
    for (options, expected) in [("", "hi\n"), ("--input all", "hi\nhi\n")] {
        let mut command = scratch.storm(["run", "-n", "2"]);
        command.args(options.split_whitespace()).arg("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("storm starts");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"hi\n").expect("it is read");
        drop(input);
        let done = child.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}", told(&done));
        assert_eq!(stdout(&done), expected, "with {options:?}: {}", told(&done));
    }
}

#[test]
fn an_interrupt_cancels_the_job() {
    let scratch = cluster();
    let mut command = scratch.storm(["run", "-n", "2", "sh", "-c"]);
    command.arg("echo ready; exec sleep 600").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("storm starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().expect("both say it").expect("it is text"), "ready");
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"));
    kill(pid, Signal::SIGINT).expect("it lives");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(130), "{}", told(&done));
    let ended = scratch.json("hist 1");
    assert_eq!(ended[0]["state"], "CANCELLED", "{ended}");
    let of_job = format!("exit status {}", ended[0]["exit_code"]);
    assert!(stderr(&done).contains(&of_job), "{of_job}: {}", told(&done));
    let alive = scratch.processes();
    assert!(!alive.iter().any(|line| line.contains("sleep")), "{alive:?}");
}

/// A standard output without room.
fn full() -> Stdio {
    fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there").into()
}

#[test]
fn a_job_whose_output_has_no_room_here_is_cancelled_and_one_that_was_submitted_is_named() {
    let scratch = cluster();
    let mut run = scratch.storm(["run", "yes"]);
    let done = run.stdout(full()).output().expect("storm starts");
    assert_eq!(done.status.code(), Some(125), "{}", told(&done));
    let said = stderr(&done);
    assert!(said.contains("the output of job 1") && said.contains("No space"), "{said}");
    assert_eq!(scratch.json("hist 1")[0]["state"], "CANCELLED");
    let mut submit = scratch.storm(["submit", "-e", "error.log", "sh", "-c", "echo oh >&2"]);
    let done = submit.stdout(full()).output().expect("storm starts");
    assert_eq!(done.status.code(), Some(125), "{}", told(&done));
    assert!(stderr(&done).contains("job 2 is submitted"), "{}", told(&done));
    scratch.prints("wait 2");
    let error = scratch.work().join("error.log");
    assert_eq!(fs::read_to_string(error).expect("it was written"), "oh\n");
    let refused = scratch.does("run -e error.log true");
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(stderr(&refused).contains("say --output, too"), "{}", told(&refused));
    let listed = scratch.storm(["queue"]).stdout(full()).output().expect("storm starts");
    assert!(stderr(&listed).contains("standard output"), "{}", told(&listed));
}
