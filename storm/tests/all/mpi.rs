//! A C program with our own MPI under `storm run` on an embedded cluster, compiled as users do,
//! given only the library's directories.

use crate::scratch::{Scratch, mpi_program, stderr, stdout, told};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Every value of `STORM_MPI_WAIT`.
const WAITS: [&str; 3] = ["spin", "block", "spin-block"];

const PROGRAM: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank, size, sum, next;
  double block[3000], all;
  MPI_Comm node;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  next = (rank + 1) % size;
  if (argc > 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1 && strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 9);
    if (rank == size - 1 && strcmp(argv[1], "die") == 0) raise(SIGKILL);
    if (rank == size - 1 && strcmp(argv[1], "leave") == 0) exit(0);
    if (rank == size - 1 && strcmp(argv[1], "fail") == 0) exit(5);
    MPI_Recv(block, 1, MPI_DOUBLE, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < 3000; i++) block[i] = 1.0 / (rank + i + 1);
  MPI_Sendrecv_replace(block, 3000, MPI_DOUBLE, next, 0, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  MPI_Allreduce(&block[rank], &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, node);
  printf("%d of %d: %a, node %d\n", rank, size, all, sum);
  return MPI_Finalize();
}
"#;

fn compiled(scratch: &Scratch) -> PathBuf {
    let source = scratch.work().join("program.c");
    fs::write(&source, PROGRAM).expect("written");
    mpi_program::compiled(scratch, &source)
}

#[test]
fn a_program_in_c_gives_the_same_answer_on_any_nodes() {
    let scratch = Scratch::make();
    let program = compiled(&scratch);
    let run = |options: &str| {
        let mut command = scratch.storm(["submit", "-n", "4"]);
        command.args(options.split_whitespace()).arg(&program);
        let done = command.output().expect("storm starts");
        assert!(done.status.success(), "{}", told(&done));
        let mut lines: Vec<String> = stdout(&done).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 4, "{}", told(&done));
        lines
    };
    let answer = |lines: &[String]| -> Vec<String> {
        lines.iter().filter_map(|line| line.split(',').next().map(str::to_owned)).collect()
    };
    let [one, two, four] = ["--nodes 1 --pes 4", "--nodes 2 --pes 2", "--nodes 4 --pes 1"].map(run);
    assert_eq!(answer(&one), answer(&two));
    assert_eq!(answer(&one), answer(&four));
    // Each node's ranks find each other on the node.
    assert!(one.iter().all(|line| line.ends_with("node 6")), "{one:?}");
    assert!(two[0].ends_with("node 1") && two[3].ends_with("node 5"), "{two:?}");
    assert!(four.iter().enumerate().all(|(rank, line)| line.ends_with(&format!("node {rank}"))));
    scratch.assert_nothing_runs();
}

/// Runs a job whose last rank does `how`, while the others, on its node and on another, wait for
/// its message.
fn ended(scratch: &Scratch, program: &Path, wait: &str, how: &str) -> Output {
    let mut command = scratch.storm(["submit", "-n", "4", "--nodes", "2", "--pes", "2"]);
    command.env("STORM_MPI_WAIT", wait);
    let done = command.arg(program).arg(how).output().expect("storm starts");
    scratch.assert_nothing_runs();
    done
}

#[test]
fn an_abort_ends_the_job_with_its_code_however_its_peers_wait() {
    let scratch = Scratch::make();
    let program = compiled(&scratch);
    for wait in WAITS {
        let done = ended(&scratch, &program, wait, "abort");
        assert_eq!(done.status.code(), Some(9), "{wait}: {}", told(&done));
        let said = stderr(&done);
        assert!(said.contains("rank 3: MPI_Abort with error code 9"), "{wait}: {}", told(&done));
    }
}

#[test]
fn the_death_of_a_rank_ends_the_job_however_its_peers_wait() {
    let scratch = Scratch::make();
    let program = compiled(&scratch);
    for wait in WAITS {
        let done = ended(&scratch, &program, wait, "die");
        assert_eq!(done.status.code(), Some(137), "{wait}: {}", told(&done));
        let said = stderr(&done);
        assert!(said.contains("rank 3 on n2 was ended by signal 9"), "{wait}: {}", told(&done));
    }
}

#[test]
fn a_rank_that_exits_without_finalizing_ends_the_job() {
    let scratch = Scratch::make();
    let program = compiled(&scratch);
    for (how, code, own) in [("leave", 1, 0), ("fail", 5, 5)] {
        // If all peers are on its node, no other node notices.
        let mut command = scratch.storm(["submit", "-n", "3", "--nodes", "1", "--pes", "3"]);
        let done = command.arg(&program).arg(how).output().expect("storm starts");
        assert_eq!(done.status.code(), Some(code), "{how}: {}", told(&done));
        let expected = format!("rank 2 on n1 exited with {own} without MPI_Finalize");
        assert!(stderr(&done).contains(&expected), "{how}: {}", told(&done));
        scratch.assert_nothing_runs();
    }
}
