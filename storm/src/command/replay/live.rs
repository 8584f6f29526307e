//! Replays the trace on a cluster at the requested speed. Each job is submitted at its time, and
//! does nothing for as long as it ran. The report compares the cluster with the policy in virtual
//! time.
//!
//! The cluster decides which job starts when. Launch costs would add up along chains of jobs, and
//! at a speedup of 500 be as long as many jobs. Two measures prevent that:
//! - The start of a job is the time when the policy allocated its elements.
//! - A job whose elements were allocated as planned ends as planned. A job that got them at another
//!   time runs for as long as it ran in the log.

use super::CODE;
use crate::attach::Interrupts;
use crate::cli::{JobOptions, ReplayOptions};
use crate::command::choices;
use crate::command::misunderstood::misunderstood;
use crate::command::note;
use crate::command::on_cluster::on_cluster;
use crate::command::progress::Counter;
use crate::failure::{EXIT_USAGE, Failure};
use crate::job_request::job_request;
use crate::local_cluster::LocalClusterShape;
use crate::manager::Manager;
use std::collections::HashMap;
use std::ffi::OsString;
use std::pin::{Pin, pin};
use std::time::Duration;
use storm_mm::api::{Client, JobFilter, JobView, ManagerRequest, PartitionView, Reply};
use storm_replay::{JobIndex, Trace, TraceJob};
use storm_rm::JobId;
use storm_sched::metrics::JobOutcome;
use storm_sched::{DEFAULT_QUANTUM, SchedTime};
use tokio::time::{Instant, sleep, sleep_until};

/// Most jobs that are submitted to a cluster; a single request asks about all of them.
const MAX_LIVE_JOBS: usize = 10_000;
/// Most processing elements of a node of an embedded cluster.
const MAX_NODE_PES: u32 = 1_024;
/// Pause between two requests for the jobs that have ended.
const POLL: Duration = Duration::from_millis(200);
/// The replay fails if no job ends for this long.
const MAX_QUIET: Duration = Duration::from_secs(600);
/// How long submitted jobs may take to end when the replay has failed.
const CLEAN_UP: Duration = Duration::from_secs(10);
/// Shortest time limit of a job.
const SHORTEST_LIMIT: Duration = Duration::from_millis(1);

/// Replays on the selected cluster or an embedded one. Returns the outcomes in the order of the
/// trace, with times of the log.
pub(super) async fn replay(
    options: &ReplayOptions,
    trace: &Trace,
    planned: &[JobOutcome],
    silent: bool,
) -> Result<Vec<JobOutcome>, Failure> {
    let jobs = trace.jobs().len();
    if jobs > MAX_LIVE_JOBS {
        let message = format!("{jobs} jobs are too many for a live replay");
        let hint = format!("replay a part of the log, at most {MAX_LIVE_JOBS} jobs");
        return Err(Failure::new(CODE, message).hint(hint));
    }
    let mut interrupts = Interrupts::listen()?;
    let plan = Plan::new(options, trace, planned)?;
    if let Some(place) = choices(&options.cluster)?.place()? {
        let own = [("--nodes", options.nodes.is_some()), ("--param", !options.params.is_empty())];
        if let Some((option, _)) = own.iter().find(|(_, given)| *given) {
            let message = format!(
                "{option} is for an embedded cluster, but the jobs go to a running cluster"
            );
            return Err(Failure::new("usage", message)
                .hint("leave it out to use that cluster, or end a kept cluster with `storm down`")
                .exit(EXIT_USAGE));
        }
        let manager = place.open()?;
        tell_of_size(&manager, options, trace).await?;
        return on(&manager, &plan, pin!(interrupts.next()), silent).await;
    }
    let shape = shape(options, trace)?;
    on_cluster(&shape, 0, &mut interrupts, async |socket| {
        // An interruption ends the cluster and its jobs.
        on(&Manager::at(socket), &plan, pin!(std::future::pending()), silent).await
    })
    .await
}

/// Notes that a cluster has another size than the log's machine: the results cannot be compared
/// then.
async fn tell_of_size(
    manager: &Manager,
    options: &ReplayOptions,
    trace: &Trace,
) -> Result<(), Failure> {
    let partitions = match manager.connect().await?.call(ManagerRequest::Partitions).await? {
        Reply::Partitions { partitions } => partitions,
        other => return Err(misunderstood(&other)),
    };
    let policy = |partition: &&PartitionView| partition.sched == options.sched;
    let Some(partition) = partitions.iter().find(policy) else { return Ok(()) };
    let (name, pes, machine) = (&partition.name, partition.pes, trace.pes());
    if pes != machine {
        note(&format!(
            "storm: the cluster's partition {name} has {pes} processing elements, the log's \
             machine {machine}: do not compare their figures (with --pes {pes} the log is for such \
             a machine)\n"
        ));
    }
    Ok(())
}

