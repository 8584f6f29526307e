//! Buffered coscheduling with real daemons and processes: the library's checks within slices, and
//! the end of jobs when a rank, a node or the manager fails.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{STORM, Scratch, mpi_program, stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const PARTITION: &str =
    "[[partitions]]\nname = \"main\"\nsched = \"bcs\"\nparams = { slice-us = 1000 }\n";

/// Waits until the file `go` is there.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done";

/// All ranks but the last wait for its message. The argument chooses how the last rank ends.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int rank, size, word = 7;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) { printf("begun\n"); fflush(stdout); }
  if (rank == size - 1) {
    if (strcmp(argv[1], "leave") == 0) _exit(0);
    if (strcmp(argv[1], "fail") == 0) _exit(3);
    if (strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 9);
    if (strcmp(argv[1], "die") == 0) raise(SIGKILL);
  }
  MPI_Recv(&word, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
"#;

fn compiled(scratch: &Scratch) -> PathBuf {
    let source = scratch.work().join("waits.c");
    fs::write(&source, PROGRAM).expect("written");
    mpi_program::compiled(scratch, &source)
}

fn partition(cluster: &RealCluster) -> Value {
    let done = cluster.caller().storm("partition list --json").output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let all: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    all[0].clone()
}

#[test]
fn the_checks_of_the_library_hold_in_slices() {
    let scratch = Scratch::make();
    let check = Path::new(STORM).with_file_name("examples/mpi_check");
    assert!(check.exists(), "{} is missing: cargo build -p storm-mpi --examples", check.display());
    scratch.prints("up --nodes 2 --pes 3 --sched bcs");
    let cases = [
        "ring",
        "pairs 3",
        "any_source",
        "order 5",
        "head_to_head",
        "self",
        "test",
        "collectives 2",
        "errors",
    ];
    for case in cases {
        let mut command = scratch.storm(["run", "-N", "2", "-n", "6"]);
        let done = command.arg(&check).args(case.split(' ')).output().expect("storm starts");
        assert!(done.status.success(), "{case}: {}", told(&done));
    }
    let partition = &scratch.json("partition list")[0];
    assert!(partition["checkpoint"].as_u64().is_some_and(|slice| slice > 100), "{partition}");
    assert_eq!(partition["slice_us"], 500);
    let shown = scratch.prints("partition show bcs");
    assert!(shown.contains("was the last to end, with nothing on the way"), "{shown}");
    let shown = scratch.prints("show 1");
    assert!(shown.contains("in slices of 500 us if it is linked with storm-mpi"), "{shown}");
    scratch.prints("down");
    scratch.assert_nothing_runs();
}

#[test]
fn however_a_rank_goes_its_peers_do_not_wait_for_it() {
    let scratch = Scratch::make();
    let program = compiled(&scratch);
    scratch.prints("up --nodes 2 --pes 2 --sched bcs");
    for (how, code, reason) in [
        ("abort", Some(9), "rank 3: MPI_Abort with error code 9"),
        ("die", Some(137), "rank 3 on n2 was ended by signal 9"),
        ("leave", Some(1), "rank 3 on n2 exited with 0 without MPI_Finalize"),
        ("fail", Some(3), "rank 3 on n2 exited with 3 without MPI_Finalize"),
    ] {
        let mut command = scratch.storm(["run", "-N", "2", "-n", "4"]);
        let done = command.arg(&program).arg(how).output().expect("storm starts");
        assert!(!done.status.success(), "{how}: {}", told(&done));
        assert!(done.status.code() == code, "{how}: {}", told(&done));
        assert!(stderr(&done).contains(reason), "{how}: {}", told(&done));
        // The slices continue for other jobs.
        let mut next = scratch.storm(["run", "-N", "2", "-n", "4"]);
        let rust = Path::new(STORM).with_file_name("kernels");
        let done = next.arg(&rust).args(["ring", "1", "10"]).output().expect("storm starts");
        assert!(done.status.success() && stdout(&done).contains("OK"), "{how}: {}", told(&done));
    }
    scratch.prints("down");
    scratch.assert_nothing_runs();
}

#[test]
fn a_node_that_dies_ends_its_jobs_and_the_others_go_on_in_slices() {
    let mut cluster = RealCluster::start(3, PARTITION);
    let program = compiled(&cluster.scratch);
    let program = program.to_str().expect("text");
    let job = cluster.caller().submit("-N 3 -n 6", &[program, "wait"]).expect("it is taken");
    cluster.caller().until(job, "RUNNING");
    cluster.kill_node(3);
    let ended = cluster.caller().until(job, "NODE_FAIL");
    assert_eq!(ended["runs"], 1, "{ended}");
    let before = partition(&cluster)["checkpoint"].as_u64();
    let rust = Path::new(STORM).with_file_name("kernels");
    let mut next = cluster.caller().storm("run -N 2 -n 4");
    let done = next.arg(&rust).args(["stencil", "9", "5"]).output().expect("storm starts");
    assert!(done.status.success() && stdout(&done).contains("OK"), "{}", told(&done));
    assert!(partition(&cluster)["checkpoint"].as_u64() > before);
    // A node that returns takes part again.
    cluster.start_node(3);
    cluster.caller().until_idle(3);
    let mut all = cluster.caller().storm("run -N 3 -n 6");
    let done = all.arg(&rust).args(["stencil", "9", "5"]).output().expect("storm starts");
    assert!(done.status.success() && stdout(&done).contains("OK"), "{}", told(&done));
    cluster.end();
}

#[test]
fn jobs_in_slices_end_with_the_manager_and_others_go_on() {
    let mut cluster = RealCluster::start(2, PARTITION);
    let program = compiled(&cluster.scratch);
    let mut attached = cluster.caller().storm("run -N 2 -n 2");
    let mut attached = attached
        .arg(&program)
        .arg("wait")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("storm starts");
    let mut begun = [0; 6];
    let output = attached.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(output, &mut begun).expect("it writes");
    let plain = cluster.caller().submit_script("", UNTIL_GO).expect("a manager");
    cluster.caller().until(plain, "RUNNING");
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    let ended = cluster.caller().until(1, "FAILED");
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("slices of the Machine Manager, which is gone"), "{ended}");
    assert!(!attached.wait_with_output().expect("it ends").status.success());
    // A job that never communicated in slices lost nothing, and slices work again.
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let done = cluster.caller().until(plain, "COMPLETED");
    assert_eq!(done["runs"], 1, "{done}");
    let rust = Path::new(STORM).with_file_name("kernels");
    let mut next = cluster.caller().storm("run -N 2 -n 4");
    let done = next.arg(&rust).args(["fft", "16", "1"]).output().expect("storm starts");
    assert!(done.status.success() && stdout(&done).contains("OK"), "{}", told(&done));
    cluster.end();
}

