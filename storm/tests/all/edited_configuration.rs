//! A manager that restarts with an edited configuration, or with a missing part of its environment:
//! the waiting jobs are there, with the reason why they wait.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{Scratch, stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user that every Debian has, and its group. Not `nobody`, which systemd knows without a file.
const USER: (&str, u32) = ("daemon", 1);

fn restart(cluster: &mut RealCluster) {
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
}

/// How often all incarnations of the manager together have logged a text.
fn logged(cluster: &RealCluster, text: &str) -> usize {
    cluster.log("mm").lines().filter(|line| line.contains(text)).count()
}

/// The configuration with a single partition of this name and policy.
fn with_partition(cluster: &RealCluster, name: &str, settings: &str) {
    let partition = format!("[[partitions]]\nname = \"{name}\"\n{settings}\n\n[[nodes]]");
    cluster.edit("[[nodes]]", &partition);
}

fn start(nodes: u32, name: &str, settings: &str) -> RealCluster {
    let mut cluster = RealCluster::without_manager(nodes, "");
    with_partition(&cluster, name, settings);
    cluster.start_manager();
    cluster
}

fn submit(cluster: &RealCluster, options: &str) -> u64 {
    let options = format!("--no-bcast -o /dev/null {options}");
    cluster.caller().submit(&options, &["/bin/true"]).expect("it is taken")
}

fn view(cluster: &RealCluster, words: &str) -> Value {
    cluster.caller().wait_for(words, |shown| Some(shown.clone()))
}

#[test]
fn jobs_of_a_partition_that_was_renamed_wait_and_history_keeps_its_columns() {
    let mut cluster = start(1, "short", "sched = \"fcfs\"");
    cluster.start_node(1);
    let ended = submit(&cluster, "");
    let before = cluster.caller().until(ended, "COMPLETED");
    cluster.end_node(1, Signal::SIGTERM);
    let waiting: Vec<u64> = (0..3).map(|_| submit(&cluster, "")).collect();
    cluster.edit("\"short\"", "\"shrt\"");
    restart(&mut cluster);
    for job in &waiting {
        let job = cluster.caller().until_because(*job, "partition short is not in the configur");
        assert_eq!((&job["state"], &job["sched"]), (&"PENDING".into(), &"fcfs".into()), "{job}");
    }
    let warning = "jobs wait for a partition that is not configured";
    assert_eq!(logged(&cluster, warning), 1, "{}", cluster.log("mm"));
    assert_eq!(logged(&cluster, "partition=short jobs=3"), 1, "{}", cluster.log("mm"));
    let listed = cluster.says("queue");
    assert_eq!(listed.matches("partition short is not in the conf").count(), 3, "{listed}");
    let explained = cluster.says(&format!("explain {}", waiting[0]));
    assert!(explained.contains("(PartitionConfig)"), "{explained}");
    assert!(cluster.refused("submit -p short --no-bcast /bin/true").contains("no partition"));
    let after = view(&cluster, &format!("show {ended}"));
    for column in ["partition", "sched", "node_list", "exit_code", "ran_s", "elapsed_s"] {
        assert_eq!(after[column], before[column], "{column}");
    }
    assert!(cluster.says("hist").contains("short"));
    cluster.caller().cancel(waiting[2]);
    cluster.caller().until(waiting[2], "CANCELLED");
    cluster.edit("\"shrt\"", "\"short\"");
    restart(&mut cluster);
    cluster.start_node(1);
    for job in &waiting[..2] {
        let job = cluster.caller().until(*job, "COMPLETED");
        assert_eq!((&job["runs"], &job["partition"]), (&1.into(), &"short".into()), "{job}");
    }
    cluster.end();
}

#[test]
fn a_job_that_no_node_can_run_after_an_edit_waits_and_so_does_one_whose_program_is_gone() {
    let mut cluster = RealCluster::without_manager(2, "");
    cluster.edit("pes = 2", "pes = 2\nfeatures = [\"gpu\"]");
    cluster.start_manager();
    let [picky, large] = ["-C gpu", "-n 4"].map(|asked| submit(&cluster, asked));
    let program = cluster.scratch.work().join("own");
    fs::copy("/bin/true", &program).expect("copied");
    let sent = cluster.caller().submit("-o /dev/null", &["./own"]).expect("it is taken");
    cluster.edit("features = [\"gpu\"]", "features = []");
    cluster.edit("n[1-2]", "n1");
    cluster.end_manager(Signal::SIGKILL);
    fs::remove_dir_all(cluster.scratch.work().join("state/spool")).expect("it was there");
    cluster.start_manager();
    cluster.caller().until_because(picky, "no node of the partition has feature gpu");
    cluster.caller().until_because(large, "4 processes were asked for, and the partition has 2");
    cluster.caller().until_because(sent, "not in the manager's spool any more");
    // A new job of this kind is refused at once.
    assert!(cluster.refused("submit -n 4 --no-bcast /bin/true").contains("can never run"));
    // The same program is sent once more, and both jobs run.
    let again = cluster.caller().submit("-o /dev/null", &["./own"]).expect("it is taken");
    cluster.start_node(1);
    for job in [sent, again] {
        cluster.caller().until(job, "COMPLETED");
    }
    cluster.edit("\"n1\"", "\"n[1-2]\"");
    cluster.edit("features = []", "features = [\"gpu\"]");
    restart(&mut cluster);
    cluster.start_node(2);
    for job in [picky, large] {
        cluster.caller().until(job, "COMPLETED");
    }
    cluster.end();
}