/// An embedded cluster with as many processing elements as the trace's machine.
fn shape(options: &ReplayOptions, trace: &Trace) -> Result<LocalClusterShape, Failure> {
    let (pes, nodes) = (trace.pes(), options.nodes.unwrap_or(1));
    let each = pes / nodes;
    if pes % nodes != 0 || each > MAX_NODE_PES {
        let message = format!("no embedded cluster of {nodes} nodes has {pes} processing elements");
        return Err(Failure::new(CODE, message)
            .hint("give --nodes a divisor of --pes; a node has at most 1024 of them"));
    }
    Ok(LocalClusterShape {
        nodes,
        pes: each,
        sched: vec![options.sched.clone()],
        quantum: options.quantum.unwrap_or(DEFAULT_QUANTUM),
        params: options.params.clone(),
        switch_log: None,
        backend: None,
    })
}

/// The jobs to submit, with their planned starts.
struct Plan<'a> {
    options: &'a ReplayOptions,
    trace: &'a Trace,
    /// In the order of the trace.
    planned: &'a [JobOutcome],
    /// Whether the policy allocates elements to each job until it ends.
    shares_space: bool,
}

impl<'a> Plan<'a> {
    fn new(
        options: &'a ReplayOptions,
        trace: &'a Trace,
        planned: &'a [JobOutcome],
    ) -> Result<Plan<'a>, Failure> {
        let shares_space = super::policy(options, trace.pes())?.quantum().is_none();
        Ok(Plan { options, trace, planned, shares_space })
    }

    fn first(&self) -> SchedTime {
        self.trace.jobs().first().map_or(SchedTime::ZERO, |job| job.submit)
    }

    /// A time of the log, relative to the start of the replay.
    fn after(&self, time: SchedTime) -> Duration {
        time.since(self.first()).div_f64(self.options.speedup)
    }

    /// The cluster's job for a job of the log.
    fn job_options(
        &self,
        index: JobIndex,
        job: &TraceJob,
        begun: jiff::Timestamp,
    ) -> Result<JobOptions, Failure> {
        let own = std::env::current_exe().map_err(|error| Failure::of("program", &error))?;
        let speedup = self.options.speedup;
        let run_us = job.run.div_f64(speedup).as_micros().max(1);
        let mut program: Vec<OsString> =
            vec![own.into(), "nap".into(), format!("{run_us}us").into()];
        // If other jobs may stop a job, its start does not determine its end.
        if let Some(planned) = self.planned.get(index.0 as usize).filter(|_| self.shares_space) {
            let start = self.after(planned.start).as_micros() as i64;
            program.push(format!("--planned={}", begun.as_microsecond() + start).into());
        }
        Ok(JobOptions {
            procs: Some(job.procs),
            sched: Some(self.options.sched.clone()),
            name: Some(format!("log-{}", job.number)),
            time: Some(job.estimate.div_f64(speedup).max(SHORTEST_LIMIT)),
            no_bcast: true,
            output: Some("/dev/null".into()),
            program,
            ..JobOptions::default()
        })
    }
}

/// Plays the trace. On a failure, or when `interrupted` yields an exit status, cancels its jobs.
async fn on(
    manager: &Manager,
    plan: &Plan<'_>,
    interrupted: Pin<&mut impl Future<Output = u8>>,
    silent: bool,
) -> Result<Vec<JobOutcome>, Failure> {
    let mut submitted = HashMap::new();
    let done = play(manager, plan, &mut submitted, interrupted, silent).await;
    if done.is_err() {
        abandon(manager, submitted.keys().copied().collect()).await;
    }
    done
}

