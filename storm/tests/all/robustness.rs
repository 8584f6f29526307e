//! Programs that crash, cannot be executed, are strange, or are too many. Each has a clear outcome,
//! and nothing is left. Faults of nodes and of the manager are tested elsewhere.

use crate::scratch::{Scratch, stderr, stdout, told};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Number of jobs in the long queue.
const MANY_JOBS: usize = 1000;
/// Clients that submit at the same time.
const CLIENTS: usize = 4;
/// Size of the large program.
const LARGE_BYTES: u64 = 1 << 30;
/// More memory than any daemon needs, and a sixteenth of the large program.
const DAEMON_KIB: u64 = 64 << 10;
/// Offset of the machine's number in an ELF header, and AArch64's number.
const E_MACHINE: (u64, [u8; 2]) = (18, [183, 0]);

/// A kept cluster of 2 nodes with 2 processing elements each.
fn cluster() -> Scratch {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 2 --sched fcfs");
    scratch
}

fn run(scratch: &Scratch, options: &[&str], program: &[&str]) -> Output {
    let mut command = scratch.storm(["run"]);
    command.args(options).args(program).output().expect("storm starts")
}

/// Checks the exit status, and that standard error has all of these texts.
fn ends(done: &Output, status: i32, texts: &[&str]) {
    assert_eq!(done.status.code(), Some(status), "{}", told(done));
    let said = stderr(done);
    for text in texts {
        assert!(said.contains(text), "no {text:?} in {said}");
    }
}

fn executable(path: PathBuf, content: &[u8]) -> PathBuf {
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is text")
}

#[test]
fn a_rank_that_crashes_ends_the_job_and_says_which_it_was() {
    let scratch = cluster();
    let script = "test $STORM_RANK = 2 && kill -SEGV $$; exec sleep 600";
    let done = run(&scratch, &["-n", "4"], &["sh", "-c", script]);
    ends(&done, 139, &["rank 2", "signal 11"]);
    assert_eq!(scratch.json("hist 1")[0]["state"], "FAILED");
    let alive = scratch.processes();
    assert!(!alive.iter().any(|line| line.contains("sleep")), "{alive:?}");
}

#[test]
fn a_program_that_cannot_be_executed_is_reported_with_the_reason() {
    let scratch = cluster();
    let path = |name: &str| scratch.work().join(name);
    let foreign = executable(path("foreign"), &fs::read("/bin/true").expect("it is there"));
    let mut header = OpenOptions::new().write(true).open(&foreign).expect("ours");
    header.seek(SeekFrom::Start(E_MACHINE.0)).expect("a file");
    header.write_all(&E_MACHINE.1).expect("written");
    drop(header);
    ends(&run(&scratch, &[], &["./foreign"]), 126, &["cannot execute", "Exec format error"]);
    executable(path("data"), b"\x9c\x03\xe1z (no NUL, and no text)");
    ends(&run(&scratch, &[], &["./data"]), 126, &["cannot execute", "Exec format error"]);
    executable(path("plain"), b"echo a script that names no interpreter\n");
    ends(&run(&scratch, &[], &["./plain"]), 0, &[]);
    executable(path("script"), b"#!/no/such/interpreter\n");
    ends(&run(&scratch, &[], &["./script"]), 127, &["script, as /no/such/interpreter is not on"]);
    executable(path("empty"), b"");
    ends(&run(&scratch, &[], &["./empty"]), 126, &["empty"]);
    fs::create_dir(path("directory")).expect("made");
    ends(&run(&scratch, &[], &["./directory"]), 126, &["is a directory"]);
    fs::write(path("text"), "hello").expect("written");
    ends(&run(&scratch, &[], &["./text"]), 126, &["is not executable", "chmod +x"]);
    // Errors that only the nodes can find.
    let there = |name: &str| path(name).display().to_string();
    let nodes = |name: &str| run(&scratch, &["--no-bcast"], &[&there(name)]);
    ends(&nodes("nothing"), 127, &["n1", "No such file"]);
    ends(&nodes("text"), 126, &["n1", "Permission denied"]);
    ends(&nodes("directory"), 126, &["n1", "Permission denied"]);
    assert_eq!(stdout(&run(&scratch, &[], &["/bin/echo", "still here"])), "still here\n");
}

