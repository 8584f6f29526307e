//! sacct(1): jobs and their steps, from the manager's jobs and its history.

use super::asking::asked;
use super::complaint::Complaint;
use super::job_facts::{JobReader, step_of, step_use};
use super::sacct_options::Options;
use super::source::Source;
use crate::command::print;
use storm_mm::api::JobView;
use storm_slurm::options::CommandLine;
use storm_slurm::view::json::{Accounted, accounted};
use storm_slurm::view::sacct::{SacctRow, help_format};
use storm_slurm::view::squeue::fold_arrays;
use storm_slurm::view::{JobFacts, Show, StateCode};

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&help_format(|_| true)).map(|()| 0)?);
    }
    let options = Options::of(line)?;
    let mut source = Source::open().await?;
    let mut show = source.show().await?;
    show.index_chars = None;
    let others = source.is_one_of(&line.list("clusters")).await?;
    let named = line.list("clusters").len();
    // Slurm tells nothing of a cluster that its database does not have.
    let elsewhere = named > 0 && others.len() == named;
    let views = match elsewhere {
        true => Vec::new(),
        false => source.jobs(options.filter()).await?,
    };
    if line.has("json") {
        print(&accounted(&with_steps(rows(&views, &options, &show)), &asked(), &show))?;
        return Ok(0);
    }
    let mut text = match options.heads {
        true => options.layout.heads(&options.form),
        false => String::new(),
    };
    let rows = rows(&views, &options, &show);
    text.extend(rows.iter().map(|row| options.layout.row(row, &show, options.unit, &options.form)));
    print(&text)?;
    Ok(0)
}

/// Jobs with their steps, of rows in which steps follow their job.
fn with_steps(rows: Vec<SacctRow>) -> Vec<Accounted> {
    let mut jobs: Vec<Accounted> = Vec::new();
    for row in rows {
        match row {
            SacctRow::Job { job, used } => {
                jobs.push(Accounted { job: *job, used, steps: Vec::new() });
            }
            // A step whose job is filtered out has no record to be in.
            SacctRow::Step(step) => {
                if let Some(job) = jobs.last_mut().filter(|last| last.job.id == step.job.id) {
                    job.steps.push(*step);
                }
            }
        }
    }
    jobs
}

/// The rows of these jobs, in the order of their numbers.
fn rows(views: &[JobView], options: &Options, show: &Show) -> Vec<SacctRow> {
    let mut reader = JobReader::default();
    let mut rows = Vec::new();
    let mut waiting: Vec<JobFacts> = Vec::new();
    for view in views {
        let mut job = reader.facts(view);
        if !options.has(&job) {
            continue;
        }
        // Jobs of an array that wait share a row, which follows those of the array that do not.
        if !options.each_task && job.state == StateCode::Pending && job.array.is_some() {
            waiting.push(job);
            continue;
        }
        if !belongs_to(&job, &waiting) {
            rows.extend(fold_arrays(std::mem::take(&mut waiting)).into_iter().map(alone));
        }
        let step = step_of(view, &job).filter(|step| options.has_step(&job, &step.id));
        if options.truncate {
            options.window.truncate(&mut job, show.now);
        }
        let more = view.attributes.as_ref();
        let used = more.and_then(|more| Some(step_use(more.used.as_ref()?, job.tasks)));
        if options.shows_job(&job) {
            rows.push(SacctRow::Job { job: Box::new(job), used });
        }
        if !options.only_jobs {
            rows.extend(step.map(|step| SacctRow::Step(Box::new(step))));
        }
    }
    rows.extend(fold_arrays(waiting).into_iter().map(alone));
    rows
}

fn alone(job: JobFacts) -> SacctRow {
    SacctRow::Job { job: Box::new(job), used: None }
}

/// Whether the job is of the same array as those that wait.
fn belongs_to(job: &JobFacts, waiting: &[JobFacts]) -> bool {
    let array = job.array.as_ref().map(|place| place.job);
    waiting.first().is_none_or(|first| array == Some(first.array_id()))
}
