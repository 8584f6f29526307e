//! srun(1) outside of a job: runs a job and follows it, as `storm run` does.
//!
//! In a job, srun is refused: only `storm run` starts steps.

use super::asking::{named_cluster, place, refused_submission};
use super::complaint::Complaint;
use super::node_counts::fitted;
use super::sbatch::refuse_both_memories;
use crate::cli::JobOptions;
use crate::command::job::followed;
use crate::command::note;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::output::for_people;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use storm_mm::api::JobState;
use storm_slurm::Verb;
use storm_slurm::options::{CommandLine, job_words, merged, of_variables};

/// The variable that each job has.
const JOB_VARIABLE: &str = "STORM_JOB_ID";

pub(super) async fn run(typed: &CommandLine) -> Result<u8, Complaint> {
    if let Some(job) = std::env::var_os(JOB_VARIABLE) {
        return Err(no_steps(Verb::Srun, &job));
    }
    if typed.operands.is_empty() {
        let complaint = Complaint::told("fatal: No command given to execute.");
        return Err(complaint);
    }
    if typed.text("mpi").is_some_and(|mpi| mpi == "list") {
        note("MPI plugin types are...\n\tnone\n\tpmix\n\tpmi1\n");
        return Ok(0);
    }
    refuse_both_memories(&typed.options)?;
    let variables = of_variables(Verb::Srun, |name| std::env::var_os(name));
    let variables = variables.map_err(|error| Complaint::error(error.to_string()))?;
    let options = merged([variables, typed.options.clone()]);
    let line = CommandLine { options, operands: typed.operands.clone() };
    let place = place()?;
    named_cluster(&line, &place).await?;
    let options = job_options(&line)?;
    let mut warn = |text: &str| note(&format!("srun: {text}\n"));
    let options = fitted(options, &mut warn);
    let outcome = followed(place, &options, &mut warn).await;
    let outcome = outcome.map_err(|failure| refused_submission(failure, "Job"))?;
    if let Some(text) = ending(&outcome).filter(|_| !line.has("quiet")) {
        note(&format!("srun: {}\n", for_people(&text)));
    }
    Ok(outcome.interrupted.unwrap_or(outcome.exit_code))
}

/// A command that needs steps, in a job.
pub(super) fn no_steps(verb: Verb, job: &OsStr) -> Complaint {
    let text = format!("job {} has no steps yet: {verb} starts nothing in it", job.display());
    Complaint::error(text).and_told(
        "programs that the script starts run on its node; `storm run -n 4 PROGRAM` starts a step \
         in a script's place",
    )
}

/// The line about a job that did not end well.
fn ending(outcome: &Outcome) -> Option<String> {
    let Outcome { job, state, exit_code, reason, node_list, .. } = outcome;
    let nodes = node_list.clone().unwrap_or_default();
    Some(match (state, reason) {
        (JobState::Completed, _) => return None,
        (JobState::Cancelled, _) => format!("Force Terminated job {job}"),
        (JobState::Timeout, _) => format!("error: {nodes}: job {job} CANCELLED DUE TO TIME LIMIT"),
        (_, Some(reason)) => format!("error: {nodes}: {reason}"),
        (_, None) => format!("error: {nodes}: Exited with exit code {exit_code}"),
    })
}

fn job_options(line: &CommandLine) -> Result<JobOptions, Complaint> {
    let mut words: Vec<OsString> = vec!["storm".into(), "run".into()];
    let counts = |name: &str| name != "kill-on-invalid-dep" || line.has("dependency");
    let counted = line.options.iter().filter(|given| counts(&given.option.name()));
    words.extend(counted.flat_map(|given| job_words(Verb::Srun, given)));
    words.extend(input(line)?);
    words.push("--".into());
    words.extend(line.operands.iter().cloned());
    Ok(crate::command::batch::merged(&words, Vec::new())?)
}

/// The option for `--input`. A file becomes the standard input of this process.
fn input(line: &CommandLine) -> Result<Option<OsString>, Complaint> {
    let Some(value) = line.value("input") else { return Ok(None) };
    let text = value.to_string_lossy();
    match &*text {
        "none" | "all" | "0" => return Ok(Some(format!("--input={text}").into())),
        "-" => return Ok(None),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(Complaint::error(format!(
                "--input={number}: task 0 or all tasks read input"
            )));
        }
        _ => {}
    }
    let failed = |error: std::io::Error| {
        Complaint::error(format!("Could not open stdin file {text}: {error}"))
    };
    let file = File::open(value).map_err(failed)?;
    nix::unistd::dup2_stdin(&file).map_err(|error| failed(error.into()))?;
    Ok(Some("--input=all".into()))
}

/// salloc(1): an allocation has steps, which are not there yet.
pub(super) fn no_allocations() -> Complaint {
    Failure::new("not-built", "a job has no steps yet, and an allocation is nothing without them")
        .hint("`storm batch` runs a script in a place, `storm run` a program")
        .into()
}
