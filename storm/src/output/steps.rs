//! Tables of steps.

use super::table_form::table;
use super::written;
use storm_mm::api::{JobView, StepView};

/// Most steps that `show` lists: the latest.
const STEPS_SHOWN: usize = 32;

const COLUMNS: [&str; 9] =
    [">STEP", "NAME", "STATE", ">TIME", ">PROCS", "NODES", ">EXIT", ">CPU ms", ">MAX RSS"];

/// The steps of jobs.
pub(super) fn of_jobs(jobs: &[JobView]) -> String {
    let rows = jobs.iter().flat_map(|job| job.steps.iter().map(|step| row(job, step)));
    table(&COLUMNS, rows)
}

/// The latest steps of a job, for `show`; nothing if it has none.
pub(super) fn of_job(job: &JobView) -> String {
    if job.steps.is_empty() {
        return String::new();
    }
    let earlier = job.steps.len().saturating_sub(STEPS_SHOWN);
    let text = table(&COLUMNS, job.steps[earlier..].iter().map(|step| row(job, step)));
    match earlier {
        0 => format!("\n{text}"),
        _ => format!("\n{text}{earlier} earlier steps: `storm hist --steps`, or --json\n"),
    }
}

fn row(job: &JobView, step: &StepView) -> Vec<String> {
    let dash = || "-".to_owned();
    let cpu = step.user_us.zip(step.system_us).map(|(user, system)| user.saturating_add(system));
    let state = match step.ending {
        true => "ENDING".to_owned(),
        false => step.state.to_string(),
    };
    vec![
        format!("{}.{}", job.job_name(), step.step),
        written::shortened(&step.name),
        state,
        written::seconds(step.elapsed_s),
        step.procs.to_string(),
        step.node_list.clone(),
        step.exit.map_or_else(dash, written::exit),
        cpu.map_or_else(dash, |us| format!("{:.1}", us as f64 / 1e3)),
        step.max_rss_kib.map_or_else(dash, |kib| written::bytes(kib.saturating_mul(1024))),
    ]
}
