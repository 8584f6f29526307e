//! The verbs with a single question: `queue`, `hist`, `show`, `explain`, `nodes`, `drain`,
//! `resume`; and `cancel`.

use super::misunderstood::misunderstood;
use super::naming::{resolve, resolve_one};
use super::{choices, connect, note, print};
use crate::cli::{
    CancelOptions, DrainOptions, HistOptions, JobArgument, JobName, NodesOptions, QueueOptions,
    ResumeOptions, WhichJobs,
};
use crate::failure::{EXIT_FAILED, Failure};
use crate::manager::Manager;
use crate::output::{ArrayStates, Changed, Output};
use nix::unistd::User;
use storm_mm::api::{
    CancelOutcome, Client, ErrorCode, HistoryQuery, JobFilter, JobState, JobView, MAX_NAMED,
    ManagerRequest, Reply,
};
use storm_rm::{ArrayTask, JobId};

pub(super) async fn queue(options: QueueOptions, output: &dyn Output) -> Result<u8, Failure> {
    let manager = choices(&options.cluster)?.required()?.open()?;
    let WhichJobs { user, me, state: states, partition } = options.which;
    let (uids, users) = if me { myself(&manager) } else { who(user, &manager)? };
    let mut client = manager.connect().await?;
    let jobs = resolve(&mut client, &options.jobs).await?;
    // A job asked for by number alone is either listed, or never existed, or was forgotten.
    let sought = jobs.clone();
    let any = states.is_empty() && uids.is_empty() && users.is_empty();
    let filter =
        JobFilter { states, uids, users, jobs, history: options.all, ..JobFilter::default() };
    let mut jobs = list(&mut client, filter).await?;
    if let Some(job) = sought.into_iter().find(|job| any && !is_listed(*job, &jobs)) {
        return Err(no_such_job(job));
    }
    retain_partitions(&mut client, &mut jobs, &partition).await?;
    print(&output.jobs(&jobs)).map(|()| 0)
}

pub(crate) async fn list(client: &mut Client, filter: JobFilter) -> Result<Vec<JobView>, Failure> {
    match client.call(ManagerRequest::Jobs(filter)).await? {
        Reply::Jobs { jobs, .. } => Ok(jobs),
        other => Err(misunderstood(&other)),
    }
}

/// Keeps only jobs of these partitions, or all if none is named. If no job is left, checks the
/// partitions' names.
async fn retain_partitions(
    client: &mut Client,
    jobs: &mut Vec<JobView>,
    partitions: &[String],
) -> Result<(), Failure> {
    if partitions.is_empty() {
        return Ok(());
    }
    jobs.retain(|job| partitions.contains(&job.partition));
    if !jobs.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = match client.call(ManagerRequest::Partitions).await? {
        Reply::Partitions { partitions } => partitions.into_iter().map(|p| p.name).collect(),
        other => return Err(misunderstood(&other)),
    };
    match partitions.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::new("no-such-partition", format!("there is no partition {name}"))
                .hint(format!("there are {}", known.join(", "))))
        }
    }
}

fn is_listed(job: JobId, jobs: &[JobView]) -> bool {
    jobs.iter().any(|view| view.id == job || view.array.is_some_and(|task| task.array == job))
}

pub(super) fn no_such_job(job: JobId) -> Failure {
    Failure::new("no-such-job", format!("there is no job {job}"))
        .hint("storm queue --all lists those that are remembered")
}

/// The first of these jobs that the manager does not know, not even as ended.
pub(super) async fn first_unknown(
    client: &mut Client,
    jobs: Vec<JobId>,
) -> Result<Option<JobId>, Failure> {
    if jobs.is_empty() {
        return Ok(None);
    }
    let filter = JobFilter { jobs: jobs.clone(), history: true, ..JobFilter::default() };
    let known = list(client, filter).await?;
    Ok(jobs.into_iter().find(|job| !is_listed(*job, &known)))
}

/// Default number of ended jobs in a listing for users.
const HISTORY_LISTED: u32 = 20;