#[test]
fn a_barrier_that_a_rank_will_never_reach_ends_the_job() {
    let scratch = cluster();
    let script = "ask() { echo \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; }
                  ask 'cmd=init pmi_version=1 pmi_subversion=1'
                  test $STORM_RANK = 0 || exit 0
                  ask cmd=barrier_in";
    // On one node its own manager notices; on two the Machine Manager does.
    for nodes in ["1", "2"] {
        let done = run(&scratch, &["-n", "2", "-N", nodes], &["bash", "-c", script]);
        ends(&done, 1, &["rank 1", "without MPI_Finalize"]);
    }
}

#[test]
fn a_path_with_spaces_is_a_path() {
    let scratch = cluster();
    let directory = scratch.work().join("a directory");
    fs::create_dir(&directory).expect("made");
    let program = executable(directory.join("my program"), b"#!/bin/sh\necho \"$0|$1\"\n");
    let done = run(&scratch, &[], &[text(&program), "an argument"]);
    assert!(done.status.success(), "{}", told(&done));
    assert!(stdout(&done).ends_with("/my program|an argument\n"), "{}", told(&done));
    let done = run(&scratch, &["--no-bcast"], &[text(&program), "there"]);
    assert_eq!(stdout(&done), format!("{}|there\n", program.display()), "{}", told(&done));
    let data = directory.join("some data");
    fs::write(&data, "shipped").expect("written");
    let options = ["--bcast", text(&data)];
    let done = run(&scratch, &options, &["sh", "-c", "cat \"$STORM_JOB_DIR/some data\""]);
    assert_eq!(stdout(&done), "shipped", "{}", told(&done));
}

#[test]
fn more_processes_than_the_machine_has_room_for_are_refused() {
    let scratch = cluster();
    ends(&run(&scratch, &["-n", "5"], &["true"]), 1, &["at most 4"]);
    ends(&run(&scratch, &["-n", "4294967295"], &["true"]), 1, &["at most 4"]);
    ends(&run(&scratch, &["-N", "3"], &["true"]), 1, &["2"]);
    assert_eq!(scratch.json("queue").as_array().map(Vec::len), Some(0));
}

#[test]
fn a_program_of_a_gibibyte_is_sent_and_runs() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 1 --pes 1");
    let script = b"#!/bin/sh\nwc -c < \"$0\"\ntail -c 4 \"$0\"\nexit\n";
    let program = executable(scratch.work().join("large"), script);
    let mut file = OpenOptions::new().write(true).open(&program).expect("ours");
    file.seek(SeekFrom::Start(LARGE_BYTES - 4)).expect("a file");
    file.write_all(b"end\n").expect("it is sparse here");
    drop(file);
    let done = run(&scratch, &[], &["./large"]);
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(stdout(&done), format!("{LARGE_BYTES}\nend\n"));
    let peaks = scratch.peak_memory_kib();
    assert!(peaks.len() >= 3, "a manager, a node and its keeper: {peaks:?}");
    assert!(peaks.iter().all(|(kib, _)| *kib < DAEMON_KIB), "it is kept in memory: {peaks:?}");
}

#[test]
fn a_thousand_jobs_wait_and_each_is_run() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 1 --pes 1 --sched fcfs");
    let first = scratch.prints("submit -q --no-bcast /bin/sleep 600");
    let submit = || {
        for _ in 0..MANY_JOBS / CLIENTS {
            scratch.prints("submit -q --output /dev/null --no-bcast /bin/true");
        }
    };
    std::thread::scope(|clients| {
        for _ in 0..CLIENTS {
            clients.spawn(submit);
        }
    });
    let queue = scratch.json("queue");
    assert_eq!(queue.as_array().map(Vec::len), Some(MANY_JOBS + 1));
    scratch.prints(&format!("cancel {}", first.trim()));
    let completed = |jobs: &serde_json::Value| {
        let jobs = jobs.as_array().map_or(&[][..], Vec::as_slice);
        jobs.iter().filter(|job| job["state"] == "COMPLETED").count()
    };
    scratch.wait_for("queue", |queue| queue.as_array()?.is_empty().then_some(()));
    let ended = scratch.json(&format!("hist -n {}", MANY_JOBS + 1));
    assert_eq!(completed(&ended), MANY_JOBS);
    scratch.prints("down");
    scratch.assert_nothing_runs();
}
