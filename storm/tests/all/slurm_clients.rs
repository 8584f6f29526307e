//! Unmodified programs of others that drive Slurm (`storm/tests/clients`), as an ordinary user of a
//! cluster of four hosts.
//!
//! `.ci/clients` installs them. Without them the tests are skipped, and say so. With
//! `STORM_TEST_CLIENTS` set they fail.

use crate::scratch::hosts::skipped;
use crate::scratch::site::Site;
use crate::scratch::{STORM, stdout, told};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Set where the clients must be there.
const REQUIRED: &str = "STORM_TEST_CLIENTS";

/// Most time of one try. The longest of them, snakemake, starts forty times and takes a quarter of
/// it on a machine of two processors.
const MAX_TRY_S: u32 = 300;

/// The programs of the clients; nothing, with a message, if they are not installed.
fn clients() -> Option<PathBuf> {
    let built = Path::new(STORM).ancestors().nth(2).expect("a target directory");
    let venv = built.join("slurm-clients");
    if venv.join("requirements.txt").exists() {
        return Some(venv.join("bin"));
    }
    let why = format!("nothing is in {}: run .ci/clients", venv.display());
    assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED} is set, and {why}");
    skipped("clients of Slurm", &why);
    None
}

/// Runs a program with a client on a new cluster. `line` has the name of the program of the venv
/// and its words, in which `%` is the directory of this test's files.
fn tried(tools: &Path, line: &str) -> Option<(Site, Output)> {
    let site = Site::start(4, 2)?;
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let line = line.replace('%', &files.display().to_string());
    let mut words = line.split_whitespace();
    let program = tools.join(words.next().expect("a program"));
    let mut command = site.user_runs(tools, MAX_TRY_S, &program);
    let done = command.args(words).output().expect("it starts");
    Some((site, done))
}

/// The output of a program with a client, which must succeed. These clients wait by the clock and
/// give up by it, so there is a second try on a new cluster, and a message of it.
fn prints(line: &str) -> Option<(Site, String)> {
    let tools = clients()?;
    let (site, done) = tried(&tools, line)?;
    if done.status.success() {
        return Some((site, stdout(&done)));
    }
    let said = format!("\nSECOND TRY of {line}: the first ended with {}\n", told(&done));
    let _ = std::io::stderr().write_all(said.as_bytes());
    drop(site);
    let (site, done) = tried(&tools, line)?;
    assert!(done.status.success(), "{line}: {}\n{}", told(&done), site.slurm("squeue -t all"));
    Some((site, stdout(&done)))
}

#[test]
fn dask_jobqueue_computes_on_four_workers_and_ends_them() {
    let Some((site, said)) = prints("python %/dask_workers.py") else { return };
    assert_eq!(said, "workers on 10.77.0.2 10.77.0.3 10.77.0.4 10.77.0.5\nsum 328350\none left\n");
    let states = site.slurm("sacct -X -n -P -o State");
    assert_eq!(states.matches("CANCELLED by ").count(), 4, "{states}");
}

#[test]
fn simple_slurm_submits_lists_and_cancels() {
    let Some((site, said)) = prints("python %/simple.py") else { return };
    let expected = "array 3 4 5\nafter them: all\nlisted PD later 2:03:00\ncancelled\nsrun 0 1\n";
    assert_eq!(said, expected);
    let states = site.slurm("sacct -X -n -P -o JobName,State");
    assert!(states.contains("later|CANCELLED by "), "{states}");
}

/// Twenty steps, one of which fails at first and is done again.
fn workflow_is_done(options: &str) {
    let line = format!(
        "snakemake --executor slurm --jobs 20 --snakefile %/Snakefile --latency-wait 30 \
         --default-resources mem_mb=200 runtime=10 --slurm-init-seconds-before-status-checks 1 \
         --seconds-between-status-checks 1 {options}"
    );
    let Some((site, _)) = prints(&line) else { return };
    let total = std::fs::read_to_string(site.home().join("total"));
    assert_eq!(total.expect("it is the aim"), "1240\n");
    let states = site.slurm("sacct -X -n -P -o State");
    let counted = ["COMPLETED", "FAILED"].map(|state| states.matches(state).count());
    assert_eq!(counted, [20, 1], "{states}");
}

#[test]
#[ignore = "the workflow is done, and sacct lists no failed try"]
fn snakemake_runs_a_workflow_and_retries_the_step_that_fails() {
    workflow_is_done("");
}

#[test]
#[ignore = "its jobs end well, and snakemake waits for their states for ever"]
fn snakemake_submits_arrays() {
    workflow_is_done("--slurm-array-jobs all");
}

#[test]
fn submitit_runs_functions_arrays_and_processes_of_several_nodes() {
    let Some((site, said)) = prints("python %/functions.py") else { return };
    let places = "(0, 0, 0, 4, 2) (1, 1, 0, 4, 2) (2, 0, 1, 4, 2) (3, 1, 1, 4, 2)";
    let expected = format!(
        "one 12 COMPLETED\nmany 10 12 14 16\nwrong True\nplaces {places}\nendless CANCELLED\n"
    );
    assert_eq!(said, expected, "{}", site.slurm("sacct -X"));
}

#[test]
#[ignore = "a signal to a job reaches its script as well"]
fn submitit_goes_on_from_a_checkpoint_after_a_signal() {
    let Some((site, said)) = prints("python %/checkpoint.py") else { return };
    assert_eq!(said, "runs and count 2 10\n", "{}", site.slurm("sacct -X"));
}
