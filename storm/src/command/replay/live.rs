//! The same trace on a cluster, as fast as asked: each job is submitted when its
//! time has come and does nothing for as long as it ran, and what the cluster
//! did stands beside what the policy did in virtual time.

use super::CODE;
use crate::attach::Interrupts;
use crate::cli::{JobOptions, ReplayOptions};
use crate::command::choices;
use crate::command::on_cluster::on_cluster;
use crate::command::progress::Counter;
use crate::failure::Failure;
use crate::job_request::job_request;
use crate::local_cluster::LocalClusterShape;
use crate::manager::Manager;
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;
use storm_mm::api::{JobFilter, JobView, ManagerRequest, Reply};
use storm_replay::{JobIndex, Trace, TraceJob};
use storm_rm::JobId;
use storm_sched::metrics::JobOutcome;
use storm_sched::{DEFAULT_QUANTUM_US, SchedTime};
use tokio::time::{Instant, sleep, sleep_until};

/// The most jobs that are submitted to a cluster: one request asks about all.
const MAX_LIVE_JOBS: usize = 10_000;
/// The most processing elements of a node of an embedded cluster.
const MAX_NODE_PES: u32 = 1_024;
/// Between two looks at which jobs have ended.
const POLL: Duration = Duration::from_millis(200);
/// How long no job may end before the replay is given up.
const MAX_QUIET: Duration = Duration::from_secs(600);
/// The shortest time limit that a cluster is asked for.
const SHORTEST_LIMIT: Duration = Duration::from_millis(1);

/// Replays on the cluster that the options mean, or on an embedded one; the
/// outcomes in the order of the trace, in the time of the log.
pub(super) async fn replay(
    options: &ReplayOptions,
    trace: &Trace,
    silent: bool,
) -> Result<Vec<JobOutcome>, Failure> {
    let jobs = trace.jobs().len();
    if jobs > MAX_LIVE_JOBS {
        let message = format!("{jobs} jobs are too many for a live replay");
        let hint = format!("replay a part of the log, at most {MAX_LIVE_JOBS} jobs");
        return Err(Failure::new(CODE, message).hint(hint));
    }
    let mut interrupts = Interrupts::listen()?;
    if let Some(place) = choices(&options.cluster)?.place()? {
        let manager = place.open()?;
        return tokio::select! {
            outcomes = on(&manager, options, trace, silent) => outcomes,
            status = interrupts.next() => {
                Err(Failure::new("interrupted", "the replay was interrupted: its jobs go on")
                    .hint("`storm cancel` ends them")
                    .exit(status))
            }
        };
    }
    let shape = shape(options, trace)?;
    on_cluster(&shape, 0, &mut interrupts, async |socket| {
        on(&Manager::at(socket), options, trace, silent).await
    })
    .await
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
        quantum: options.quantum.unwrap_or(Duration::from_micros(DEFAULT_QUANTUM_US)),
        switch_log: None,
    })
}

async fn on(
    manager: &Manager,
    options: &ReplayOptions,
    trace: &Trace,
    silent: bool,
) -> Result<Vec<JobOutcome>, Failure> {
    let begun = Instant::now();
    let mut client = manager.connect().await?;
    let first = trace.jobs().first().map_or(SchedTime::ZERO, |job| job.submit);
    let counter = Counter::new(silent, "jobs submitted", trace.jobs().len() as u64);
    let mut submitted = HashMap::new();
    for (index, job) in (0..).map(JobIndex).zip(trace.jobs()) {
        sleep_until(begun + job.submit.since(first).div_f64(options.speedup)).await;
        let request = job_request(&job_options(options, job)?, false)?;
        let (id, _) = client.submit(request, |_| {}).await?;
        submitted.insert(id, index);
        counter.one_more();
    }
    drop(counter);
    let views = ended(manager, submitted.keys().copied().collect(), silent).await?;
    let mut outcomes = Vec::with_capacity(views.len());
    for view in &views {
        let job = submitted.get(&view.id).and_then(|index| Some((*index, trace.job(*index)?)));
        let Some((index, job)) = job else { continue };
        let outcome = outcome(view, job, &views, first, options.speedup).ok_or_else(|| {
            let why = view.reason.clone().unwrap_or_else(|| "it never started".to_owned());
            let mut failure =
                Failure::new(CODE, format!("job {} of the log failed on the cluster", job.number));
            failure.causes.push(why);
            failure.hint("`storm show` and the cluster's log say more")
        })?;
        outcomes.push((index, outcome));
    }
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// The job of the cluster that stands for one of the log.
fn job_options(options: &ReplayOptions, job: &TraceJob) -> Result<JobOptions, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::of("program", &error))?;
    let run_us = job.run.div_f64(options.speedup).as_micros().max(1);
    let program: [OsString; 3] = [own.into(), "nap".into(), format!("{run_us}us").into()];
    Ok(JobOptions {
        procs: Some(job.procs),
        sched: Some(options.sched.clone()),
        name: Some(format!("log-{}", job.number)),
        time: Some(job.estimate.div_f64(options.speedup).max(SHORTEST_LIMIT)),
        no_bcast: true,
        output: Some("/dev/null".into()),
        program: program.to_vec(),
        ..JobOptions::default()
    })
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

/// What came of a job, in the time of the log; `None` if it never started.
fn outcome(
    view: &JobView,
    job: &TraceJob,
    views: &[JobView],
    first: SchedTime,
    speedup: f64,
) -> Option<JobOutcome> {
    let begin = views.iter().map(|view| view.submitted).min()?;
    let time = |stamp: jiff::Timestamp| {
        let later = Duration::try_from(stamp.duration_since(begin)).unwrap_or_default();
        first + later.mul_f64(speedup)
    };
    let &TraceJob { run, procs, .. } = job;
    let (start, end) = (time(view.started?), time(view.ended?));
    Some(JobOutcome { submit: time(view.submitted), start, end, run, procs })
}
