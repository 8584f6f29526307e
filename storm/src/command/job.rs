//! `submit` and `run`.

use super::cluster::check_policies;
use super::misunderstood::misunderstood;
use super::naming::dependency;
use super::progress::{Upload, waiting};
use super::step::{self, OwnPlace};
use super::wait::wait_for_own;
use super::{choices, note, print};
use crate::attach::{Follow, OutputForm, follow};
use crate::cli::defaults::{EMBEDDED_NODES, LOCAL_PES};
use crate::cli::{JobOptions, MpiArgument};
use crate::failure::{EXIT_BROKEN_PIPE, EXIT_FAILED, EXIT_STORM_FAILED, EXIT_USAGE, Failure};
use crate::job_request::{absent_directory, doubts, foreign_directives, job_request, mpi_doubt};
use crate::local_cluster::{LocalClusterShape, dimensions, start_embedded};
use crate::manager::Manager;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::own_cluster::with_own_cluster;
use crate::target::{Place, Target, Why};
use storm_mm::api::{Client, ManagerRequest, Prospect, Reply, Submission};
use storm_rm::{JobId, Program};
use storm_sched::{DEFAULT_POLICY, DEFAULT_QUANTUM};

/// Most nodes of an embedded cluster (`--nodes`).
const MAX_EMBEDDED_NODES: u32 = 4096;

/// `submit`: returns at once, or with `--wait` at the job's end. On an embedded cluster, follows
/// the job.
pub(super) async fn submit(
    options: &JobOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    match choices(&options.cluster)?.for_job(&options.embedded)? {
        Target::Cluster(place) => {
            let (manager, job) = hand_in(place, options, silent, &mut warnings(output)).await?;
            print(&output.submitted(job)).map_err(|failure| unnumbered(job, failure))?;
            match options.wait {
                true => wait_for_own(&manager, job, output, silent).await,
                false => Ok(0),
            }
        }
        Target::Embedded { why } => embedded(options, why, output, silent).await,
    }
}

/// Submits a job to a cluster, and returns its number. `warn` gets what its user may not expect.
pub(crate) async fn hand_in(
    place: Place,
    options: &JobOptions,
    silent: bool,
    warn: &mut dyn FnMut(&str),
) -> Result<(Manager, JobId), Failure> {
    let manager = place.open()?;
    let submission = request(options, false, warn)?;
    let (_, job, _) = send(&manager, submission, options, silent).await?;
    Ok((manager, job))
}

/// Asks a cluster what would become of a job. `warn` is as for [`hand_in`].
pub(crate) async fn tried_out(
    place: Place,
    options: &JobOptions,
    warn: &mut dyn FnMut(&str),
) -> Result<Prospect, Failure> {
    let mut client = place.open()?.connect().await?;
    let Submission { mut spec, service, reservation, .. } = request(options, false, warn)?;
    if let Some(typed) = &options.needs.dependency {
        spec.needs.dependency = Some(dependency(&mut client, typed).await?);
    }
    let spec = Box::new(spec);
    match client.call(ManagerRequest::TryOut { spec, service, reservation }).await? {
        Reply::Prospect { prospect } => Ok(prospect),
        other => Err(misunderstood(&other)),
    }
}

/// Submits a job to a cluster and follows it. `warn` is as for [`hand_in`].
pub(crate) async fn followed(
    place: Place,
    options: &JobOptions,
    warn: &mut dyn FnMut(&str),
) -> Result<Outcome, Failure> {
    let manager = place.open()?;
    let submission = request(options, true, warn)?;
    submit_and_follow(&manager, submission, options, true, true).await
}

/// Prints warnings.
fn warnings(output: &dyn Output) -> impl FnMut(&str) {
    |text| note(&output.warning(text))
}

/// `run`: follows the job.
pub(super) async fn run(
    options: &JobOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    match choices(&options.cluster)?.for_job(&options.embedded)? {
        Target::Cluster(place) => {
            let manager = place.open()?;
            if let Some(own) = OwnPlace::of_process(options)? {
                let outcome = step::run(own, &manager, options, silent).await?;
                return Ok(report(options, &outcome, None, output));
            }
            refuse_array(options)?;
            let submission = request(options, true, &mut warnings(output))?;
            let outcome = submit_and_follow(&manager, submission, options, silent, true).await?;
            // A user who runs a job on a cluster wants its output, not our figures.
            Ok(report(options, &outcome, None, output))
        }
        Target::Embedded { why } => embedded(options, why, output, silent).await,
    }
}

