//! The variables of a step in the place of a script. They tell the step and its ranks under STORM's
//! names and under those of Slurm; the variables of the place come with the script's environment.

use crate::JobTask;
use crate::environment::NodeNames;
use crate::script_environment::per_node;
use std::ffi::OsString;
use storm_rm::{FirstStep, Rank, StepId};

/// The elements of each process. Slurm sets it only if a number was asked for.
const CPUS_VARIABLE: &str = "SLURM_CPUS_PER_TASK";
/// Names the job and the run of its place, in which `storm run` starts steps.
const PLACE_VARIABLE: &str = "STORM_PLACE";

/// The variables of this module besides those that a script has, too. A job that a step submits
/// does not get them.
pub(crate) const STEPS_OWN: [&str; 8] = [
    PLACE_VARIABLE,
    "STORM_STEP_ID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
];

/// The place of a script and of its steps. A job that is a program has none, so `storm run` in it
/// submits a job.
pub(crate) fn place_variable(task: &JobTask) -> Option<(&'static str, OsString)> {
    match task.spec().first {
        FirstStep::Program => None,
        FirstStep::Script => {
            let launch = &task.launch;
            let place = format!("{}:{}", launch.step.job, launch.place.0);
            Some((PLACE_VARIABLE, place.into()))
        }
    }
}

/// The most ranks of a node that a variable lists: Linux takes at most 128 KiB for a variable
/// (execve(2)), and the environment of all ranks holds the list.
const MAX_GTIDS: u32 = 4096;

/// The variables that all ranks of a step have on a node, be it the program of a job or a step in
/// the place of a script.
pub(crate) fn shared_step_variables(
    task: &JobTask,
    names: &NodeNames,
) -> Vec<(&'static str, OsString)> {
    let launch = &task.launch;
    let StepId::Number(step) = launch.step.step else { return Vec::new() };
    let number = |value: u64| OsString::from(value.to_string());
    let before = launch.ranks.iter().take_while(|share| share.node != names.node).count();
    let mut all = vec![
        ("SLURM_NODEID", number(before as u64)),
        ("SLURM_STEP_ID", number(step.into())),
        ("SLURM_STEPID", number(step.into())),
        ("SLURM_STEP_NODELIST", OsString::from(&launch.node_list)),
        ("SLURM_STEP_NUM_NODES", number(launch.ranks.iter().count() as u64)),
        ("SLURM_STEP_NUM_TASKS", number(launch.size().into())),
        ("SLURM_STEP_TASKS_PER_NODE", per_node(launch.ranks.iter(), 1).into()),
    ];
    if task.count <= MAX_GTIDS {
        let ranks: Vec<String> = task.ranks().map(|rank| rank.to_string()).collect();
        all.push(("SLURM_GTIDS", ranks.join(",").into()));
    }
    all
}

/// The variables of a rank of a step in the place of a script; none for any other rank.
///
/// The environment has those of the place. Of these, Slurm gives a step its own numbers of nodes
/// and processes, but `SLURM_NODELIST` stays that of the job.
pub(crate) fn step_variables(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
) -> Vec<(&'static str, OsString)> {
    let (launch, spec) = (&task.launch, task.spec());
    let (StepId::Number(step), FirstStep::Script) = (launch.step.step, spec.first) else {
        return Vec::new();
    };
    let number = |value: u64| OsString::from(value.to_string());
    let (job, size) = (number(launch.step.job.0), number(launch.size().into()));
    let local = u64::from(rank.0.saturating_sub(task.first.0));
    let mut all = shared_step_variables(task, names);
    all.extend([
        ("STORM_STEP_ID", number(step.into())),
        ("SLURM_JOB_ID", job.clone()),
        ("SLURM_JOBID", job),
        ("SLURM_NNODES", number(launch.ranks.iter().count() as u64)),
        ("SLURM_TASKS_PER_NODE", per_node(launch.ranks.iter(), 1).into()),
        ("SLURM_NTASKS", size.clone()),
        ("SLURM_NPROCS", size),
        ("SLURM_PROCID", number(rank.0.into())),
        ("SLURM_LOCALID", number(local)),
        ("SLURMD_NODENAME", OsString::from(&names.name)),
    ]);
    let each = spec.resources.cpus_per_task;
    let of_place = spec.step.env.iter().any(|(name, _)| name.as_os_str() == CPUS_VARIABLE);
    if each > 1 || of_place {
        all.push((CPUS_VARIABLE, number(each.into())));
    }
    all
}
