//! `scontrol show`: jobs, nodes, partitions, reservations, steps and the configuration.

use super::asking::asked;
use super::complaint::Complaint;
use super::job_facts::{JobReader, step_of};
use super::node_facts::{node_facts, partition_facts, reservation_facts};
use super::queue_options::names;
use super::source::{MIN_JOB_AGE_S, Source};
use super::squeue::{INVALID_JOB, is_recent};
use crate::command::print;
use storm_mm::api::{JobFilter, JobView};
use storm_rm::JobId;
use storm_slurm::JobName;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::view::json::queued;
use storm_slurm::view::scontrol::{
    ConfigFacts, JobPart, config, job, node, partition, reservation, step,
};
use storm_slurm::view::squeue::fold_arrays;
use storm_slurm::view::{JobFacts, Show, StateCode};

/// How the records are written.
#[derive(Clone, Copy)]
struct Style {
    /// `--oneliner`.
    one_line: bool,
    /// `--details`.
    details: bool,
}

/// Slurm takes any unambiguous beginning.
enum Entity {
    Job,
    Node,
    Partition,
    Reservation,
    Step,
    Config,
}

impl Entity {
    fn of(word: &str) -> Option<Entity> {
        let word = word.to_lowercase();
        let begins = |name: &str, least: usize| {
            let name_or_more = name.starts_with(&word) || word == format!("{name}s");
            word.len() >= least && name_or_more
        };
        match () {
            () if begins("job", 1) || word == "jobid" => Some(Entity::Job),
            () if begins("node", 1) || word == "nodename" => Some(Entity::Node),
            () if begins("partition", 1) || word == "partitionname" => Some(Entity::Partition),
            () if begins("reservation", 1) || word == "reservationname" => {
                Some(Entity::Reservation)
            }
            () if begins("step", 2) => Some(Entity::Step),
            () if begins("config", 2) => Some(Entity::Config),
            () => None,
        }
    }
}

/// Shows an entity; `words` are those behind `show`.
pub(super) async fn run(line: &CommandLine, words: &[&str]) -> Result<u8, Complaint> {
    let Some(word) = words.first() else {
        return Err(Complaint::plain("too few arguments for keyword:show"));
    };
    // `show job=7` is `show job 7`.
    let (entity, attached) = word.split_once('=').map_or((*word, None), |(e, n)| (e, Some(n)));
    let name = attached.or(words.get(1).copied());
    let Some(entity) = Entity::of(entity) else {
        return Err(Complaint::plain(format!("invalid entity:{entity} for keyword:show ")));
    };
    let style = Style { one_line: line.has("oneliner"), details: line.has("details") };
    let mut source = Source::open().await?;
    let mut show = source.show().await?;
    show.convert = true;
    if line.has("json") && !matches!(entity, Entity::Job) {
        return Err(Complaint::error("only jobs are shown as JSON here")
            .and_told("`sinfo --json` has nodes and partitions, `storm nodes --json` each node"));
    }
    let text = match entity {
        Entity::Job if line.has("json") => json(&mut source, name, &show).await?,
        Entity::Job => jobs(&mut source, name, style, &show).await?,
        Entity::Node => nodes(&mut source, name, style, &show).await?,
        Entity::Partition => partitions(&mut source, name, style).await?,
        Entity::Reservation => reservations(&mut source, name, style, &show).await?,
        Entity::Step => steps(&mut source, name, style, &show).await?,
        Entity::Config => configuration(&mut source, &show).await?,
    };
    print(&text)?;
    Ok(0)
}

async fn views(
    source: &mut Source,
    named: &[JobName],
    show: &Show,
) -> Result<Vec<JobView>, Complaint> {
    let filter = JobFilter {
        jobs: named.iter().map(|name| JobId(name.job)).collect(),
        history: true,
        attributes: true,
        ..JobFilter::default()
    };
    let mut views = source.jobs(filter).await?;
    views.retain(|view| {
        let task = view.array.map(|task| (task.array.0, task.index));
        is_recent(view, show)
            && (named.is_empty() || named.iter().any(|name| name.means(view.id.0, task)))
    });
    Ok(views)
}

/// Jobs in the shape of `squeue --json`.
async fn json(source: &mut Source, name: Option<&str>, show: &Show) -> Result<String, Complaint> {
    let named = names(name.unwrap_or_default(), "").map_err(|_| Complaint::plain(INVALID_JOB))?;
    let views = views(source, &named, show).await?;
    if views.is_empty() && !named.is_empty() {
        return Err(Complaint::plain(INVALID_JOB));
    }
    let mut reader = JobReader::with_priorities(&source.priorities().await?);
    let facts: Vec<JobFacts> = views.iter().map(|view| reader.facts(view)).collect();
    Ok(queued(&facts, &asked(), show))
}