async fn embedded(
    options: &JobOptions,
    why: Why,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    refuse_alone(options)?;
    let shape = shape(options);
    check_policies(&shape.sched, shape.nodes)?;
    refuse_too_many(options, &shape)?;
    refuse_absent_directory(options)?;
    let submission = request(options, true, &mut warnings(output))?;
    let (because, instead) = match why {
        Why::NoCluster => ("no cluster configured; ", ""),
        Why::AskedFor { is_another_there: false } => ("", ""),
        // Slurm's --nodes is -N here.
        Why::AskedFor { is_another_there: true } => {
            ("", ", because of --nodes or --pes; -N asks for nodes of the existing cluster")
        }
    };
    let LocalClusterShape { nodes, pes, .. } = shape;
    note(&output.note(&format!(
        "{because}running on an embedded cluster of {} on this machine{instead}",
        dimensions(nodes, pes)
    )));
    let cluster = {
        let _spinner = waiting(silent, "starting the nodes");
        start_embedded(&shape, job_bytes(&submission)).await?
    };
    let manager = Manager::at(cluster.socket());
    let outcome = submit_and_follow(&manager, submission, options, silent, false).await;
    cluster.end().await;
    let procs = options.procs.or(options.on_nodes.map(|nodes| nodes.least)).unwrap_or(1);
    Ok(report(options, &outcome?, Some(procs), output))
}

/// The job. Warns of what its user may not expect, such as options for another resource manager in
/// its script.
fn request(
    options: &JobOptions,
    attach: bool,
    warn: &mut dyn FnMut(&str),
) -> Result<Submission, Failure> {
    let submission = job_request(options, attach)?;
    let verb = match (options.once, attach) {
        (true, _) => "batch",
        (false, true) => "run",
        (false, false) => "submit",
    };
    for foreign in foreign_directives(&submission) {
        warn(&foreign.advice(verb, options));
    }
    for doubt in doubts(&submission) {
        warn(&doubt);
    }
    if let Some(doubt) = mpi_doubt(options.mpi.unwrap_or_default(), &options.program) {
        warn(&doubt);
    }
    if let Some(directory) = absent_directory(options) {
        warn(&format!(
            "-D {}: this host has no such directory; the job fails on nodes that lack it too",
            directory.display()
        ));
    }
    Ok(submission)
}

/// Refuses an array: only a single job can be followed.
fn refuse_array(options: &JobOptions) -> Result<(), Failure> {
    match options.needs.array {
        Some(_) => Err(Failure::new("usage", "an array of jobs cannot be followed")
            .hint("`storm submit --array` submits it, to the cluster that `storm up` keeps, and `storm wait` waits for it")
            .exit(EXIT_USAGE)),
        None => Ok(()),
    }
}

/// Refuses options without meaning for an embedded cluster's only job, which starts at once.
fn refuse_alone(options: &JobOptions) -> Result<(), Failure> {
    refuse_array(options)?;
    let vain =
        [("--hold", options.needs.hold), ("--dependency", options.needs.dependency.is_some())];
    match vain.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            let message = format!("{option} makes no sense on an embedded cluster");
            Err(Failure::new("usage", message)
                .hint("it runs this job alone; `storm up` keeps a cluster for many jobs")
                .exit(EXIT_USAGE))
        }
        None => Ok(()),
    }
}

/// Refuses more processes than the embedded cluster has room for, as it can be made larger.
fn refuse_too_many(options: &JobOptions, shape: &LocalClusterShape) -> Result<(), Failure> {
    let LocalClusterShape { nodes, pes, .. } = *shape;
    let room = u64::from(nodes) * u64::from(pes);
    let procs = options.procs.unwrap_or(1);
    let each = options.cpus_per_task.unwrap_or(1);
    let asked = u64::from(procs) * u64::from(each);
    if asked <= room || each > pes {
        return Ok(());
    }
    let enough = procs.div_ceil(pes / each);
    let message = format!(
        "{procs} processes need {asked} PEs, and the embedded cluster has {}",
        dimensions(nodes, pes)
    );
    Err(Failure::new("infeasible", message).hint(match enough <= MAX_EMBEDDED_NODES {
        true => format!("--nodes {enough} makes it large enough; --pes has more on each node"),
        false => "--nodes and --pes make it larger, or ask for fewer with -n".to_owned(),
    }))
}