/// Regression: jobs that did not communicate in slices ended with the Node Manager.
#[test]
fn jobs_in_slices_end_with_a_node_manager_that_is_killed_and_others_go_on() {
    let mut cluster = RealCluster::start(2, PARTITION);
    let program = compiled(&cluster.scratch);
    let plain = ["/bin/sh", "-c", UNTIL_GO];
    let plain = cluster.caller().submit("-N 2 -n 2", &plain).expect("a manager");
    cluster.caller().until(plain, "RUNNING");
    let mut attached = cluster.caller().storm("run -N 2 -n 2");
    attached.arg(&program).arg("wait").stdin(Stdio::null());
    let attached = attached.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut attached = attached.spawn().expect("storm starts");
    let mut begun = [0; 6];
    let output = attached.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(output, &mut begun).expect("it writes");
    cluster.kill_node(1);
    let ended = cluster.caller().until(plain + 1, "NODE_FAIL");
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("which moved the messages of the job's ranks"), "{ended}");
    assert!(!attached.wait_with_output().expect("it ends").status.success());
    cluster.start_node(1);
    cluster.caller().until_none_down();
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let done = cluster.caller().until(plain, "COMPLETED");
    assert_eq!(done["runs"], 1, "{done}");
    let rust = Path::new(STORM).with_file_name("kernels");
    let mut next = cluster.caller().storm("run -N 2 -n 4");
    let done = next.arg(&rust).args(["fft", "16", "1"]).output().expect("storm starts");
    assert!(done.status.success() && stdout(&done).contains("OK"), "{}", told(&done));
    cluster.end();
}

/// Every rank sends each other rank long messages with known contents, and all add up, until the
/// file `go` exists. Rank 0 writes each tenth round into the file `rounds`.
const EXCHANGE: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 150000, MOST = 8 };

static unsigned char expected(int from, int to, int round, int at) {
  return (unsigned char)(from * 31 + to * 7 + round * 3 + at);
}

int main(int argc, char **argv) {
  static unsigned char out[MOST][BYTES], in[MOST][BYTES];
  int rank, size, over = 0, round = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) { printf("begun\n"); fflush(stdout); }
  while (!over) {
    MPI_Request all[2 * MOST];
    int sum = 0, one = rank + round;
    for (int peer = 0; peer < size; peer++) {
      for (int at = 0; at < BYTES; at++) out[peer][at] = expected(rank, peer, round, at);
      MPI_Irecv(in[peer], BYTES, MPI_BYTE, peer, round % 100, MPI_COMM_WORLD, &all[peer]);
      MPI_Isend(out[peer], BYTES, MPI_BYTE, peer, round % 100, MPI_COMM_WORLD, &all[size + peer]);
    }
    MPI_Waitall(2 * size, all, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < size; peer++)
      for (int at = 0; at < BYTES; at++)
        if (in[peer][at] != expected(peer, rank, round, at)) {
          printf("wrong: round %d, from %d to %d at %d\n", round, peer, rank, at);
          MPI_Abort(MPI_COMM_WORLD, 4);
        }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2 + size * round) MPI_Abort(MPI_COMM_WORLD, 5);
    round++;
    if (rank == 0) {
      over = access("go", F_OK) == 0;
      FILE *told = fopen("rounds", "a");
      fprintf(told, "%d\n", round);
      fclose(told);
    }
    MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("all right\n");
  return MPI_Finalize();
}
"#;

