//! Steps: `storm run` in a batch script starts programs in the script's place
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use crate::scratch::{STORM, Scratch, mpi_program, told};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

fn cluster(nodes: u32) -> Scratch {
    let scratch = Scratch::make();
    scratch.prints(&format!("up --nodes {nodes} --pes 2"));
    scratch
}

/// Runs a script to its end, with this build's `storm` in its path. Its output is in `out`.
fn batch(scratch: &Scratch, options: &str, lines: &str) -> Output {
    let text = format!("#!/bin/sh\n{lines}\n");
    fs::write(scratch.work().join("job.sh"), text).expect("written");
    let words = ["batch", "--wait", "-o", "out"].into_iter().chain(options.split_whitespace());
    let mut command = scratch.storm(words.chain(["job.sh"]));
    let bin = Path::new(STORM).parent().expect("it is in a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is one"));
    command.env("PATH", path).output().expect("storm starts")
}

fn out(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.work().join("out")).unwrap_or_default()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn steps_run_one_after_another_and_are_numbered() {
    let scratch = cluster(2);
    let done = batch(
        &scratch,
        "-N 2 -n 4",
        "for step in 0 1 2; do\n\
         storm run -n 1 sh -c 'echo $STORM_STEP_ID $SLURM_STEP_ID $SLURM_JOB_ID $STORM_SIZE'\n\
         done",
    );
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "0 0 1 1\n1 1 1 1\n2 2 1 1\n");
    let jobs = scratch.json("hist");
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "no step is a job: {jobs}");
}

