//! scancel(1): ends jobs, or sends them a signal.
//!
//! Jobs that do not exist are no mistake unless a signal is sent, as in Slurm: a job may have ended
//! just before.

use super::asking::{means, named_cluster, place};
use super::complaint::Complaint;
use crate::cli::parse_signal;
use crate::command::listing::{list, myself, who};
use crate::command::misunderstood::misunderstood;
use crate::command::note;
use crate::failure::{EXIT_FAILED, Failure};
use crate::manager::Manager;
use crate::output::for_people;
use std::collections::HashSet;
use std::io::BufRead;
use storm_mm::api::{
    ApiError, Client, ErrorCode, JobDetail, JobFilter, JobState, JobView, MAX_NAMED,
    ManagerRequest, Reply,
};
use storm_rm::JobId;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::{JobName, Verb};

/// Options that choose among jobs, in the order of Slurm's text, and their names there.
const FILTERS: [(&str, &str); 8] = [
    ("account", "account"),
    ("name", "job_name"),
    ("partition", "partition"),
    ("qos", "qos"),
    ("reservation", "reservation"),
    ("state", "state"),
    ("user", "user_name"),
    ("nodelist", "nodelist"),
];
/// The signal that ends a job, as no signal does.
const SIGKILL: i32 = 9;

/// How the jobs are to end.
struct Order {
    /// `None` ends them.
    signal: Option<i32>,
    states: Vec<JobState>,
    quiet: bool,
    verbose: bool,
    /// Whether Slurm tells of jobs that do not exist: it sends another signal than SIGKILL, or asks
    /// first.
    strict: bool,
}

/// A job to end, under the name that the user knows.
struct Target {
    id: JobId,
    name: String,
}

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    let names = line.operands.iter().map(|word| word.to_string_lossy().parse::<JobName>());
    let names = names.collect::<Result<Vec<JobName>, _>>();
    let names = names.map_err(|error| Complaint::error(error.to_string()))?;
    let filters = line.has("me") || FILTERS.iter().any(|(option, _)| line.has(option));
    if names.is_empty() && !filters {
        return Err(Complaint::error("No job identification provided"));
    }
    if let Some(step) = names.iter().find(|name| name.step.is_some()) {
        let text =
            format!("Kill job error on job step id {step}: a step is ended only with its job");
        return Err(Complaint::error(text).and_told(format!("`scancel {}` ends the job", step.job)));
    }
    let order = order(line)?;
    let place = place()?;
    named_cluster(line, &place).await?;
    let manager = place.open()?;
    let mut client = manager.connect().await.map_err(Failure::from)?;
    let known = jobs(&mut client, &manager, line, &names).await?;
    let mut failed = false;
    for name in &names {
        if !known.iter().any(|job| means(name, job)) {
            failed |= order.absent(&name.to_string(), "Invalid job id specified");
        }
    }
    let mut chosen = Vec::new();
    for job in known {
        // Filters choose among jobs that have not ended. A job that was named is tried anyway.
        let has_ended = job.state.is_final();
        if (has_ended && filters) || !matches(&mut client, line, &order, &job).await? {
            continue;
        }
        if !has_ended && line.has("interactive") && !confirmed(&job) {
            continue;
        }
        chosen.push(Target { id: job.id, name: job.job_name() });
    }
    if chosen.is_empty() && filters && order.verbose {
        order.tell_of_filters(line);
    }
    failed |= cancel(&mut client, &order, &chosen).await?;
    Ok(if failed { EXIT_FAILED } else { 0 })
}

fn order(line: &CommandLine) -> Result<Order, Complaint> {
    let signal = match line.text("signal") {
        None => None,
        Some(text) => match parse_signal(&text) {
            Ok(number) => Some(number).filter(|number| *number != SIGKILL),
            Err(_) => return Err(Complaint::plain(format!("Unknown job signal: {text}"))),
        },
    };
    let mut states = Vec::new();
    for text in line.list("state") {
        states.push(state(&text).ok_or_else(|| {
            Complaint::plain(format!(
                "Invalid job state specified: {text}\nValid job states are PENDING, RUNNING, and \
                 SUSPENDED"
            ))
        })?);
    }
    Ok(Order {
        signal,
        states,
        quiet: line.has("quiet"),
        verbose: line.has("verbose"),
        strict: signal.is_some() || ["batch", "interactive"].iter().any(|name| line.has(name)),
    })
}

fn state(text: &str) -> Option<JobState> {
    let known = [("PD", JobState::Pending), ("R", JobState::Running), ("S", JobState::Suspended)];
    let is = |(letters, state): &&(&str, JobState)| {
        letters.eq_ignore_ascii_case(text) || state.name().eq_ignore_ascii_case(text)
    };
    known.iter().find(is).map(|(_, state)| *state)
}

impl Order {
    /// Tells that a job is not there to be ended, if Slurm does. Whether it counts as a failure.
    fn absent(&self, name: &str, why: &str) -> bool {
        if self.strict || self.verbose {
            self.complain(name, why);
        }
        self.strict
    }

    /// Tells that a job was not ended.
    fn complain(&self, name: &str, why: &str) {
        if !self.quiet {
            let text = for_people(&format!("Kill job error on job id {name}: {why}"));
            note(&format!("{}: error: {text}\n", Verb::Scancel));
        }
    }