async fn jobs(
    source: &mut Source,
    name: Option<&str>,
    style: Style,
    show: &Show,
) -> Result<String, Complaint> {
    let invalid = || Complaint::plain("scontrol_print_job error: Invalid job id specified");
    let named = names(name.unwrap_or_default(), "").map_err(|_| invalid())?;
    let views = views(source, &named, show).await?;
    if views.is_empty() {
        return match named.is_empty() {
            true => Ok("No jobs in the system\n".to_owned()),
            false => Err(Complaint::plain(INVALID_JOB)),
        };
    }
    let priorities = source.priorities().await?;
    let mut reader = JobReader::with_priorities(&priorities);
    let of_task = named.iter().any(|name| name.tasks.is_some());
    let facts: Vec<JobFacts> = views.iter().map(|view| reader.facts(view)).collect();
    let facts = if of_task { facts } else { fold_arrays(facts) };
    let mut text = String::new();
    for facts in &facts {
        let parts = match style.details {
            true => Some(parts(source, facts).await?),
            false => None,
        };
        text += &job(facts, parts.as_deref(), show, style.one_line);
    }
    Ok(text)
}

/// The parts of a job of its nodes.
async fn parts(source: &mut Source, job: &JobFacts) -> Result<Vec<JobPart>, Complaint> {
    if job.node_list.is_empty() {
        return Ok(Vec::new());
    }
    let places = source.places(JobId(job.id)).await?;
    let memory_mib = |cpus: u32| match job.memory {
        storm_slurm::view::MemoryAsked::PerNode(bytes) => bytes >> 20,
        storm_slurm::view::MemoryAsked::PerCpu(bytes) => (bytes >> 20) * u64::from(cpus),
        _ => 0,
    };
    let part = |(node, procs): (String, u32)| {
        let cpus = procs.saturating_mul(job.cpus_per_task);
        JobPart { node, cpus, memory_mib: memory_mib(cpus) }
    };
    Ok(places.into_iter().map(part).collect())
}

async fn nodes(
    source: &mut Source,
    name: Option<&str>,
    style: Style,
    show: &Show,
) -> Result<String, Complaint> {
    let views = source.nodes().await?;
    let wanted = match name {
        None => views.iter().map(|view| view.name.clone()).collect(),
        Some(list) => expand(list).map_err(|error| Complaint::plain(error.to_string()))?,
    };
    let mut text = String::new();
    for name in &wanted {
        let found = views.iter().find(|view| view.name == *name);
        let found = found.ok_or_else(|| Complaint::plain(format!("Node {name} not found")))?;
        text += &node(&node_facts(found), show, style.one_line);
    }
    Ok(text)
}

async fn partitions(
    source: &mut Source,
    name: Option<&str>,
    style: Style,
) -> Result<String, Complaint> {
    let (views, nodes) = (source.partitions().await?, source.nodes().await?);
    let wanted = views.iter().filter(|view| name.is_none_or(|name| name == view.name));
    let texts = wanted.map(|view| partition(&partition_facts(view, &nodes), style.one_line));
    let text: String = texts.collect();
    match (text.is_empty(), name) {
        (true, Some(name)) => Err(Complaint::plain(format!("Partition {name} not found"))),
        _ => Ok(text),
    }
}

async fn reservations(
    source: &mut Source,
    name: Option<&str>,
    style: Style,
    show: &Show,
) -> Result<String, Complaint> {
    let views = source.reservations().await?;
    let wanted = views.iter().filter(|view| name.is_none_or(|name| name == view.name));
    let texts = wanted.map(|view| reservation(&reservation_facts(view), show, style.one_line));
    let text: String = texts.collect();
    match (text.is_empty(), name) {
        (true, Some(name)) => Err(Complaint::plain(format!("Reservation {name} not found"))),
        (true, None) => Ok("No reservations in the system\n".to_owned()),
        (false, _) => Ok(text),
    }
}

async fn steps(
    source: &mut Source,
    name: Option<&str>,
    style: Style,
    show: &Show,
) -> Result<String, Complaint> {
    let named = names(name.unwrap_or_default(), "Invalid job_step id: ")?;
    let views = views(source, &named, show).await?;
    let mut reader = JobReader::default();
    let mut text = String::new();
    for view in &views {
        let facts = reader.facts(view);
        let is_over = facts.state.is_final() || facts.state == StateCode::Configuring;
        let Some(found) = step_of(view, &facts).filter(|_| !is_over) else { continue };
        let meant = |name: &JobName| name.step.as_deref().is_none_or(|own| own == found.id);
        if named.is_empty() || named.iter().any(meant) {
            text += &step(&found, show, style.one_line);
        }
    }
    match (text.is_empty(), name) {
        (true, Some(name)) => Err(Complaint::plain(format!("Job step {name} not found"))),
        (true, None) => Ok("No job steps in the system\n".to_owned()),
        (false, _) => Ok(text),
    }
}

async fn configuration(source: &mut Source, show: &Show) -> Result<String, Complaint> {
    let partitions = source.partitions().await?;
    let default = partitions.iter().find(|partition| partition.default);
    let quantum_us = default.and_then(|partition| partition.quantum_us).unwrap_or(0);
    let status = source.status().await?;
    let facts = ConfigFacts {
        started: status.started,
        manager: None,
        min_job_age_s: u64::try_from(MIN_JOB_AGE_S).unwrap_or(0),
        max_array_size: storm_rm::ArraySpec::MAX_TASKS,
        kill_wait_s: KILL_WAIT_S,
        quantum_s: quantum_us.div_ceil(1_000_000),
        nodes: status.nodes,
        next_job: status.jobs_submitted + 1,
        version: storm_slurm::VERSION.trim_start_matches("slurm ").to_owned(),
    };
    Ok(config(&facts, show))
}

/// The default of `kill-grace`: the manager does not tell its setting.
const KILL_WAIT_S: u64 = 5;