/// Each process of the place ran the script, and each `storm run` was a job of its own.
#[test]
fn a_step_without_a_size_has_the_processes_of_its_place() {
    let scratch = cluster(2);
    let lines = "storm run sh -c 'echo $STORM_RANK of $STORM_SIZE on $SLURM_STEP_NODELIST, \
                 $SLURM_NTASKS $SLURM_STEP_NUM_NODES $SLURM_STEP_TASKS_PER_NODE'";
    let done = batch(&scratch, "-N 2 --ntasks-per-node 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let rank = |rank| format!("{rank} of 4 on n[1-2], 4 2 2(x2)");
    assert_eq!(sorted(&out(&scratch)), (0..4).map(rank).collect::<Vec<_>>());
}

#[test]
fn the_nodes_of_a_step_are_its_own_and_those_of_the_job_stay() {
    let scratch = cluster(2);
    let lines = "storm run -n 2 sh -c \
                 'echo $SLURM_STEP_NODELIST $STORM_NODELIST $SLURM_JOB_NODELIST' | sort -u";
    let done = batch(&scratch, "-N 2 -n 4", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "n1 n1 n[1-2]\n");
}

#[test]
fn twenty_steps_at_once_each_run_when_they_fit() {
    let scratch = cluster(2);
    let done = batch(
        &scratch,
        "-N 2 -n 4",
        "for step in $(seq 20); do\n\
         storm --quiet run -n 1 sh -c \"echo $step\" &\n\
         done\nwait",
    );
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let mut numbers: Vec<u32> =
        out(&scratch).lines().filter_map(|line| line.parse().ok()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>(), "{}", out(&scratch));
}

/// Two steps that each have all elements never run at the same time.
#[test]
fn steps_that_do_not_fit_beside_each_other_wait() {
    let scratch = cluster(1);
    let alone = "storm --quiet run -n 2 sh -c \
                 '[ $STORM_RANK = 1 ] || { mkdir alone && sleep 0.2 && rmdir alone; }' &";
    let lines = format!("{alone}\nfirst=$!\n{alone}\nwait $first && wait $! && echo both");
    let done = batch(&scratch, "-n 2", &lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "both\n");
}

#[test]
fn a_step_that_is_too_wide_is_refused_and_the_script_goes_on() {
    let scratch = cluster(1);
    let done = batch(&scratch, "-n 2", "storm run -n 3 true 2> refused\necho status $?");
    assert!(done.status.success(), "{}", told(&done));
    let refused = fs::read_to_string(scratch.work().join("refused")).expect("it is written");
    assert!(refused.contains("3 processes, and job 1 has 2 elements on 1 node"), "{refused}");
    assert!(!out(&scratch).contains("status 0"), "{}", out(&scratch));
}

#[test]
fn a_step_that_fails_gives_its_status_and_ends_alone() {
    let scratch = cluster(1);
    let lines = "storm --quiet run -n 2 sh -c 'exit 7'\necho $?\n\
                 storm --quiet run -n 1 sh -c 'kill -9 $$'\necho $?\n\
                 storm --quiet run -n 1 ./none\necho $?\nexit 3";
    let done = batch(&scratch, "-n 2", lines);
    assert_eq!(done.status.code(), Some(3), "the script's: {}", told(&done));
    let numbers: Vec<String> = out(&scratch)
        .lines()
        .filter(|line| line.parse::<u32>().is_ok())
        .map(str::to_owned)
        .collect();
    assert_eq!(numbers, ["7", "137", "127"], "{}", out(&scratch));
}

#[test]
fn output_of_a_step_goes_to_its_command() {
    let scratch = cluster(2);
    let lines = "text=$(storm run -n 4 -l sh -c 'echo from $STORM_RANK')\n\
                 echo \"$text\" | sort\n\
                 storm run -n 1 sh -c 'echo complaint >&2' 2> complaints\n\
                 storm run -n 1 -o file-%j sh -c 'echo in a file'\ncat file-*";
    let done = batch(&scratch, "-N 2 -n 4", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let labelled = "0: from 0\n1: from 1\n2: from 2\n3: from 3\n";
    assert_eq!(out(&scratch), format!("{labelled}in a file\n"));
    let complaints = fs::read_to_string(scratch.work().join("complaints")).expect("written");
    assert_eq!(complaints, "complaint\n");
}

#[test]
fn input_of_a_step_is_that_of_its_command() {
    let scratch = cluster(1);
    let lines = "seq 20000 | storm run -n 1 sh -c 'cat | cksum'\nseq 20000 | cksum\n\
                 echo word | storm run -n 2 --input all cat";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let text = out(&scratch);
    let [step, whole, first, second] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!((step, first, second), (whole, "word", "word"));
}

#[test]
fn mpi_programs_run_as_steps_beside_each_other() {
    let scratch = cluster(2);
    let source = scratch.work().join("sum.c");
    let program = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) {\n\
                   int rank, sum;\nMPI_Init(&c, &v);\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
                   MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n\
                   if (rank == 0) printf(\"sum %d\\n\", sum);\nreturn MPI_Finalize();\n}\n";
    fs::write(&source, program).expect("written");
    let program = mpi_program::compiled(&scratch, &source);
    let program = program.display();
    let lines = format!(
        "storm --quiet run -n 2 -N 2 {program} &\nstorm --quiet run -n 2 -N 2 {program} &\nwait\n\
         storm --quiet run -n 4 {program}"
    );
    let done = batch(&scratch, "-N 2 -n 4", &lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "sum 1\nsum 1\nsum 6\n");
}

/// The step would have gone on in a place that belongs to another job.
#[test]
fn the_end_of_the_script_ends_a_step_that_outlives_it() {
    let scratch = cluster(1);
    let lines = "storm run -n 1 sh -c 'trap \"touch asked; exit\" TERM; touch there; \
                 while :; do sleep 0.02; done' &\n\
                 while [ ! -e there ]; do sleep 0.02; done";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "the script ended well: {}", told(&done));
    assert!(scratch.work().join("asked").exists(), "it had time to end by itself");
    let job = scratch.json("show 1");
    assert_eq!(job["state"], Value::from("COMPLETED"), "{job}");
    scratch.prints("run -n 2 true");
}

/// A command that was killed would have kept the elements of its step for as long as the script.
#[test]
fn a_step_ends_soon_after_its_command_is_killed() {
    let scratch = cluster(1);
    let lines = "storm run -n 2 sh -c 'touch there-$STORM_RANK; sleep 1000' &\n\
                 while [ ! -e there-0 ] || [ ! -e there-1 ]; do sleep 0.02; done\n\
                 kill -9 $!\nstorm --quiet run -n 2 true && echo next";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert!(out(&scratch).ends_with("next\n"), "{}", out(&scratch));
}

#[test]
fn an_interrupted_command_ends_its_step_and_no_other() {
    let scratch = cluster(1);
    let lines = "storm --quiet run -n 1 sh -c 'touch there; sleep 1000' &\n\
                 while [ ! -e there ]; do sleep 0.02; done\n\
                 kill -TERM $!\nwait $!\necho $?\nstorm --quiet run -n 2 true && echo next";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert!(out(&scratch).ends_with("143\nnext\n"), "{}", out(&scratch));
}

/// Nobody could end one step, or learn how the steps of a job had ended. The manager refuses a signal
/// until it has heard that the ranks execute, so the script repeats it.
#[test]
fn steps_are_ended_and_shown_by_their_names() {
    let scratch = cluster(1);
    let lines = "for step in 0 1; do\n\
                 storm --quiet run -n 1 sh -c \"trap 'touch got' USR1; touch there-$step; \
                 while :; do sleep 0.02; done\" &\n\
                 while [ ! -e there-$step ]; do sleep 0.02; done; done\n\
                 while [ ! -e there-0 ] || [ ! -e there-1 ]; do sleep 0.02; done\n\
                 while [ ! -e got ]; do storm -q cancel $SLURM_JOB_ID.0 --signal USR1; \
                 sleep 0.02; done\n\
                 storm cancel $SLURM_JOB_ID.1\nwait $!\necho $?\n\
                 storm --quiet show $SLURM_JOB_ID\nstorm -q queue --steps | sort\n\
                 storm cancel $SLURM_JOB_ID.7; storm cancel $SLURM_JOB_ID.1\n\
                 storm -q run -n 1 sh -c 'exit 3'; storm cancel $SLURM_JOB_ID.0; wait";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let text = out(&scratch);
    for line in ["143", "RUNNING", "1.0 RUNNING", "1.1 CANCELLED"] {
        assert!(text.lines().any(|own| own == line), "{line}: {text}");
    }
    assert!(text.contains("there is no step 1.7"), "{text}");
    assert!(text.contains("step 1.1 has ended: CANCELLED"), "{text}");
    let job = scratch.json("show 1");
    let states: Vec<_> =
        job["steps"].as_array().expect("steps").iter().map(|step| step["state"].clone()).collect();
    assert_eq!(states, ["CANCELLED", "CANCELLED", "FAILED"], "{job}");
    let last = &job["steps"][2];
    assert_eq!((&last["exit"], &last["name"]), (&serde_json::json!({"code": 3}), &"sh".into()));
    assert!(scratch.prints("show 1").contains("1.2"), "in the table");
    assert!(scratch.prints("hist --steps").contains("1.2"), "in the table");
}

#[test]
fn a_step_ends_at_its_time_limit() {
    let scratch = cluster(1);
    let lines = "storm run --time 1s -n 1 sleep 1000 2> said\necho $?";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "143\n");
    let said = fs::read_to_string(scratch.work().join("said")).expect("it is written");
    assert!(said.contains("step 1.0 ended TIMEOUT"), "{said}");
    assert_eq!(scratch.json("show 1")["steps"][0]["time_limit_s"], 1);
}

/// The signal ended the command, and the step with it.
#[test]
fn a_signal_to_the_command_reaches_the_ranks_of_its_step() {
    let scratch = cluster(1);
    let lines = "storm --quiet run -n 2 sh -c 'trap \"echo saved; exit 0\" USR1; \
                 touch there-$STORM_RANK; while :; do sleep 0.02; done' 2> /dev/null & step=$!\n\
                 while [ ! -e there-0 ] || [ ! -e there-1 ]; do sleep 0.02; done\n\
                 kill -USR1 $step; wait $step; echo $?";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "saved\nsaved\n0\n");
}