    fn tell_of_filters(&self, line: &CommandLine) {
        let given = FILTERS.iter().filter_map(|(option, shown)| {
            line.text(option).map(|value| format!("{shown}={value} "))
        });
        let given: String = given.collect();
        note(&format!(
            "{}: error: No active jobs match ALL job filters, including: {given}\n",
            Verb::Scancel
        ));
    }
}

/// The jobs that are named, or all jobs that have not ended; only those of the users asked for.
async fn jobs(
    client: &mut Client,
    manager: &Manager,
    line: &CommandLine,
    names: &[JobName],
) -> Result<Vec<JobView>, Complaint> {
    let mut numbers: Vec<JobId> = names.iter().map(|name| JobId(name.job)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (uids, users) = match line.text("user") {
        _ if line.has("me") => myself(manager),
        None => (Vec::new(), Vec::new()),
        Some(user) => who(Some(user.clone().into_owned()), manager)
            .map_err(|_| Complaint::error(format!("Invalid user name: {user}")))?,
    };
    let mut all = Vec::new();
    let parts: Vec<&[JobId]> =
        if numbers.is_empty() { vec![&[]] } else { numbers.chunks(MAX_NAMED).collect() };
    for part in parts {
        let filter = JobFilter {
            uids: uids.clone(),
            users: users.clone(),
            jobs: part.to_vec(),
            ..JobFilter::default()
        };
        all.extend(list(client, filter).await?);
    }
    if !names.is_empty() {
        all.retain(|job| names.iter().any(|name| means(name, job)));
    }
    Ok(all)
}

/// Whether a job passes the filters.
async fn matches(
    client: &mut Client,
    line: &CommandLine,
    order: &Order,
    job: &JobView,
) -> Result<bool, Complaint> {
    let among = |option: &str, value: &str| {
        !line.has(option) || line.list(option).iter().any(|wanted| wanted == value)
    };
    let is_state = order.states.is_empty() || order.states.contains(&job.state);
    if !is_state || !among("partition", &job.partition) || !among("name", &job.name) {
        return Ok(false);
    }
    if let Some(nodes) = line.text("nodelist") {
        let wrong =
            |error: storm_slurm::host_list::NotAHostList| Complaint::error(error.to_string());
        let wanted: HashSet<String> = expand(&nodes).map_err(wrong)?.into_iter().collect();
        let here = expand(&job.node_list).map_err(wrong)?;
        if !here.iter().any(|node| wanted.contains(node)) {
            return Ok(false);
        }
    }
    // Listings do not have these.
    if !["account", "qos", "reservation"].iter().any(|option| line.has(option)) {
        return Ok(true);
    }
    let Some(detail) = detail(client, job.id).await? else { return Ok(false) };
    let is = |option: &str, value: &Option<String>| among(option, value.as_deref().unwrap_or(""));
    Ok(is("account", &detail.account)
        && is("qos", &detail.qos)
        && is("reservation", &detail.reservation))
}

/// Everything about a job; `None` if the manager forgot it meanwhile.
async fn detail(client: &mut Client, job: JobId) -> Result<Option<Box<JobDetail>>, Complaint> {
    match client.call(ManagerRequest::Show { job }).await {
        Ok(Reply::Job { job }) => Ok(Some(job)),
        Ok(other) => Err(misunderstood(&other).into()),
        Err(storm_mm::api::ClientError::Refused(ApiError {
            code: ErrorCode::NoSuchJob, ..
        })) => Ok(None),
        Err(error) => Err(Failure::from(error).into()),
    }
}

/// Asks the user about a job.
fn confirmed(job: &JobView) -> bool {
    note(&format!(
        "Cancel job_id={} name={} partition={} [y/n]? ",
        job.job_name(),
        for_people(&job.name),
        for_people(&job.partition)
    ));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && answer.starts_with(['y', 'Y'])
}

/// Whether any of the jobs could not be ended.
async fn cancel(client: &mut Client, order: &Order, jobs: &[Target]) -> Result<bool, Complaint> {
    let mut failed = false;
    for some in jobs.chunks(MAX_NAMED) {
        if order.verbose {
            for job in some {
                let what = match order.signal {
                    Some(signal) => format!("Signal {signal} to job {}", job.name),
                    None => format!("Terminating job {}", job.name),
                };
                note(&format!("{}: {what}\n", Verb::Scancel));
            }
        }
        let request = ManagerRequest::Cancel {
            jobs: some.iter().map(|job| job.id).collect(),
            signal: order.signal,
            states: order.states.clone(),
        };
        let outcomes = match client.call(request).await.map_err(Failure::from)? {
            Reply::Cancelled { jobs } => jobs,
            other => return Err(misunderstood(&other).into()),
        };
        for (job, outcome) in some.iter().zip(outcomes) {
            failed |= match outcome.error {
                None => false,
                Some(error) => told(order, job, &error),
            };
        }
    }
    Ok(failed)
}

/// Tells why a job was not ended. Whether it counts as a failure.
fn told(order: &Order, job: &Target, error: &ApiError) -> bool {
    let why = match error.code {
        // It left the wanted state after the listing.
        ErrorCode::OtherState => return false,
        ErrorCode::NoSuchJob => return order.absent(&job.name, "Invalid job id specified"),
        ErrorCode::JobEnded => {
            return order.absent(&job.name, "Job/step already completing or completed");
        }
        ErrorCode::NotPermitted => "Access/permission denied",
        _ => &error.message,
    };
    order.complain(&job.name, why);
    true
}