/// Refuses a missing working directory: an embedded cluster's nodes have this host's directories.
fn refuse_absent_directory(options: &JobOptions) -> Result<(), Failure> {
    let Some(directory) = absent_directory(options) else { return Ok(()) };
    let message = format!("-D {}: there is no such directory", directory.display());
    Err(Failure::new("working-directory", message)
        .hint("the job would run on this host: make the directory, or name another"))
}

fn shape(options: &JobOptions) -> LocalClusterShape {
    LocalClusterShape {
        nodes: options.embedded.nodes.unwrap_or(EMBEDDED_NODES),
        pes: options.embedded.pes.unwrap_or(LOCAL_PES),
        sched: vec![options.sched.clone().unwrap_or_else(|| DEFAULT_POLICY.to_owned())],
        quantum: options.embedded.quantum.unwrap_or(DEFAULT_QUANTUM),
        params: options.embedded.params.clone(),
        switch_log: None,
        backend: None,
    }
}

/// The room that the job's files take on a node.
fn job_bytes(submission: &Submission) -> u64 {
    let program = match &submission.spec.step.program {
        Program::Shipped(file) => file.size_bytes,
        Program::OnNodes(_) => 0,
    };
    submission.spec.step.files.iter().map(|file| file.size_bytes).fold(program, u64::saturating_add)
}

/// Connects and submits. Returns the client, the job and the number of the request.
async fn send(
    manager: &Manager,
    mut submission: Submission,
    options: &JobOptions,
    silent: bool,
) -> Result<(Client, JobId, u64), Failure> {
    let mut upload = Upload::new(silent);
    let env = with_own_cluster(&submission.spec.step.env, options.export.as_ref(), manager);
    submission.spec.step.env = env;
    let Some(typed) = &options.needs.dependency else {
        return Ok(manager.submit(submission, |progress| upload.show(progress)).await?);
    };
    let mut client = manager.connect().await?;
    submission.spec.needs.dependency = Some(dependency(&mut client, typed).await?);
    let (job, request) = client.submit(submission, |progress| upload.show(progress)).await?;
    Ok((client, job, request))
}

/// Submits a job and follows it to its end, even over the death of a manager that `may_return`.
pub(super) async fn submit_and_follow(
    manager: &Manager,
    submission: Submission,
    options: &JobOptions,
    silent: bool,
    may_return: bool,
) -> Result<Outcome, Failure> {
    let input = submission.spec.step.input.clone();
    let form = OutputForm::of(submission.spec.ranks(), options.label);
    let (client, job, request) = send(manager, submission, options, silent).await?;
    // A job on a shared cluster may have to wait.
    let tell_waiting = may_return && !silent;
    let what = Follow { job, step: None, request, input, form, may_return, tell_waiting };
    follow(client, what, manager).await.map_err(|failure| match failure.exit {
        EXIT_FAILED => failure.exit(EXIT_STORM_FAILED),
        _ => failure,
    })
}

/// Reports how the job ended, and returns the exit status.
fn report(
    options: &JobOptions,
    outcome: &Outcome,
    launch_of: Option<u32>,
    output: &dyn Output,
) -> u8 {
    // In a script, `storm run ... | head` is usual.
    if outcome.step.is_none() || outcome.interrupted != Some(EXIT_BROKEN_PIPE) {
        note(&output.outcome(outcome, launch_of));
    }
    if outcome.without_pmix && options.mpi != Some(MpiArgument::Pmix) {
        note(&output.note(
            "a program of Open MPI found no PMIx server: say --mpi pmix, as storm cannot see what a script or \
             an interpreter loads",
        ));
    }
    let status = outcome.interrupted.unwrap_or(outcome.exit_code);
    if status != 0
        && let Some(option) = misplaced_option(options)
    {
        note(&output.note(&format!(
            "{option} came after the program and went to it; put options of storm before the \
             program"
        )));
    }
    status
}

/// The failure to print a job's number names the job, as it continues.
fn unnumbered(job: JobId, failure: Failure) -> Failure {
    let text = format!("job {job} is submitted, but its number cannot be printed");
    let mut causes = vec![failure.message];
    causes.extend(failure.causes);
    let hint = Some(format!("do not submit it again: `storm show {job}`"));
    Failure { message: text, causes, hint, ..failure }.exit(EXIT_STORM_FAILED)
}

/// An argument of the program that looks as if it were meant for storm.
fn misplaced_option(options: &JobOptions) -> Option<&str> {
    const OURS: [&str; 6] = ["--sched", "--partition", "--nodes", "--pes", "--label", "--no-bcast"];
    options
        .program
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
        .find(|argument| OURS.contains(&argument.split('=').next().unwrap_or(argument)))
}
