//! Node Managers that end while jobs run, and their successors, which continue the jobs: real
//! daemons and processes (`docs/decisions/0130-a-node-managers-jobs-outlive-it.md`).

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{Scratch, mpi_program, stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Signals that end a Node Manager and leave its jobs running.
const ENDS: [Signal; 2] = [Signal::SIGKILL, Signal::SIGTERM];
/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done; exit 3";
/// Writes numbered lines, on both streams, until the file `go` is there.
const LINES: &str = "i=0; while [ ! -e go ] || [ $i -lt 500 ]; do i=$((i+1)); echo line $i; \
                     echo error $i >&2; done; echo $i > lines-$STORM_RANK";

/// Ranks that exchange messages until the file `go` exists.
const MPI_UNTIL_GO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum = 0, over = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (!over) {
        usleep(10000);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) over = access("go", F_OK) == 0;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("sum %d on %d\n", sum, size);
    MPI_Finalize();
    return 0;
}
"#;

fn end_node(cluster: &mut RealCluster, node: u32, signal: Signal) {
    match signal {
        Signal::SIGKILL => cluster.kill_node(node),
        signal => cluster.end_node(node, signal),
    }
}

fn go(cluster: &RealCluster) {
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
}

fn piped(mut command: Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("storm starts")
}

/// Checks that the job ran once, on the nodes where it began.
fn assert_ended(job: &Value, exit_code: u64) {
    assert_eq!((&job["exit_code"], &job["runs"]), (&exit_code.into(), &1.into()), "{job}");
}

/// Starts the next Node Manager and waits until its node has joined.
fn start_node(cluster: &mut RealCluster, node: u32) {
    cluster.start_node(node);
    cluster.caller().wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
}

/// Waits until the manager misses the node, on which its jobs continue.
fn until_away(cluster: &RealCluster, job: u64, node: u32) {
    cluster.caller().until_down(&format!("n{node}"));
    let why = cluster.caller().storm(&format!("explain {job}")).output().expect("storm starts");
    assert!(stdout(&why).contains("has ended: it waits for the next one"), "{}", told(&why));
}

#[test]
fn jobs_go_on_over_the_end_of_a_node_manager() {
    for signal in ENDS {
        job_goes_on(RealCluster::start(2, ""), signal);
    }
}

fn job_goes_on(mut cluster: RealCluster, signal: Signal) {
    let job =
        cluster.caller().submit("-n 2 -N 2", &["/bin/sh", "-c", UNTIL_GO]).expect("a manager");
    cluster.caller().until(job, "RUNNING");
    for node in [1, 2] {
        end_node(&mut cluster, node, signal);
        until_away(&cluster, job, node);
        start_node(&mut cluster, node);
    }
    assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 1);
    go(&cluster);
    assert_ended(&cluster.caller().until(job, "FAILED"), 3);
    cluster.caller().until_idle(2);
    cluster.end();
}

/// Regression: the Node Manager cleared the directory, including the file by which the keeper is
/// found.
#[test]
fn a_node_manager_of_another_cluster_leaves_jobs_to_their_own() {
    let mut cluster = RealCluster::start(1, "");
    let job = cluster.caller().submit("-n 2", &["/bin/sh", "-c", UNTIL_GO]).expect("a manager");
    cluster.caller().until(job, "RUNNING");
    end_node(&mut cluster, 1, Signal::SIGTERM);
    until_away(&cluster, job, 1);
    let dir = cluster.node_dir(1).display().to_string();
    let words = format!("{} --cluster zz --work-dir {dir}", cluster.node_words(1));
    let refused = cluster.scratch.does(&words);
    assert!(!refused.status.success(), "{}", told(&refused));
    let said = stderr(&refused);
    let named = format!("jobs of cluster {} wait for its Node Manager", cluster.scratch.cluster());
    assert!(said.contains(&named) && said.contains("--work-dir"), "{said}");
    start_node(&mut cluster, 1);
    assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 1);
    go(&cluster);
    assert_ended(&cluster.caller().until(job, "FAILED"), 3);
    cluster.caller().until_idle(1);
    cluster.end();
}

/// Without control groups, a keeper for each job has the ranks.
#[test]
fn jobs_of_an_ordinary_user_go_on_over_the_end_of_a_node_manager() {
    for signal in ENDS {
        let Some(scratch) = Scratch::make_for_ordinary_user() else {
            eprintln!("no setpriv, or no other user: NOT tested");
            return;
        };
        job_goes_on(RealCluster::start_in(scratch, 2), signal);
    }
    if let Some(scratch) = Scratch::make_for_ordinary_user() {
        every_byte_comes_once(RealCluster::start_in(scratch, 1), restart_node);
    }
}