#[test]
fn processes_of_a_step_are_spread_as_asked() {
    let scratch = cluster(2);
    let lines = "hosts() { storm -q run \"$@\" sh -c 'echo $SLURMD_NODENAME' | sort | uniq -c | \
                 tr -s ' '; }\n\
                 hosts -n 2 --ntasks-per-node 1\nhosts --ntasks-per-node 2\n\
                 hosts --ntasks-per-node 1 -N 1";
    let done = batch(&scratch, "-N 2 -n 4", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), " 1 n1\n 1 n2\n 2 n1\n 2 n2\n 1 n1\n");
}

#[test]
fn files_of_a_step_are_named_for_the_step_and_the_job() {
    let scratch = cluster(1);
    let lines = "storm run -n 1 true\nstorm run -n 1 -o '%J-%s-%x' echo one\nls [0-9]*";
    let done = batch(&scratch, "-n 2 -J name", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "1.1-1-name\n");
}

/// The place is full of a step that waits for the one inside of it.
#[test]
fn a_step_that_overlaps_needs_no_element() {
    let scratch = cluster(1);
    let lines = "storm run -n 2 sh -c '[ $STORM_RANK = 1 ] || storm run --overlap -n 1 echo inner'";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "inner\n");
}

#[test]
fn a_step_that_is_given_up_while_it_waits_is_no_job() {
    let scratch = cluster(1);
    let lines = "storm -q run -n 2 sh -c 'touch there; while [ ! -e go ]; do sleep 0.02; done' &\n\
                 while [ ! -e there ]; do sleep 0.02; done\n\
                 storm run -n 1 true 2> said & waits=$!\n\
                 while ! grep -q waits said; do sleep 0.02; done\n\
                 kill -INT $waits; kill -TERM $waits; wait $waits; touch go; wait";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    let said = fs::read_to_string(scratch.work().join("said")).expect("it is written");
    assert!(said.contains("the step waits: other steps of job 1 have its elements"), "{said}");
    assert!(said.contains("the step of job 1 ended CANCELLED"), "{said}");
    assert!(said.contains("the command that started it was interrupted"), "{said}");
}

#[test]
fn options_of_jobs_are_refused_for_a_step_and_submit_still_makes_a_job() {
    let scratch = cluster(1);
    let lines = "storm run --partition main true 2> refused\necho $?\n\
                 storm --quiet submit -n 1 -o none true\nenv | grep -c STORM_PLACE\n\
                 STORM_PLACE=1:999999 storm --quiet run -n 1 true 2>> refused || echo former";
    let done = batch(&scratch, "-n 2", lines);
    assert!(done.status.success(), "{} {}", told(&done), out(&scratch));
    assert_eq!(out(&scratch), "2\n2\n1\nformer\n", "status, number of the job, variable, run");
    let refused = fs::read_to_string(scratch.work().join("refused")).expect("it is written");
    assert!(refused.contains("--partition belongs to the job"), "{refused}");
}
