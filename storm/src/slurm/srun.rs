//! srun(1) outside of a job: runs a job and follows it, as `storm run` does. In the place of a
//! script it starts a step ([`srun_step`]).

use super::asking::{named_cluster, place, refused_submission};
use super::complaint::Complaint;
use super::node_counts::fitted;
use super::sbatch::refuse_both_memories;
use super::srun_step;
use crate::cli::JobOptions;
use crate::command::job::followed;
use crate::command::note;
use crate::command::step::OwnPlace;
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
    if typed.operands.is_empty() {
        let complaint = Complaint::told("fatal: No command given to execute.");
        return Err(complaint);
    }
    if typed.text("mpi").is_some_and(|mpi| mpi == "list") {
        note("MPI plugin types are...\n\tnone\n\tpmix\n\tpmi1\n");
        return Ok(0);
    }
    refuse_both_memories(&typed.options)?;
    if let Some(own) = OwnPlace::of_process(&JobOptions::default())? {
        return srun_step::run(typed, own).await;
    }
    if let Some(job) = std::env::var_os(JOB_VARIABLE) {
        return Err(no_place(&job));
    }
    let line = option_variables(typed)?;
    refuse_options_of_steps(&line)?;
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

/// The options with those that variables stand for.
pub(super) fn option_variables(typed: &CommandLine) -> Result<CommandLine, Complaint> {
    let variables = of_variables(Verb::Srun, |name| std::env::var_os(name));
    let variables = variables.map_err(|error| Complaint::error(error.to_string()))?;
    let options = merged([variables, typed.options.clone()]);
    Ok(CommandLine { options, operands: typed.operands.clone() })
}

/// Whether the first process that fails ends the others.
pub(super) fn kills_on_bad_exit(line: &CommandLine) -> bool {
    let option = "kill-on-bad-exit";
    line.has(option) && line.text(option).is_none_or(|text| text != "0")
}

/// The program cannot be started here or on the nodes: the status is that of a shell.
pub(super) fn launched(failure: Failure) -> Complaint {
    let status = failure.exit;
    Complaint::from(failure).exit(status)
}

/// A job of one program has no place for steps.
fn no_place(job: &OsStr) -> Complaint {
    let text = format!("job {} is a program, and its elements are all taken", job.display());
    Complaint::error(text).and_told("a script of sbatch has a place in which srun starts steps")
}

/// Refuses options that have a meaning in the place of a script only.
fn refuse_options_of_steps(line: &CommandLine) -> Result<(), Complaint> {
    let refused = [
        ("overcommit", "each task of a job has an element: ask for fewer tasks"),
        (
            "immediate",
            "a job waits until it can run: `storm submit` and `storm wait --timeout` bound that",
        ),
        ("relative", "only a step has nodes before its own: srun starts steps in a script"),
        ("jobid", "steps start in the job's script only"),
    ];
    match refused.into_iter().find(|(name, _)| line.has(name)) {
        None => Ok(()),
        Some((name, why)) => Err(Complaint::error(format!("--{name}: {why}"))),
    }
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
    words.extend(kills_on_bad_exit(line).then(|| "--kill-on-bad-exit".into()));
    words.push("--".into());
    words.extend(line.operands.iter().cloned());
    Ok(crate::command::batch::merged(&words, Vec::new())?)
}

/// The option for `--input`. A file becomes the standard input of this process.
pub(super) fn input(line: &CommandLine) -> Result<Option<OsString>, Complaint> {
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

/// salloc(1).
pub(super) fn no_allocations() -> Complaint {
    Failure::new("not-built", "an allocation without a script is not there yet")
        .hint("`storm batch` runs a script in a place, `storm run` a program")
        .into()
}
