//! squeue(1): jobs that wait, run or have just ended, and their steps.

use super::asking::asked;
use super::complaint::Complaint;
use super::job_facts::{JobReader, step_of};
use super::queue_options::QueueOptions;
use super::source::{MIN_JOB_AGE_S, Source};
use crate::command::{note, print};
use std::time::Duration;
use storm_mm::api::{JobFilter, JobView};
use storm_rm::JobId;
use storm_slurm::options::CommandLine;
use storm_slurm::view::json::queued;
use storm_slurm::view::squeue::{JOB_FIELDS, fold_arrays};
use storm_slurm::view::{JobFacts, Show, StateCode, help_format};

/// Slurm's message about a job that does not exist.
pub(super) const INVALID_JOB: &str = "slurm_load_jobs error: Invalid job id specified";

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&help_format(JOB_FIELDS)).map(|()| 0)?);
    }
    let options = QueueOptions::of(line, &|name| std::env::var(name).ok())?;
    for complaint in &options.notes {
        note(&format!("squeue: error: {complaint}\n"));
    }
    if options.misses_users {
        // Slurm ends these complaints with an empty line.
        note("\n");
    }
    let mut source = Source::open().await?;
    let others = source.is_one_of(&options.clusters).await?;
    if let Some(other) = others.first() {
        return Err(Complaint::error(format!("No cluster '{other}' known by database."))
            .and_error(format!(
                "'{other}' can't be reached now, or it is an invalid entry for --cluster.  Use \
                 'sacctmgr list clusters' to see available clusters."
            )));
    }
    loop {
        let text = match line.has("json") {
            true => document(&options, &mut source).await?,
            false => listing(&options, &mut source).await?,
        };
        print(&text)?;
        let Some(seconds) = options.iterate_s else { return Ok(0) };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

/// A whole listing.
async fn listing(options: &QueueOptions, source: &mut Source) -> Result<String, Complaint> {
    let mut show = source.show().await?;
    show.convert = options.convert;
    let views = views(options, options.needs_attributes(), source, &show).await?;
    let mut reader = match options.needs_priorities() {
        true => JobReader::with_priorities(&source.priorities().await?),
        false => JobReader::default(),
    };
    let mut text = heading(options, &show);
    match &options.steps {
        Some(layout) => {
            for view in &views {
                let facts = reader.facts(view);
                let step = step_of(view, &facts).filter(|step| options.has_step(&facts, &step.id));
                let step = step.filter(|_| options.has(&facts) && !facts.state.is_final());
                text.extend(step.map(|step| layout.row(&step, &show)));
            }
        }
        None => {
            let jobs = views.iter().map(|view| reader.facts(view));
            let jobs: Vec<JobFacts> = jobs.filter(|job| options.has(job)).collect();
            let mut jobs = if options.each_task { jobs } else { fold_arrays(jobs) };
            options.order.sort(&mut jobs, &show);
            text.extend(jobs.iter().map(|job| options.layout.row(job, &show)));
        }
    }
    Ok(text)
}

/// The jobs as a document of JSON, with all that is known.
async fn document(options: &QueueOptions, source: &mut Source) -> Result<String, Complaint> {
    let show = source.show().await?;
    let views = views(options, true, source, &show).await?;
    let mut reader = JobReader::with_priorities(&source.priorities().await?);
    let jobs = views.iter().map(|view| reader.facts(view));
    let jobs: Vec<JobFacts> = jobs.filter(|job| options.has(job)).collect();
    let mut jobs = if options.each_task { jobs } else { fold_arrays(jobs) };
    options.order.sort(&mut jobs, &show);
    Ok(queued(&jobs, &asked(), &show))
}

/// The jobs that the options may choose.
async fn views(
    options: &QueueOptions,
    attributes: bool,
    source: &mut Source,
    show: &Show,
) -> Result<Vec<JobView>, Complaint> {
    check_nodes(options, source).await?;
    let filter = JobFilter {
        states: options.api_states(),
        uids: options.uids.clone(),
        users: options.users.clone(),
        jobs: options.jobs.iter().map(|name| JobId(name.job)).collect(),
        history: options.with_ended(),
        attributes,
        steps: false,
        part: None,
    };
    let mut views = if options.nobody { Vec::new() } else { source.jobs(filter).await? };
    views.retain(|view| is_recent(view, show));
    if options.jobs.len() == 1 && views.is_empty() && !known(options, source, show).await? {
        return Err(Complaint::plain(INVALID_JOB));
    }
    Ok(views)
}

/// The lines before the jobs.
fn heading(options: &QueueOptions, show: &Show) -> String {
    let mut text = String::new();
    if options.heads && !options.clusters.is_empty() {
        text += &format!("CLUSTER: {}\n", show.cluster);
    }
    if options.iterate_s.is_some() || (options.long && options.heads) {
        text += &format!("{}\n", show.date_line());
    }
    if options.heads {
        text += &options.steps.as_ref().map_or_else(|| options.layout.heads(), |l| l.heads());
    }
    text
}

/// Whether the job that was asked for is known in another state.
async fn known(
    options: &QueueOptions,
    source: &mut Source,
    show: &Show,
) -> Result<bool, Complaint> {
    let jobs = options.jobs.iter().map(|name| JobId(name.job)).collect();
    let filter = JobFilter { jobs, history: true, ..JobFilter::default() };
    Ok(source.jobs(filter).await?.iter().any(|view| is_recent(view, show)))
}

/// Whether Slurm's controller would still know the job.
pub(super) fn is_recent(view: &JobView, show: &Show) -> bool {
    view.ended.is_none_or(|ended| show.now.duration_since(ended).as_secs() <= MIN_JOB_AGE_S)
}

/// Refuses names of nodes that do not exist.
async fn check_nodes(options: &QueueOptions, source: &mut Source) -> Result<(), Complaint> {
    if options.nodes.is_empty() {
        return Ok(());
    }
    let nodes = source.nodes().await?;
    let unknown = options.nodes.iter().find(|name| !nodes.iter().any(|node| node.name == **name));
    match unknown {
        None => Ok(()),
        Some(name) => Err(Complaint::error(format!("Invalid node name {name}"))),
    }
}

/// The states that squeue lists if none is asked for.
pub(super) const DEFAULT_STATES: [StateCode; 5] = [
    StateCode::Pending,
    StateCode::Configuring,
    StateCode::Running,
    StateCode::Suspended,
    StateCode::Completing,
];