pub(super) async fn hist(options: HistOptions, output: &dyn Output) -> Result<u8, Failure> {
    let manager = choices(&options.cluster)?.required()?.open()?;
    let (uids, users) = match options.me {
        true => myself(&manager),
        false => who(options.user, &manager)?,
    };
    let mut client = manager.connect().await?;
    let jobs = resolve(&mut client, &options.jobs).await?;
    let sought = jobs.clone();
    let any = uids.is_empty() && users.is_empty() && options.partition.is_empty();
    let wanted = match options.limit {
        Some(most) => most,
        None if output.is_for_programs() => u32::MAX,
        // One more job shows that there are more.
        None => HISTORY_LISTED + 1,
    };
    let states = options.state;
    // The manager does not filter by partition.
    let limit = if options.partition.is_empty() { wanted } else { u32::MAX };
    let query = HistoryQuery { states, uids, users, jobs, limit, ..HistoryQuery::default() };
    match client.call(ManagerRequest::History(query)).await? {
        Reply::Jobs { mut jobs, .. } => {
            retain_partitions(&mut client, &mut jobs, &options.partition).await?;
            jobs.truncate(wanted as usize);
            if options.limit.is_none() && jobs.len() == wanted as usize {
                jobs.pop();
                let latest = jobs.len();
                note(&output.note(&format!("the latest {latest}: `-n` says how many are listed")));
            }
            // A job that is not listed may exist: it has not ended, or is beyond the limit.
            let missing = sought.into_iter().filter(|job| any && !is_listed(*job, &jobs));
            match first_unknown(&mut client, missing.collect()).await? {
                Some(job) => Err(no_such_job(job)),
                None => print(&output.jobs(&jobs)).map(|()| 0),
            }
        }
        other => Err(misunderstood(&other)),
    }
}

pub(super) async fn show(options: JobArgument, output: &dyn Output) -> Result<u8, Failure> {
    let mut client = connect(&options.cluster).await?;
    let job = resolve_one(&mut client, options.job).await?;
    match client.call(ManagerRequest::Show { job }).await? {
        Reply::Job { job } => {
            let array = array_states(&mut client, options.job, job.view.array).await?;
            print(&output.job(&job, array.as_ref())).map(|()| 0)
        }
        other => Err(misunderstood(&other)),
    }
}

pub(super) async fn explain(options: JobArgument, output: &dyn Output) -> Result<u8, Failure> {
    let mut client = connect(&options.cluster).await?;
    let job = resolve_one(&mut client, options.job).await?;
    match client.call(ManagerRequest::Explain { job }).await? {
        Reply::Explanation { explanation } => {
            let array = array_states(&mut client, options.job, explanation.array).await?;
            print(&output.explanation(&explanation, array.as_ref())).map(|()| 0)
        }
        other => Err(misunderstood(&other)),
    }
}

/// The states of an array's jobs if `asked` names an array. The manager describes only `told`.
async fn array_states(
    client: &mut Client,
    asked: JobName,
    told: Option<ArrayTask>,
) -> Result<Option<ArrayStates>, Failure> {
    if asked.task.is_some() || told.is_none_or(|task| task.array != asked.job) {
        return Ok(None);
    }
    let jobs = vec![asked.job];
    let filter = JobFilter { jobs, history: true, ..JobFilter::default() };
    Ok(Some(ArrayStates::new(asked.job, &list(client, filter).await?)))
}

pub(super) async fn nodes(options: NodesOptions, output: &dyn Output) -> Result<u8, Failure> {
    if options.fabric {
        return super::fabric::list(output);
    }
    match connect(&options.cluster).await?.call(ManagerRequest::Nodes).await? {
        Reply::Nodes { nodes } => print(&output.nodes(&nodes, options.long)).map(|()| 0),
        other => Err(misunderstood(&other)),
    }
}

pub(super) async fn drain(options: DrainOptions, output: &dyn Output) -> Result<u8, Failure> {
    let DrainOptions { nodes, reason, cluster } = options;
    let nodes = nodes.join(",");
    let request = ManagerRequest::Drain { nodes: nodes.clone(), reason };
    match connect(&cluster).await?.call(request).await? {
        Reply::Ok => print(&output.drained(&nodes, true)).map(|()| 0),
        other => Err(misunderstood(&other)),
    }
}

pub(super) async fn resume(options: ResumeOptions, output: &dyn Output) -> Result<u8, Failure> {
    let ResumeOptions { nodes, cluster } = options;
    let nodes = nodes.join(",");
    let request = ManagerRequest::Resume { nodes: nodes.clone() };
    match connect(&cluster).await?.call(request).await? {
        Reply::Ok => print(&output.drained(&nodes, false)).map(|()| 0),
        other => Err(misunderstood(&other)),
    }
}

