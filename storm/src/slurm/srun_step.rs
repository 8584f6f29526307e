//! srun(1) in a job: starts a step in the place of the job's script and follows it.

use super::asking::place;
use super::complaint::Complaint;
use super::srun::{input, kills_on_bad_exit, launched, option_variables};
use super::step_shape::AskedShape;
use crate::attach::{STEP_WAITS, StepWaiting};
use crate::cli::{JobOptions, parse_node_list};
use crate::command::note;
use crate::command::step::{NewStep, OwnPlace, followed};
use crate::failure::Failure;
use crate::job_request::step_request;
use crate::outcome::Outcome;
use crate::output::for_people;
use std::ffi::OsString;
use storm_mm::api::{JobState, Submission};
use storm_rm::{StepLayout, StepSize};
use storm_slurm::host_list::{expand, fold};
use storm_slurm::options::{CommandLine, job_words};
use storm_slurm::{Verb, options};

/// The variable with the nodes of the job.
const NODES_VARIABLE: &str = "SLURM_JOB_NODELIST";
/// The variable with the elements of each process. Slurm 22.05 reads the first one only, Slurm
/// 23.11 both.
const CPUS_VARIABLES: [&str; 2] = ["SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"];

/// The options of a step that storm has under its own names. The other options of jobs are the
/// job's: Slurm takes no notice of them in a job.
const OF_STEPS: [&str; 12] = [
    "chdir",
    "cpu-bind",
    "error",
    "export",
    "job-name",
    "label",
    "mem",
    "mem-per-cpu",
    "mpi",
    "open-mode",
    "output",
    "time",
];

/// Runs the command as a step.
pub(super) async fn run(typed: &CommandLine, own: OwnPlace) -> Result<u8, Complaint> {
    refuse_other_job(typed, &own)?;
    let line = without_memory_of_job(option_variables(typed)?, typed);
    let quiet = line.has("quiet");
    let mut warn = |text: String| {
        if !quiet || text.starts_with("error: ") {
            note(&format!("srun: {text}\n"));
        }
    };
    let shape = asked(&line, typed)?.shape(&mut warn)?;
    let options = step_options(&line)?;
    let step = NewStep {
        submission: submission(&options, shape.per_node)?,
        layout: StepLayout {
            per_node: shape.per_node,
            overcommit: line.has("overcommit"),
            required: listed(&shape.required),
            excluded: listed(&shape.excluded),
        },
        size: StepSize {
            procs: shape.procs,
            nodes: Some(shape.nodes),
            elements_each: shape.elements_each,
            memory: crate::job_request::memory(&options),
            share: shape.share,
            time_limit: options.time,
        },
        label: options.label,
        waiting: match line.has("immediate") {
            true => StepWaiting::Refused,
            false => StepWaiting::ToldAsBySrun,
        },
    };
    let manager = place()?.open()?;
    let outcome = followed(own, &manager, step, options.export.as_ref(), quiet).await;
    let outcome = outcome.map_err(|failure| refused(failure, &own))?;
    if let Some(text) = ending(&outcome).filter(|_| !quiet) {
        note(&format!("srun: {}\n", for_people(&text)));
    }
    Ok(outcome.interrupted.unwrap_or(outcome.exit_code))
}

/// The line without the variables that tell the job's memory. Without `--mem` a step gets its
/// elements' share: otherwise two steps would not fit beside each other.
fn without_memory_of_job(mut line: CommandLine, typed: &CommandLine) -> CommandLine {
    let of_job = ["mem", "mem-per-cpu"];
    line.options.retain(|given| {
        let name = given.option.name();
        !of_job.contains(&name.as_str()) || typed.has(&name)
    });
    line
}

/// The nodes of a list, folded.
fn listed(nodes: &[String]) -> Option<String> {
    (!nodes.is_empty()).then(|| fold(nodes.iter().map(String::as_str)))
}

fn refuse_other_job(typed: &CommandLine, own: &OwnPlace) -> Result<(), Complaint> {
    let (Some(named), own) = (typed.text("jobid"), own.job.to_string()) else { return Ok(()) };
    match *named == *own {
        true => Ok(()),
        false => Err(Complaint::error(format!(
            "--jobid={named}: this is a script of job {own}, and its steps run in that job"
        ))),
    }
}