#[test]
fn every_byte_of_output_comes_once_however_often_the_node_manager_ends() {
    every_byte_comes_once(RealCluster::start(1, ""), restart_node);
}

#[test]
fn every_byte_of_output_comes_once_however_often_the_manager_ends() {
    every_byte_comes_once(RealCluster::start(1, ""), |cluster, signal| {
        cluster.end_manager(signal);
        cluster.start_manager();
    });
}

fn restart_node(cluster: &mut RealCluster, signal: Signal) {
    end_node(cluster, 1, signal);
    start_node(cluster, 1);
}

fn every_byte_comes_once(mut cluster: RealCluster, restart: fn(&mut RealCluster, Signal)) {
    let mut command = cluster.caller().storm("run -n 2 --label --no-bcast /bin/sh -c");
    command.arg(LINES);
    let mut followed = piped(command);
    drop(followed.stdin.take());
    let mut errors = followed.stderr.take().expect("piped");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text).expect("text")
    });
    let mut lines = BufReader::new(followed.stdout.take().expect("piped")).lines();
    let mut all: Vec<String> = Vec::new();
    for signal in [ENDS, ENDS].concat() {
        all.extend(lines.by_ref().take(200).map(|line| line.expect("text")));
        restart(&mut cluster, signal);
    }
    go(&cluster);
    all.extend(lines.map(|line| line.expect("text")));
    assert!(followed.wait().expect("our child").success());
    let errors = errors.join().expect("read");
    for rank in 0..2 {
        let count = fs::read_to_string(cluster.scratch.work().join(format!("lines-{rank}")));
        let count: usize = count.expect("it ended").trim().parse().expect("a number");
        let of_rank = |text: &str, word: &str| -> Vec<usize> {
            let start = format!("{rank}: {word} ");
            text.lines().filter_map(|line| line.strip_prefix(&start)?.parse().ok()).collect()
        };
        let expected: Vec<usize> = (1..=count).collect();
        assert!(of_rank(&all.join("\n"), "line") == expected, "rank {rank}: lost or doubled");
        assert!(of_rank(&errors, "error") == expected, "rank {rank}: lost or doubled errors");
    }
    cluster.caller().until_idle(1);
    cluster.end();
}

/// The lines of ranks that share a file do not pass through the Node Manager.
#[test]
fn a_file_that_ranks_share_has_every_line_once_however_often_the_node_manager_ends() {
    let mut cluster = RealCluster::start(1, "");
    let script = "exec awk -v r=$STORM_RANK 'BEGIN { while ((getline line < \"go\") < 0) \
                  { printf \"%d %d\\n\", r, ++i } print i > \"lines-\" r }'";
    let options = "-n 2 --no-bcast -o shared";
    let job = cluster.caller().submit(options, &["/bin/sh", "-c", script]).expect("a manager");
    cluster.caller().until(job, "RUNNING");
    let path = cluster.scratch.work().join("shared");
    let length = || fs::metadata(&path).map_or(0, |file| file.len());
    for signal in [ENDS, ENDS].concat() {
        end_node(&mut cluster, 1, signal);
        // The file grows while there is no Node Manager.
        let before = length();
        cluster.caller().wait_for("queue", |_| (length() > before + 100_000).then_some(()));
        start_node(&mut cluster, 1);
        assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 1);
    }
    // The ranks end while there is no Node Manager.
    end_node(&mut cluster, 1, Signal::SIGKILL);
    go(&cluster);
    let ended = |rank: u32| cluster.scratch.work().join(format!("lines-{rank}")).exists();
    cluster.caller().wait_for("queue", |_| (ended(0) && ended(1)).then_some(()));
    start_node(&mut cluster, 1);
    assert_ended(&cluster.caller().until(job, "COMPLETED"), 0);
    let text = fs::read_to_string(&path).expect("written");
    let mut next = [1; 2];
    for line in text.lines() {
        let (rank, number) = line.split_once(' ').expect("a whole line");
        let rank: usize = rank.parse().expect("a whole line");
        assert_eq!(number, next[rank].to_string(), "rank {rank}: lost or doubled");
        next[rank] += 1;
    }
    for (rank, next) in next.into_iter().enumerate() {
        let count = fs::read_to_string(cluster.scratch.work().join(format!("lines-{rank}")));
        assert_eq!(count.expect("it ended").trim(), (next - 1).to_string(), "rank {rank}");
    }
    cluster.caller().until_idle(1);
    cluster.end();
}