/// `cancel`: fails if any of the jobs could not be ended.
pub(super) async fn cancel(options: CancelOptions, output: &dyn Output) -> Result<u8, Failure> {
    // A cancelled job has `kill-grace` to end; `storm queue` shows when it has.
    let signal = options.signal;
    let done = if signal.is_some() { "Signalled" } else { "Cancelling" };
    // A job that has left these states since the listing is not to be cancelled.
    let states = options.which.state.clone();
    let request = |jobs| ManagerRequest::Cancel { jobs, signal, states: states.clone() };
    if options.which.is_any() {
        return super::changing::change(&options.cluster, &options.jobs, request, done, output)
            .await;
    }
    let manager = choices(&options.cluster)?.required()?.open()?;
    let WhichJobs { user, me, state, partition } = options.which;
    let (uids, users) = if me { myself(&manager) } else { who(user, &manager)? };
    let mut client = manager.connect().await?;
    let named = resolve(&mut client, &options.jobs).await?;
    if let Some(job) = first_unknown(&mut client, named.clone()).await? {
        return Err(no_such_job(job));
    }
    // If jobs are not named, only those that can get a signal are selected.
    let waiting_too = signal.is_none() || !named.is_empty() || !state.is_empty();
    let filter = JobFilter { states: state, uids, users, jobs: named, ..JobFilter::default() };
    let mut jobs = list(&mut client, filter).await?;
    // Named jobs are listed even if they have ended, and `state` may be a final one.
    jobs.retain(|job| !job.state.is_final() && (waiting_too || job.state != JobState::Pending));
    retain_partitions(&mut client, &mut jobs, &partition).await?;
    if jobs.is_empty() {
        super::note(&output.note("no waiting or running job matches: nothing is cancelled"));
    }
    let mut changed = Vec::new();
    for some in jobs.chunks(MAX_NAMED) {
        let numbers = some.iter().map(|job| job.id).collect();
        let outcomes = outcomes(client.call(request(numbers)).await?)?;
        let meant = some.iter().zip(outcomes).filter(|(_, outcome)| {
            outcome.error.as_ref().is_none_or(|error| error.code != ErrorCode::OtherState)
        });
        changed.extend(meant.map(|(job, outcome)| Changed {
            id: Some(job.id),
            name: job.job_name(),
            error: outcome.error,
        }));
    }
    report_changes(&changed, done, output)
}

pub(super) fn outcomes(reply: Reply) -> Result<Vec<CancelOutcome>, Failure> {
    match reply {
        Reply::Cancelled { jobs } | Reply::Altered { jobs } => Ok(jobs),
        other => Err(misunderstood(&other)),
    }
}

/// Prints the results for the jobs, and returns the exit status.
pub(super) fn report_changes(
    changed: &[Changed],
    done: &str,
    output: &dyn Output,
) -> Result<u8, Failure> {
    print(&output.changed(changed, done))?;
    super::note(&output.unchanged(changed));
    let failed = changed.iter().any(|one| one.error.is_some());
    Ok(if failed { EXIT_FAILED } else { 0 })
}

/// A filter for the user as whom the manager knows this command: numbers and names. On another host
/// that is the user of the key, whose number there may be another.
pub(crate) fn myself(manager: &Manager) -> (Vec<u32>, Vec<String>) {
    match manager {
        Manager::Remote { key, .. } => (Vec::new(), vec![key.user().as_str().to_owned()]),
        Manager::Socket(_) => (vec![nix::unistd::geteuid().as_raw()], Vec::new()),
    }
}

/// A filter for a user by name or number: numbers, and names, which the manager's host knows better
/// than this host.
pub(crate) fn who(
    user: Option<String>,
    manager: &Manager,
) -> Result<(Vec<u32>, Vec<String>), Failure> {
    let Some(user) = user else { return Ok((Vec::new(), Vec::new())) };
    if let Ok(uid) = user.parse() {
        return Ok((vec![uid], Vec::new()));
    }
    if let Manager::Remote { .. } = manager {
        return Ok((Vec::new(), vec![user]));
    }
    match User::from_name(&user) {
        Ok(Some(found)) => Ok((vec![found.uid.as_raw()], Vec::new())),
        Ok(None) => Err(Failure::new("no-such-user", format!("there is no user {user}"))
            .hint("a user id works as well")),
        Err(error) => Err(Failure::of("no-such-user", &error)),
    }
}