/// The wishes of the options and the variables.
fn asked(line: &CommandLine, typed: &CommandLine) -> Result<AskedShape, Complaint> {
    let number = |name: &str| line.text(name).and_then(|text| text.parse::<u32>().ok());
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let cpus_each =
        number("cpus-per-task").or_else(|| CPUS_VARIABLES.into_iter().find_map(variable));
    let nodes = line.text("nodes").and_then(|text| {
        let (least, most) = text.split_once('-').unwrap_or((&text, &text));
        Some((least.parse().ok()?, most.parse().ok()?))
    });
    let place = std::env::var(NODES_VARIABLE).ok();
    let place = place.and_then(|list| expand(&list).ok()).unwrap_or_default();
    let relative = match line.text("relative") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Complaint::error(format!("Invalid numeric value \"{text}\" for --relative."))
        })?),
    };
    Ok(AskedShape {
        procs: number("ntasks"),
        nodes,
        nodes_typed: typed.has("nodes"),
        per_node: number("ntasks-per-node"),
        cpus_each,
        required: nodes_of(line, "nodelist")?,
        excluded: nodes_of(line, "exclude")?,
        relative,
        exact: line.has("exact") || line.has("exclusive") || cpus_each.is_some(),
        overlap: line.has("overlap"),
        overcommit: line.has("overcommit"),
        place,
    })
}

/// The nodes of an option.
fn nodes_of(line: &CommandLine, option: &str) -> Result<Vec<String>, Complaint> {
    let Some(text) = line.text(option).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let wrong = |why: String| Complaint::error(format!("invalid --{option}: {why}"));
    let list = parse_node_list(&text).map_err(|error| wrong(error.to_string()))?;
    expand(&list.folded).map_err(|error| wrong(error.to_string()))
}

fn step_options(line: &CommandLine) -> Result<JobOptions, Complaint> {
    let mut words: Vec<OsString> = vec!["storm".into(), "run".into()];
    let of_steps = |given: &&options::Given| OF_STEPS.contains(&given.option.name().as_str());
    words.extend(
        line.options.iter().filter(of_steps).flat_map(|given| job_words(Verb::Srun, given)),
    );
    words.extend(input(line)?);
    words.extend(kills_on_bad_exit(line).then(|| "--kill-on-bad-exit".into()));
    words.push("--".into());
    words.extend(line.operands.iter().cloned());
    Ok(crate::command::batch::merged(&words, Vec::new())?)
}

/// The program with the surroundings of the step.
fn submission(options: &JobOptions, per_node: Option<u32>) -> Result<Submission, Complaint> {
    let mut submission = step_request(options).map_err(launched)?;
    let Submission { spec, .. } = &mut submission;
    if let Some(each) = per_node {
        spec.step.env = spec.step.env.with("SLURM_NTASKS_PER_NODE", &each.to_string());
    }
    if let Some(name) = &options.name {
        spec.step.env = spec.step.env.with("SLURM_JOB_NAME", name);
    }
    Ok(submission)
}

/// A step that was not accepted: our reason, and Slurm's text.
fn refused(failure: Failure, own: &OwnPlace) -> Complaint {
    let job = own.job;
    let not_made = |why: &str| format!("Unable to create step for job {job}: {why}");
    match failure.code.as_str() {
        STEP_WAITS => Complaint::error(not_made("Requested nodes are busy")),
        "infeasible" => {
            let text = not_made("More processors requested than permitted");
            Complaint::error(text).and_told(failure.message)
        }
        "no-such-node" => {
            let text = not_made("Requested node configuration is not available");
            Complaint::error(text).and_told(failure.message)
        }
        "no-such-job" | "job-ended" => Complaint::error(format!(
            "Unable to confirm allocation for job {job}: Invalid job id specified"
        ))
        .and_told(failure.message),
        _ => {
            let status = failure.exit;
            Complaint::from(failure).exit(status)
        }
    }
}

/// The line about a step that did not end well.
fn ending(outcome: &Outcome) -> Option<String> {
    let Outcome { job, step, state, exit_code, reason, node_list, .. } = outcome;
    let name = step.flatten().map_or_else(|| job.to_string(), |number| format!("{job}.{number}"));
    let nodes = node_list.clone().unwrap_or_default();
    Some(match (state, reason) {
        (JobState::Completed, _) => return None,
        (JobState::Cancelled, _) => format!("Force Terminated StepId={name}"),
        (JobState::Timeout, _) => {
            format!("error: *** STEP {name} ON {nodes} CANCELLED DUE TO TIME LIMIT ***")
        }
        (_, Some(reason)) => format!("error: {nodes}: {reason}"),
        (_, None) => format!("error: {nodes}: Exited with exit code {exit_code}"),
    })
}