#[test]
fn input_goes_on_where_it_was() {
    let mut cluster = RealCluster::start(1, "");
    let mut followed = piped(cluster.caller().storm("run -n 1 --no-bcast /bin/cat"));
    let mut input = followed.stdin.take().expect("piped");
    let mut output = BufReader::new(followed.stdout.take().expect("piped"));
    for (turn, signal) in [ENDS, ENDS].concat().into_iter().enumerate() {
        let line = format!("turn {turn} {}\n", "x".repeat(100_000));
        input.write_all(line.as_bytes()).expect("it reads");
        let mut echoed = String::new();
        output.read_line(&mut echoed).expect("text");
        assert!(echoed == line, "turn {turn}: {} bytes", echoed.len());
        end_node(&mut cluster, 1, signal);
        // Sent while there is no Node Manager.
        input.write_all(b"between\n").expect("it reads");
        cluster.start_node(1);
        let mut echoed = String::new();
        output.read_line(&mut echoed).expect("text");
        assert_eq!(echoed, "between\n");
    }
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
    assert!(followed.wait().expect("our child").success());
    cluster.caller().until_idle(1);
    cluster.end();
}

/// Input is under way in every part of its path when a daemon ends: the ranks do not read first,
/// and then as fast as they can.
#[test]
fn every_byte_of_input_comes_once_however_often_the_manager_ends() {
    let mut cluster = RealCluster::start(1, "");
    let script = "head -c 100000; until test -e go; do sleep 0.05; done; exec cat";
    let mut command = cluster.caller().storm("run -n 2 --input all --label --no-bcast /bin/sh -c");
    command.arg(script);
    let mut followed = piped(command);
    let mut input = followed.stdin.take().expect("piped");
    let text: String = (0..600_000).map(|number| format!("{number}\n")).collect();
    let sent = text.clone();
    let writer = std::thread::spawn(move || input.write_all(sent.as_bytes()));
    let mut lines = BufReader::new(followed.stdout.take().expect("piped")).lines();
    let mut all: Vec<String> = Vec::new();
    let mut read = |count: usize| {
        all.extend(lines.by_ref().take(count).map(|line| line.expect("text")));
    };
    let restart = |cluster: &mut RealCluster, signal| {
        cluster.end_manager(signal);
        cluster.start_manager();
    };
    read(20_000);
    for signal in ENDS {
        restart(&mut cluster, signal);
        cluster.caller().until(1, "RUNNING");
    }
    go(&cluster);
    for signal in [ENDS, ENDS].concat() {
        read(100_000);
        restart(&mut cluster, signal);
        read(50_000);
        restart_node(&mut cluster, signal);
    }
    read(usize::MAX);
    assert!(followed.wait().expect("our child").success());
    writer.join().expect("it wrote").expect("all was read");
    for rank in 0..2 {
        let start = format!("{rank}: ");
        let of_rank = all.iter().filter_map(|line| line.strip_prefix(&start));
        let echoed: String = of_rank.flat_map(|line| [line, "\n"]).collect();
        assert_eq!(echoed.len(), text.len(), "rank {rank}");
        assert!(echoed == text, "rank {rank}: lost or doubled");
    }
    cluster.end();
}

#[test]
fn events_without_a_node_manager_are_found_by_the_next_one() {
    let mut cluster = RealCluster::start(2, "");
    let caller = |cluster: &RealCluster, script: &str| {
        let job = cluster.caller().submit("-n 1", &["/bin/sh", "-c", script]).expect("a manager");
        cluster.caller().until(job, "RUNNING");
        job
    };
    let ends = caller(&cluster, UNTIL_GO);
    let cancelled = caller(&cluster, "touch runs; exec sleep 1000 # cancelled");
    cluster
        .caller()
        .wait_for("queue", |_| cluster.scratch.work().join("runs").exists().then_some(()));
    cluster.kill_node(1);
    cluster.kill_node(2);
    cluster.caller().until_down("n1");
    cluster.caller().until_down("n2");
    go(&cluster);
    cluster.caller().cancel(cancelled);
    // The manager ends as well. The next one asks the nodes for their jobs.
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    cluster.start_node(1);
    cluster.start_node(2);
    assert_ended(&cluster.caller().until(ends, "FAILED"), 3);
    cluster.caller().until(cancelled, "CANCELLED");
    cluster.caller().until_idle(2);
    cluster.end();
}

