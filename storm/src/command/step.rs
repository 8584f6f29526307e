//! `run` in the place of a job's script: starts a step there and follows it
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use super::note;
use super::progress::Upload;
use crate::attach::{Follow, OutputForm, OwnStep, Pauses, STEP_WAITS, StepWaiting, follow};
use crate::cli::{ClusterOptions, ExportArgument, JobOptions};
use crate::failure::{EXIT_FAILED, EXIT_STORM_FAILED, EXIT_USAGE, Failure};
use crate::job_request::step_request;
use crate::manager::Manager;
use crate::outcome::Outcome;
use crate::own_cluster::{names_another_cluster, with_own_cluster};
use std::ffi::OsString;
use std::fs::File;
use std::time::{Duration, Instant};
use storm_mm::api::{Client, ClientError, ManagerRequest, Reply, Submission};
use storm_rm::{ContentHash, JobId, JobIncarnation, JobSpec, Share, StepAsk, StepLayout, StepSize};

/// The variable by which scripts and their steps know their place: `7:12` is run 12 of job 7.
const PLACE_VARIABLE: &str = "STORM_PLACE";
/// The variable with the number of processes of the place.
const TASKS_VARIABLE: &str = "STORM_NTASKS";
/// The variable with the number of nodes of the place.
const NODES_VARIABLE: &str = "STORM_NNODES";
/// The variable with the elements of each of these processes.
const CPUS_VARIABLE: &str = "STORM_CPUS_PER_TASK";

/// How long to ask a manager that is away. It is as long as a client waits for a manager to return.
const ASK_LIMIT: Duration = Duration::from_secs(65);
/// After this time, the user learns that the manager is away.
const TELL_AWAY: Duration = Duration::from_secs(1);

/// The place of the script that started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPlace {
    pub(crate) job: JobId,
    run: JobIncarnation,
}

impl OwnPlace {
    /// The place of this process, unless its user names a cluster.
    pub(crate) fn of_process(options: &JobOptions) -> Result<Option<OwnPlace>, Failure> {
        let ClusterOptions { socket, manager, .. } = &options.cluster;
        let is_other = socket.is_some() || manager.is_some() || names_another_cluster();
        let Some(text) = std::env::var_os(PLACE_VARIABLE).filter(|_| !is_other) else {
            return Ok(None);
        };
        let place = text.to_str().and_then(OwnPlace::parse).ok_or_else(|| {
            let message = format!("{PLACE_VARIABLE}={} names no place", text.display());
            Failure::new("usage", message)
                .hint(format!("it is `JOB:RUN`, set by storm; without {PLACE_VARIABLE} a job runs"))
                .exit(EXIT_USAGE)
        })?;
        Ok(Some(place))
    }

    fn parse(text: &str) -> Option<OwnPlace> {
        let (job, run) = text.split_once(':')?;
        Some(OwnPlace { job: JobId(job.parse().ok()?), run: JobIncarnation(run.parse().ok()?) })
    }
}

/// A step to run in the place of this process.
pub(crate) struct NewStep {
    /// The program, with its surroundings and files.
    pub(crate) submission: Submission,
    pub(crate) size: StepSize,
    pub(crate) layout: StepLayout,
    /// Whether each line of output begins with its rank.
    pub(crate) label: bool,
    /// How to act if it must wait.
    pub(crate) waiting: StepWaiting,
}

/// `storm run` in the place: runs a step and follows it to its end.
pub(super) async fn run(
    place: OwnPlace,
    manager: &Manager,
    options: &JobOptions,
    silent: bool,
) -> Result<Outcome, Failure> {
    refuse_options_of_jobs(options)?;
    let submission = step_request(options)?;
    let size = size(options, &submission.spec, &PlaceSize::of_process());
    let layout = StepLayout { per_node: options.ntasks_per_node, ..StepLayout::default() };
    let (label, waiting) = (options.label, StepWaiting::Told);
    let step = NewStep { submission, size, layout, label, waiting };
    followed(place, manager, step, options.export.as_ref(), silent).await
}

/// Runs a step in a place and follows it to its end.
pub(crate) async fn followed(
    place: OwnPlace,
    manager: &Manager,
    step: NewStep,
    export: Option<&ExportArgument>,
    silent: bool,
) -> Result<Outcome, Failure> {
    let NewStep { submission, size, layout, label, waiting } = step;
    let Submission { mut spec, mut files, .. } = submission;
    spec.step.env = with_own_cluster(&spec.step.env, export, manager);
    let (input, form) = (spec.step.input.clone(), OutputForm::of(size.procs, label));
    let ask = random_ask()?;
    let OwnPlace { job, run } = place;
    let spec = Box::new(spec.step);
    let request = ManagerRequest::RunStep { job, run, ask, size, layout, spec };
    let mut upload = Upload::new(silent);
    let (client, first, id) = asked(manager, &request, &mut files, &mut upload, silent).await?;
    let step = OwnStep { ask, request, first: Some(first), number: None, waits: false, waiting };
    let what = Follow {
        job,
        step: Some(step),
        request: id,
        input,
        form,
        may_return: true,
        tell_waiting: !silent,
    };
    follow(client, what, manager).await.map_err(as_of_storm)
}

