//! Full disks. A node that cannot store a job's files reports it; a manager ends, and its jobs
//! continue.

use crate::scratch::hosts::skipped;
use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// More than the disk holds.
const PROGRAM_BYTES: usize = 8 << 20;

/// More than the free space next to a journal.
const FREE_BYTES: usize = 4 << 20;
/// Makes the journal grow quickly.
const ENVIRONMENT_BYTES: usize = 100_000;
/// Many times as many as a journal of 2 MiB can hold.
const MAX_SUBMITS: usize = 200;

/// A file system of 2 MiB in memory, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir(at).expect("made");
        let none = None::<&str>;
        mount(none, at, Some("tmpfs"), MsFlags::empty(), Some("size=2m,mode=711"))
            .is_ok()
            .then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_on_one_node_is_told_and_its_node_runs_what_fits() {
    let mut cluster = RealCluster::without_nodes(2, "");
    let Some(disk) = SmallDisk::mount(&cluster.scratch.work().join("disk")) else {
        return skipped("a full disk on one node", "a file system cannot be mounted: be root");
    };
    cluster.start_node(1);
    let dir = disk.0.join("n2").display().to_string();
    let words = format!("{} --config storm.toml --work-dir {dir}", cluster.node_words(2));
    cluster.start_node_as(2, &words);
    cluster.caller().until_idle(2);
    let program = cluster.scratch.work().join("large");
    let mut content = b"#!/bin/sh\necho ran\nexit\n".to_vec();
    content.resize(PROGRAM_BYTES, b'#');
    fs::write(&program, content).expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("ours");
    let run = |options: &str, program: &str| {
        let caller = cluster.caller();
        caller.storm(&format!("run {options}")).arg(program).output().expect("storm starts")
    };
    let refused = run("-n 2 -N 2", "./large");
    assert!(!refused.status.success(), "{}", told(&refused));
    let said = stderr(&refused);
    assert!(said.contains("n2") && said.contains("does not fit the file system"), "{said}");
    // The other node has room for the file, and this one for smaller files.
    assert_eq!(stdout(&run("-n 2 -N 1", "./large")), "ran\nran\n");
    fs::write(&program, "#!/bin/sh\necho ran\n").expect("written");
    let done = run("-n 2 -N 2", "./large");
    assert_eq!(stdout(&done), "ran\nran\n", "{}", told(&done));
    cluster.end();
    assert!(!disk.0.join("n2").exists(), "files are left");
}

/// Ranks that share a file do not see the error themselves, so the job ends.
#[test]
fn a_job_whose_ranks_share_a_file_on_a_full_disk_ends_with_that_reason() {
    let cluster = RealCluster::start(1, "");
    let Some(disk) = SmallDisk::mount(&cluster.scratch.work().join("disk")) else {
        return skipped("a full disk of output", "a file system cannot be mounted: be root");
    };
    let file = disk.0.join("out").display().to_string();
    let script = "while :; do echo it goes on and on; done";
    let options = format!("-n 2 --no-bcast -o {file}");
    let job = cluster.caller().submit(&options, &["/bin/sh", "-c", script]).expect("a manager");
    let ended = cluster.caller().until(job, "FAILED");
    let reason = ended["reason"].to_string();
    assert!(reason.contains(&format!("cannot write its output file {file}")), "{ended}");
    assert!(reason.contains("No space left on device"), "{ended}");
    let written = fs::read(&file).expect("the file has what fits").len();
    assert!(written > FREE_BYTES / 4, "{written}");
    cluster.end();
}

/// If the manager ended here, a user's programs could end it for all users.
#[test]
fn programs_that_would_fill_the_disk_of_the_journal_are_refused() {
    let mut cluster = RealCluster::without_manager(1, "");
    let work = cluster.scratch.work().to_owned();
    let Some(_disk) = SmallDisk::mount(&work.join("state")) else {
        return skipped("a disk of the manager", "a file system cannot be mounted: be root");
    };
    cluster.start_manager();
    cluster.start_node(1);
    cluster.caller().until_idle(1);
    fs::write(work.join("large"), vec![b'#'; FREE_BYTES]).expect("written");
    fs::set_permissions(work.join("large"), Permissions::from_mode(0o755)).expect("ours");
    let refused = cluster.caller().storm("submit -q ./large").output().expect("storm starts");
    assert!(!refused.status.success(), "{}", told(&refused));
    assert!(stderr(&refused).contains("no room for a file"), "{}", told(&refused));
    let done = cluster.caller().storm("run --no-bcast true").output().expect("storm starts");
    assert!(done.status.success(), "the manager lives: {}", told(&done));
    cluster.end();
}

/// Regression: the nodes were ordered to leave with all jobs, and the next manager did not find
/// them.
#[test]
fn jobs_go_on_when_the_disk_of_the_journal_is_full_and_the_next_manager_finds_them() {
    let mut cluster = RealCluster::without_manager(2, "");
    let work = cluster.scratch.work().to_owned();
    let Some(disk) = SmallDisk::mount(&work.join("state")) else {
        return skipped("a full disk of the manager", "a file system cannot be mounted: be root");
    };
    cluster.start_manager();
    cluster.start_node(1);
    cluster.start_node(2);
    cluster.caller().until_idle(2);
    let mut followed = cluster.caller().storm("run -n 2 -N 2 --no-bcast /bin/sh -c");
    followed.arg("echo early; while [ ! -e go ]; do sleep 0.02; done; exit 3");
    followed.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut followed = followed.spawn().expect("storm starts");
    let mut early = [0; 12];
    followed.stdout.as_mut().expect("piped").read_exact(&mut early).expect("it writes");

    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; FREE_BYTES]).expect_err("there is less room");
    let submits = |_| {
        let mut command = cluster.caller().storm("submit -q --no-bcast true");
        command.env("BALLAST", "x".repeat(ENVIRONMENT_BYTES)).output().expect("storm starts")
    };
    let refused = (0..MAX_SUBMITS).map(submits).find(|done| !done.status.success());
    let refused = refused.expect("the journal cannot grow for ever");
    let said = stderr(&refused);
    assert!(said.contains("closed the connection"), "{said}");
    assert_eq!(cluster.manager_has_ended().code(), Some(1));
    let log = cluster.log("mm");
    assert!(log.contains("No space left on device"), "the cause: {log}");
    assert!(log.contains("`state-dir`"), "what to do: {log}");

    fs::remove_file(ballast).expect("removed");
    cluster.start_manager();
    let found = cluster.caller().until(1, "RUNNING");
    assert_eq!(found["runs"], 1, "{found}");
    fs::write(work.join("go"), "").expect("written");
    let done = followed.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(3), "{}", told(&done));
    assert!(stderr(&done).contains("the manager is back"), "{}", told(&done));
    cluster.end();
}