#[test]
fn jobs_of_several_rows_go_on_in_turns() {
    let partitions = "partitions = [{ name = \"main\", sched = \"gang\", quantum = \"20ms\" }]";
    let mut cluster = RealCluster::start(1, partitions);
    let jobs: Vec<u64> = (0..3)
        .map(|_| cluster.caller().submit("-n 2", &["/bin/sh", "-c", UNTIL_GO]).expect("a manager"))
        .collect();
    for job in &jobs {
        cluster.caller().until(*job, "RUNNING");
    }
    for signal in ENDS {
        end_node(&mut cluster, 1, signal);
        until_away(&cluster, jobs[0], 1);
        cluster.start_node(1);
        cluster
            .caller()
            .wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    }
    go(&cluster);
    for job in jobs {
        assert_ended(&cluster.caller().until(job, "FAILED"), 3);
    }
    cluster.caller().until_idle(1);
    cluster.end();
}

#[test]
fn a_node_manager_that_does_not_come_back_loses_its_jobs_at_the_bound() {
    let mut cluster = RealCluster::start(1, "timeouts = { node-return = \"1s\" }");
    let job = cluster
        .caller()
        .submit("-n 1", &["/bin/sh", "-c", "exec sleep 1000 # left"])
        .expect("a manager");
    cluster.caller().until(job, "RUNNING");
    cluster.kill_node(1);
    let ended = cluster.caller().until(job, "NODE_FAIL");
    assert!(ended["reason"].to_string().contains("n1"), "{ended}");
    let left = || cluster.scratch.processes().iter().any(|line| line.contains("# left"));
    cluster.caller().wait_for("queue", |_| (!left()).then_some(()));
    cluster.start_node(1);
    cluster.caller().until_idle(1);
    cluster.end();
}

#[test]
fn a_job_that_may_run_again_goes_on_if_its_node_is_back_in_time_and_else_runs_again() {
    let mut cluster = RealCluster::start(2, "timeouts = { requeue-fence = \"1h\" }");
    let job =
        cluster.caller().submit("-n 1 --requeue", &["/bin/sh", "-c", UNTIL_GO]).expect("a manager");
    let first = cluster.caller().until(job, "RUNNING")["node_list"].clone();
    let (node, other) = if first == "n1" { (1, "n2") } else { (2, "n1") };
    end_node(&mut cluster, node, Signal::SIGKILL);
    until_away(&cluster, job, node);
    cluster.start_node(node);
    cluster.caller().wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 1);
    end_node(&mut cluster, node, Signal::SIGKILL);
    let again = cluster.caller().wait_for(&format!("show {job}"), |job| {
        (job["state"] == "RUNNING" && job["runs"] == 2).then(|| job.clone())
    });
    assert_eq!(again["node_list"], other, "{again}");
    cluster.start_node(node);
    go(&cluster);
    cluster.caller().until(job, "FAILED");
    cluster.caller().until_idle(2);
    cluster.end();
}

#[test]
fn an_interrupt_ends_a_node_with_its_jobs_and_storm_down_ends_all() {
    let mut cluster = RealCluster::start(2, "");
    let job = cluster
        .caller()
        .submit("-n 4", &["/bin/sh", "-c", "exec sleep 1000 # here"])
        .expect("a manager");
    cluster.caller().until(job, "RUNNING");
    cluster.end_node(1, Signal::SIGINT);
    cluster.start_node(1);
    cluster.caller().until(job, "NODE_FAIL");
    let next = cluster
        .caller()
        .submit("-n 4", &["/bin/sh", "-c", "exec sleep 1000 # here"])
        .expect("a manager");
    cluster.caller().until(next, "RUNNING");
    end_node(&mut cluster, 2, Signal::SIGTERM);
    until_away(&cluster, next, 2);
    cluster.start_node(2);
    cluster.caller().wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    let socket = cluster.scratch.work().join("mm.sock").display().to_string();
    cluster.scratch.prints(&format!("down --socket {socket}"));
    cluster.has_ended();
}