/// Asks for the step until a manager answers. The same request again makes no second step. A
/// manager that has too many clients of the user is asked for ever: their steps end some time.
async fn asked(
    manager: &Manager,
    request: &ManagerRequest,
    files: &mut [(ContentHash, File)],
    upload: &mut Upload,
    silent: bool,
) -> Result<(Client, Reply, u64), Failure> {
    let (began, mut pauses) = (Instant::now(), Pauses::default());
    let mut told = Told { full: silent, away: silent };
    loop {
        let error = match ask_once(manager, request, files, upload).await {
            Ok(asked) => return Ok(asked),
            Err(error) => error,
        };
        match error.is_full() {
            true => told.note_full(),
            false if error.may_pass() && began.elapsed() < ASK_LIMIT => {
                if began.elapsed() >= TELL_AWAY {
                    told.note_away();
                }
            }
            false => return Err(as_of_storm(error.into())),
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

/// The news that the user has of a step that is not granted yet.
struct Told {
    full: bool,
    away: bool,
}

impl Told {
    fn note_full(&mut self) {
        if !std::mem::replace(&mut self.full, true) {
            note("storm: the step waits: the manager has as many clients of yours as it takes\n");
        }
    }

    fn note_away(&mut self) {
        if !std::mem::replace(&mut self.away, true) {
            note("storm: the manager does not answer; the step waits for its return\n");
        }
    }
}

async fn ask_once(
    manager: &Manager,
    request: &ManagerRequest,
    files: &mut [(ContentHash, File)],
    upload: &mut Upload,
) -> Result<(Client, Reply, u64), ClientError> {
    let mut client = manager.connect().await?;
    let progress = |progress| upload.show(progress);
    let (first, id) = client.run_step(request.clone(), files, progress).await?;
    Ok((client, first, id))
}

/// A failure of ours has another status than the programs of steps usually have.
fn as_of_storm(failure: Failure) -> Failure {
    match failure.exit {
        EXIT_FAILED if failure.code != STEP_WAITS => failure.exit(EXIT_STORM_FAILED),
        _ => failure,
    }
}

/// The size of the place, by the variables of its script.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceSize {
    tasks: Option<u32>,
    nodes: Option<u32>,
    elements_each: Option<u32>,
}

impl PlaceSize {
    fn of_process() -> PlaceSize {
        let variable = |name| number(std::env::var_os(name));
        PlaceSize {
            tasks: variable(TASKS_VARIABLE),
            nodes: variable(NODES_VARIABLE),
            elements_each: variable(CPUS_VARIABLE),
        }
    }
}

/// The size of the step. Without `-n` it has `--ntasks-per-node` processes on each of `-N` nodes,
/// or of all nodes of the place; without any of the three it has all processes of the place.
fn size(options: &JobOptions, spec: &JobSpec, place: &PlaceSize) -> StepSize {
    let per_node = options.ntasks_per_node;
    let nodes = options.on_nodes.map(|count| {
        let most = place.nodes.unwrap_or(count.least).min(count.most.unwrap_or(count.least));
        most.max(count.least)
    });
    let (procs, nodes) = match (options.procs, nodes, per_node) {
        (Some(procs), nodes, _) => (procs, nodes),
        (None, nodes, Some(each)) => {
            let nodes = nodes.or(place.nodes).unwrap_or(1);
            (nodes.saturating_mul(each), Some(nodes))
        }
        (None, Some(nodes), None) => (nodes, Some(nodes)),
        (None, None, None) => (place.tasks.unwrap_or(spec.procs), None),
    };
    StepSize {
        procs,
        nodes,
        elements_each: options.cpus_per_task.or(place.elements_each).unwrap_or(1),
        memory: spec.resources.memory,
        share: if options.overlap { Share::Overlap } else { Share::Exact },
        time_limit: options.time,
    }
}

fn number(text: Option<OsString>) -> Option<u32> {
    text?.to_str()?.parse().ok()
}

fn random_ask() -> Result<StepAsk, Failure> {
    let random = getrandom::u64().map_err(|error| {
        Failure::of("random", &error).hint("does this host's kernel have getrandom(2)?")
    })?;
    Ok(StepAsk(random))
}

/// Refuses options that a step cannot have, because they belong to its job.
fn refuse_options_of_jobs(options: &JobOptions) -> Result<(), Failure> {
    let given = [
        ("--partition", options.partition.is_some()),
        ("--sched", options.sched.is_some()),
        ("--signal", options.signal.is_some()),
        ("--reservation", options.reservation.is_some()),
        ("--requeue", options.requeue),
        ("--hold", options.needs.hold),
        ("--begin", options.needs.begin.is_some()),
        ("--dependency", options.needs.dependency.is_some()),
        ("--array", options.needs.array.is_some()),
        ("--account", options.service.account.is_some()),
        ("--qos", options.service.qos.is_some()),
        ("--constraint", options.constraint.is_some()),
        ("--nodelist", options.nodelist.is_some()),
        ("--nodefile", options.nodefile.is_some()),
        ("--exclude", options.exclude.is_some()),
        ("--exclusive", options.exclusive),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            let message = format!("{option} belongs to the job, and this is a step in its place");
            Err(Failure::new("usage", message)
                .hint("give it to the script, or start another job with `storm submit`")
                .exit(EXIT_USAGE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_job_and_its_run() {
        let place = |text: &str| OwnPlace::parse(text).map(|place| (place.job.0, place.run.0));
        assert_eq!(place("7:12"), Some((7, 12)));
        assert_eq!(place(&format!("{0}:{0}", u64::MAX)), Some((u64::MAX, u64::MAX)));
        for wrong in ["", "7", "7:", ":12", "7:12:1", "7:x", "-7:12", "18446744073709551616:1"] {
            assert_eq!(place(wrong), None, "{wrong:?}");
        }
    }
}