/// A job that exchanges messages in slices.
struct Exchange {
    cluster: RealCluster,
    job: u64,
}

impl Exchange {
    fn start() -> Exchange {
        let cluster = RealCluster::start(2, PARTITION);
        let source = cluster.scratch.work().join("exchange.c");
        fs::write(&source, EXCHANGE).expect("written");
        let program = mpi_program::compiled(&cluster.scratch, &source);
        let program = program.to_str().expect("text");
        let job = cluster.caller().submit("-N 2 -n 4", &[program]).expect("a manager");
        let exchange = Exchange { cluster, job };
        exchange.goes_on();
        exchange
    }

    fn rounds(&self) -> usize {
        let told = fs::read_to_string(self.cluster.scratch.work().join("rounds"));
        told.map_or(0, |rounds| rounds.lines().count())
    }

    /// Waits for three rounds that begin from now on.
    fn goes_on(&self) {
        let until = self.rounds() + 4;
        self.cluster.caller().wait_for(&format!("show {}", self.job), |view| {
            let state = view["state"].as_str().unwrap_or_default();
            assert!(["PENDING", "STARTING", "RUNNING"].contains(&state), "{view}");
            (self.rounds() >= until).then_some(())
        });
    }

    fn ends_well(self) {
        fs::write(self.cluster.scratch.work().join("go"), "").expect("written");
        let done = self.cluster.caller().until(self.job, "COMPLETED");
        assert_eq!(done["runs"], 1, "{done}");
        self.cluster.end();
    }
}

#[test]
fn jobs_in_slices_go_on_while_node_managers_are_replaced() {
    let mut exchange = Exchange::start();
    for node in [1, 2, 1] {
        exchange.cluster.end_node(node, Signal::SIGTERM);
        exchange.cluster.caller().until_down(&format!("n{node}"));
        exchange.cluster.start_node(node);
        exchange.cluster.caller().until_none_down();
        exchange.goes_on();
    }
    // Both at once.
    (1..=2).for_each(|node| exchange.cluster.end_node(node, Signal::SIGTERM));
    exchange.cluster.caller().until_down("n1");
    (1..=2).for_each(|node| exchange.cluster.start_node(node));
    exchange.cluster.caller().until_none_down();
    exchange.goes_on();
    exchange.ends_well();
}

#[test]
fn a_node_manager_that_continued_a_job_in_slices_and_is_killed_takes_it_along() {
    let mut exchange = Exchange::start();
    exchange.cluster.end_node(1, Signal::SIGTERM);
    exchange.cluster.caller().until_down("n1");
    exchange.cluster.start_node(1);
    exchange.cluster.caller().until_none_down();
    exchange.goes_on();
    exchange.cluster.kill_node(1);
    let ended = exchange.cluster.caller().until(exchange.job, "NODE_FAIL");
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("which moved the messages of the job's ranks"), "{ended}");
    exchange.cluster.start_node(1);
    exchange.cluster.caller().until_none_down();
    exchange.cluster.end();
}

#[test]
fn a_job_that_is_cancelled_while_its_slices_stand_is_over_when_the_node_is_back() {
    let mut exchange = Exchange::start();
    exchange.cluster.end_node(1, Signal::SIGTERM);
    exchange.cluster.caller().until_down("n1");
    let job = exchange.job;
    exchange.cluster.caller().cancel(job);
    exchange.cluster.start_node(1);
    exchange.cluster.caller().until_none_down();
    exchange.cluster.caller().until(job, "CANCELLED");
    // Slices go on for other jobs.
    let rust = Path::new(STORM).with_file_name("kernels");
    let mut next = exchange.cluster.caller().storm("run -N 2 -n 4");
    let done = next.arg(&rust).args(["fft", "16", "1"]).output().expect("storm starts");
    assert!(done.status.success() && stdout(&done).contains("OK"), "{}", told(&done));
    exchange.cluster.end();
}

#[test]
fn a_job_that_begins_to_communicate_under_the_next_node_manager_ends_with_that_reason() {
    let mut cluster = RealCluster::start(1, PARTITION);
    let program = compiled(&cluster.scratch);
    let script = format!("{UNTIL_GO}; exec {} wait", program.display());
    let job = cluster.caller().submit("-n 2", &["/bin/sh", "-c", &script]).expect("a manager");
    cluster.caller().until(job, "RUNNING");
    cluster.kill_node(1);
    cluster.caller().until_down("n1");
    cluster.start_node(1);
    cluster.caller().until_none_down();
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
    let ended = cluster.caller().until(job, "FAILED");
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("the Node Manager that it began with is gone"), "{ended}");
    cluster.caller().until_idle(1);
    cluster.end();
}