async fn play(
    manager: &Manager,
    plan: &Plan<'_>,
    submitted: &mut HashMap<JobId, JobIndex>,
    mut interrupted: Pin<&mut impl Future<Output = u8>>,
    silent: bool,
) -> Result<Vec<JobOutcome>, Failure> {
    let interruption = |status| {
        Failure::new("interrupted", "the replay was interrupted: its jobs are cancelled")
            .exit(status)
    };
    let mut client = manager.connect().await?;
    let (begun, begun_at) = (Instant::now(), jiff::Timestamp::now());
    let trace = plan.trace;
    let counter = Counter::new(silent, "jobs submitted", trace.jobs().len() as u64);
    for (index, job) in (0..).map(JobIndex).zip(trace.jobs()) {
        let request = job_request(&plan.job_options(index, job, begun_at)?, false)?;
        // Interrupted only here and below, where every submitted job is known.
        tokio::select! {
            () = sleep_until(begun + plan.after(job.submit)) => {}
            status = &mut interrupted => return Err(interruption(status)),
        }
        let (id, _) = client.submit(request, |_| {}).await?;
        submitted.insert(id, index);
        counter.one_more();
    }
    drop(counter);
    let views = tokio::select! {
        views = ended(manager, submitted.keys().copied().collect(), silent) => views?,
        status = &mut interrupted => return Err(interruption(status)),
    };
    let mut outcomes = Vec::with_capacity(views.len());
    for view in &views {
        let job = submitted.get(&view.id).and_then(|index| Some((*index, trace.job(*index)?)));
        let Some((index, job)) = job else { continue };
        let placed = placed(&mut client, view).await?.ok_or_else(|| {
            let why = view.reason.clone().unwrap_or_else(|| "it never started".to_owned());
            let mut failure =
                Failure::new(CODE, format!("job {} of the log failed on the cluster", job.number));
            failure.causes.push(why);
            failure.hint("`storm show` and the cluster's log say more")
        })?;
        let time = |stamp: jiff::Timestamp| {
            let later = Duration::try_from(stamp.duration_since(begun_at)).unwrap_or_default();
            plan.first() + later.mul_f64(plan.options.speedup)
        };
        let &TraceJob { run, procs, .. } = job;
        let (start, end) = (time(placed), view.ended.map_or(time(placed), time));
        outcomes.push((index, JobOutcome { submit: time(view.submitted), start, end, run, procs }));
    }
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// The time when the policy allocated a job's elements; `None` if it never started.
async fn placed(client: &mut Client, view: &JobView) -> Result<Option<jiff::Timestamp>, Failure> {
    let Some(started) = view.started else { return Ok(None) };
    let launch_ms = match client.call(ManagerRequest::Show { job: view.id }).await? {
        Reply::Job { job } => job.breakdown.map_or(0.0, |launch| launch.total_ms),
        other => return Err(misunderstood(&other)),
    };
    let launch = Duration::try_from_secs_f64(launch_ms / 1e3).unwrap_or_default();
    Ok(Some(started - launch))
}

/// Cancels the submitted jobs of a failed replay.
async fn abandon(manager: &Manager, jobs: Vec<JobId>) {
    if jobs.is_empty() {
        return;
    }
    let cancel = async {
        let mut client = manager.connect().await.ok()?;
        // Jobs are cancelled one by one, because an error about an ended job must not stop the
        // others.
        for job in jobs {
            let one = ManagerRequest::Cancel { jobs: vec![job], signal: None, states: Vec::new() };
            let _ = client.call(one).await;
        }
        Some(())
    };
    // The error of the replay matters more; if the manager is gone, no job can be cancelled.
    let _ = tokio::time::timeout(CLEAN_UP, cancel).await;
}

/// Waits until all of these jobs have ended.
async fn ended(manager: &Manager, jobs: Vec<JobId>, silent: bool) -> Result<Vec<JobView>, Failure> {
    let counter = Counter::new(silent, "jobs ended", jobs.len() as u64);
    let mut client = manager.connect().await?;
    let (mut known, mut since) = (0, Instant::now());
    loop {
        let filter = JobFilter { jobs: jobs.clone(), history: true, ..JobFilter::default() };
        let Reply::Jobs { jobs: views, .. } = client.call(ManagerRequest::Jobs(filter)).await?
        else {
            return Err(Failure::new("protocol", "the manager gave another answer than jobs"));
        };
        let over = views.iter().filter(|view| view.ended.is_some()).count();
        if over == jobs.len() {
            return Ok(views);
        }
        if over > known {
            (known, since) = (over, Instant::now());
            counter.reached(over as u64);
        }
        if since.elapsed() > MAX_QUIET {
            let left = jobs.len() - over;
            let message = format!("{left} jobs have not ended, and none has for ten minutes");
            return Err(Failure::new(CODE, message).hint("`storm queue` shows them"));
        }
        sleep(POLL).await;
    }
}