#[test]
fn helper_processes_say_what_they_are() {
    let cluster = RealCluster::start(1, "");
    // A process that was just forked has its parent's title for a moment.
    cluster.caller().wait_for("queue", |_| {
        let lines = cluster.scratch.processes();
        let count = |title: &str| lines.iter().filter(|line| line.contains(title)).count();
        let (keepers, managers) = (count("storm: keeper n1"), count("--name\0n1"));
        (keepers == 1 && managers == 1 && count("storm: launcher n1") >= 2).then_some(())
    });
    cluster.end();
}

/// Reads output and errors of a child as they come; its input is at its end.
fn read_both(child: &mut Child) -> JoinHandle<(String, String)> {
    let (mut out, mut errors) = (child.stdout.take(), child.stderr.take());
    drop(child.stdin.take());
    std::thread::spawn(move || {
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            errors.as_mut().expect("piped").read_to_string(&mut text).map(|_| text)
        });
        let mut text = String::new();
        out.as_mut().expect("piped").read_to_string(&mut text).expect("text");
        (text, errors.join().expect("read").expect("text"))
    })
}

/// Restarts manager and nodes one after the other, as for an upgrade.
#[test]
fn a_rolling_upgrade_ends_no_job_and_loses_no_output() {
    let mut cluster = RealCluster::start(4, "partitions = [{ name = \"main\", sched = \"gang\" }]");
    let caller = cluster.caller();
    let script = |rank| format!("{LINES}; exit {rank}");
    let batch: Vec<u64> = (0..12)
        .map(|number| {
            let options = format!("-n {} -o out-{number}", 1 + number % 2);
            caller.submit(&options, &["/bin/sh", "-c", UNTIL_GO]).expect("a manager")
        })
        .collect();
    let source = cluster.scratch.work().join("until_go.c");
    fs::write(&source, MPI_UNTIL_GO).expect("written");
    let program = mpi_program::compiled(&cluster.scratch, &source);
    let mut mpi = Vec::new();
    for _ in 0..4 {
        let mut command = caller.storm("run -n 8");
        command.arg(&program);
        mpi.push(piped(command));
    }
    let mut followed = Vec::new();
    for _ in 0..4 {
        let mut command = caller.storm("run -n 1 --no-bcast /bin/sh -c");
        command.arg(script(0));
        let mut child = piped(command);
        let reading = read_both(&mut child);
        followed.push((child, reading));
    }
    for job in 1..=20 {
        caller.until(job, "RUNNING");
    }
    cluster.end_manager(Signal::SIGTERM);
    cluster.start_manager();
    for node in 1..=4 {
        end_node(&mut cluster, node, if node % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM });
        cluster.start_node(node);
        cluster
            .caller()
            .wait_for("nodes", |nodes| (!nodes.to_string().contains("DOWN")).then_some(()));
    }
    go(&cluster);
    for job in batch {
        assert_ended(&cluster.caller().until(job, "FAILED"), 3);
    }
    for child in mpi {
        let done = child.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}", told(&done));
        assert_eq!(stdout(&done), "sum 28 on 8\n", "{}", told(&done));
    }
    for (mut child, reading) in followed {
        let (text, errors) = reading.join().expect("read");
        assert!(child.wait().expect("our child").success(), "{errors}");
        let numbers = |text: &str, word: &str| -> Vec<usize> {
            text.lines().filter_map(|line| line.strip_prefix(word)?.parse().ok()).collect()
        };
        let lines = numbers(&text, "line ");
        assert!(lines == (1..=lines.len()).collect::<Vec<_>>(), "lost or doubled lines");
        assert!(
            lines.len() >= 500 && numbers(&errors, "error ") == lines,
            "lost or doubled errors"
        );
    }
    cluster.caller().until_idle(4);
    cluster.end();
}

/// Ranks of a job on two nodes exchange messages, without and with turns.
#[test]
fn ranks_of_mpi_go_on_and_finish() {
    for signal in ENDS {
        let mut cluster = RealCluster::start(2, "");
        let source = cluster.scratch.work().join("until_go.c");
        fs::write(&source, MPI_UNTIL_GO).expect("written");
        let program = mpi_program::compiled(&cluster.scratch, &source);
        let mut command = cluster.caller().storm("run -n 4");
        command.arg(&program);
        let followed = piped(command);
        cluster.caller().until(1, "RUNNING");
        for node in [1, 2] {
            end_node(&mut cluster, node, signal);
            start_node(&mut cluster, node);
        }
        go(&cluster);
        let done = followed.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}", told(&done));
        assert_eq!(stdout(&done), "sum 6 on 4\n", "{}", told(&done));
        cluster.caller().until_idle(2);
        cluster.end();
    }
}
