//! The variables of a step in the place of a script. They tell the step and its ranks under STORM's
//! names and under those of Slurm; the variables of the place come with the script's environment.

use crate::JobTask;
use crate::environment::NodeNames;
use crate::script_environment::per_node;
use std::ffi::OsString;
use storm_rm::{FirstStep, Rank, StepId};

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

/// The variables of a rank of a step in the place of a script; none for any other rank.
pub(crate) fn step_variables(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
) -> Vec<(&'static str, OsString)> {
    let launch = &task.launch;
    let (StepId::Number(step), FirstStep::Script) = (launch.step.step, task.spec().first) else {
        return Vec::new();
    };
    let number = |value: u64| OsString::from(value.to_string());
    let (job, step) = (number(launch.step.job.0), number(step.into()));
    let size = number(launch.size().into());
    let node = launch.ranks.iter().take_while(|share| share.node != names.node).count() as u64;
    let local = u64::from(rank.0.saturating_sub(task.first.0));
    let here = task.ranks().map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    vec![
        ("STORM_STEP_ID", step.clone()),
        ("SLURM_STEP_ID", step.clone()),
        ("SLURM_STEPID", step),
        ("SLURM_STEP_NODELIST", OsString::from(&launch.node_list)),
        ("SLURM_STEP_NUM_NODES", number(launch.ranks.iter().count() as u64)),
        ("SLURM_STEP_NUM_TASKS", size.clone()),
        ("SLURM_STEP_TASKS_PER_NODE", per_node(launch.ranks.iter(), 1).into()),
        ("SLURM_JOB_ID", job.clone()),
        ("SLURM_JOBID", job),
        ("SLURM_NNODES", number(launch.ranks.iter().count() as u64)),
        ("SLURM_TASKS_PER_NODE", per_node(launch.ranks.iter(), 1).into()),
        ("SLURM_NTASKS", size.clone()),
        ("SLURM_NPROCS", size),
        ("SLURM_PROCID", number(rank.0.into())),
        ("SLURM_LOCALID", number(local)),
        ("SLURM_NODEID", number(node)),
        ("SLURM_GTIDS", here.into()),
        ("SLURMD_NODENAME", OsString::from(&names.name)),
    ]
}
