//! The fields of a step in squeue(1).

use crate::view::field::{both, named};
use crate::view::{ArrayPlace, Field, Show, StepFacts, time_text};

/// Every field.
pub const STEP_FIELDS: &[Field<StepFacts>] = &[
    both('i', "stepid", "STEPID", |step, show| format!("{}.{}", step.job.job_id(show), step.id)),
    both('j', "stepname", "NAME", |step, _| step.name.clone()),
    both('A', "numtasks", "TASKS", |step, _| step.tasks.to_string()),
    both('l', "timelimit", "TIME_LIMIT", |_, _| "UNLIMITED".to_owned()),
    both('M', "timeused", "TIME", |step, _| time_text::short(step.ran_s)),
    both('N', "nodes", "NODELIST", |step, _| step.node_list.clone()),
    both('P', "partition", "PARTITION", |step, _| step.job.partition.clone()),
    both('S', "starttime", "START_TIME", |step, show| {
        step.start.map_or_else(|| "N/A".to_owned(), |time| show.time(time))
    }),
    both('u', "username", "USER", |step, _| step.job.user.clone()),
    both('U', "userid", "UID", |step, _| step.job.uid.to_string()),
    named("arrayjobid", "ARRAY_JOB_ID", |step, _| {
        step.job.array.as_ref().map_or(0, |place| place.job).to_string()
    }),
    named("arraytaskid", "ARRAY_TASK_ID", array_task),
    named("cluster", "CLUSTER", |_, show| show.cluster.clone()),
    named("jobid", "JOB_ID", |step, _| step.job.id.to_string()),
    named("stepstate", "STATE", |step, _| step.state.name().to_owned()),
];

fn array_task(step: &StepFacts, show: &Show) -> String {
    let indices = |place: &ArrayPlace| place.indices(show);
    step.job.array.as_ref().map_or_else(|| "N/A".to_owned(), indices)
}