/// The manager in a mount namespace where the user database is this file.
fn with_passwd(scratch: &Scratch, passwd: &Path) -> Command {
    let mut command = scratch.command("unshare");
    let bind = format!("mount --bind {} /etc/passwd && exec \"$0\" \"$@\"", passwd.display());
    command.args(["--mount", "--propagation", "private", "sh", "-c", &bind]);
    command.arg(crate::scratch::STORM).args(["mm", "--config", "storm.toml"]);
    command
}

#[test]
fn a_user_whom_the_host_does_not_know_costs_nobody_anything() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: a user database of a test's own needs root");
    }
    let (name, uid) = USER;
    let mut cluster = RealCluster::without_manager(1, &format!("admins = [\"{name}\", \"gone\"]"));
    let account = format!("[[accounts]]\nname = \"mine\"\nusers = [\"{name}\"]\n\n[[nodes]]");
    cluster.edit("[[nodes]]", &account);
    let work = cluster.scratch.work().to_owned();
    fs::set_permissions(&work, Permissions::from_mode(0o755)).expect("ours");
    let whole = fs::read_to_string("/etc/passwd").expect("any Debian has one");
    let without: String = whole
        .lines()
        .filter(|line| !line.starts_with("daemon:"))
        .map(|l| format!("{l}\n"))
        .collect();
    let passwd = work.join("passwd");
    fs::write(&passwd, &whole).expect("written");
    cluster.start_manager_by(with_passwd(&cluster.scratch, &passwd));
    let mut submitted = cluster.caller().storm("submit -q --no-bcast --chdir / -o /dev/null");
    let done = submitted.arg("/bin/true").uid(uid).gid(uid).output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let job: u64 = stdout(&done).trim().parse().expect("a number");
    cluster.end_manager(Signal::SIGKILL);
    fs::write(&passwd, &without).expect("written");
    cluster.start_manager_by(with_passwd(&cluster.scratch, &passwd));
    cluster.caller().until_because(job, "account mine is for daemon, and the manager's host");
    let log = cluster.log("mm");
    let told = |key: &str, name: &str| {
        log.lines().any(|line| {
            line.contains("this host knows no such user")
                && line.contains(&format!("key=\"{key}\" name=\"{name}\""))
                && line.contains("line=")
        })
    };
    assert!(told("accounts[0].users", name) && told("admins", name), "{log}");
    assert!(told("admins", "gone"), "{log}");
    // Other users are served meanwhile.
    cluster.start_node(1);
    let other = submit(&cluster, "");
    cluster.caller().until(other, "COMPLETED");
    // When the directory is back, it is asked again without further action.
    fs::write(&passwd, &whole).expect("written");
    cluster.caller().until(job, "COMPLETED");
    cluster.end();
}

#[test]
fn a_setting_at_run_time_is_marked_reset_and_overridden_by_an_edit() {
    let mut cluster = start(1, "main", "sched = \"gang\"\nquantum = \"20ms\"");
    cluster.says("partition set-quantum main 7ms");
    let listed = cluster.says("partition list");
    assert!(listed.contains("7 ms (set)") && !listed.contains("gang (set)"), "{listed}");
    restart(&mut cluster);
    let shown = cluster.says("partition show main");
    let told = "7 ms (set at work; configured: 20 ms; storm partition set-quantum main --reset)";
    assert!(shown.contains(told), "{shown}");
    assert_eq!(logged(&cluster, "its quantum was set at work"), 1, "{}", cluster.log("mm"));
    let reset = cluster.says("partition set-quantum main --reset");
    assert!(reset.contains("20 ms") && !reset.contains("set at work"), "{reset}");
    cluster.says("partition set-quantum main 7ms");
    cluster.says("partition set-sched main fcfs");
    let json = view(&cluster, "partition show main");
    assert_eq!((&json["sched"], &json["configured_sched"]), (&"fcfs".into(), &"gang".into()));
    cluster.edit("20ms", "30ms");
    restart(&mut cluster);
    assert_eq!(logged(&cluster, "quantum was edited in the configuration"), 1);
    let json = view(&cluster, "partition show main");
    assert_eq!((&json["sched"], &json["configured_sched"]), (&"fcfs".into(), &"gang".into()));
    let reset = cluster.says("partition set-sched main --reset");
    assert!(reset.contains("gang\n") && reset.contains("30 ms\n"), "{reset}");
    // A slice of an hour is noted with its effect.
    let long = cluster.says("partition set-quantum main 1h");
    assert!(long.contains("a slice lasts 3600 s") && long.contains("are stopped"), "{long}");
    let refusal = cluster.refused("partition set-quantum main");
    assert!(refusal.contains("--reset") || refusal.contains("TIME"), "{refusal}");
    cluster.end();
}

#[test]
fn a_second_manager_says_at_once_that_there_is_one() {
    let cluster = RealCluster::without_nodes(1, "");
    let done = cluster.scratch.does("mm --config storm.toml");
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    let said = stderr(&done);
    assert!(said.contains("another manager (process ") && said.contains("mm.sock"), "{said}");
    assert!(!said.contains("waiting"), "it did not wait: {said}");
    cluster.end();
}
