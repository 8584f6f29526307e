//! Turns the command line into a job: finds the program, hashes the files, and records the
//! environment, limits and umask of this process.
//!
//! Every error in the user's files is found here, before anything is started.

mod asked;
mod directives;
mod doubts;
mod flux;
mod lsf;
mod mpi_type;
mod output_name;
mod own_path;
mod own_stream;
mod payload;
mod pbs;
mod program;
mod sbatch;
mod script;
mod script_lines;
mod sge;
mod shipped_files;
mod surroundings;

pub(crate) use directives::foreign_directives;
pub(crate) use doubts::doubts;
pub(crate) use mpi_type::doubt as mpi_doubt;
pub(crate) use payload::standard_input;
pub(crate) use program::find_program;
pub(crate) use script::ScriptText;
pub(crate) use script_lines::{ScriptLines, note_on_mail, replace, words_of, words_of_variables};

use crate::cli::{BindArgument, InputArgument, JobOptions, OpenModeArgument, YesNo};
use crate::failure::{EXIT_USAGE, Failure};
use output_name::known_at_submission;
use payload::{Payload, payload};
use shipped_files::ShippedFiles;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use storm_mm::api::{Service, Submission};
use storm_nm::{
    MPI_TYPE_VARIABLE, NTASKS_UNASKED_VARIABLE, check_pattern, environment_of_step,
    environment_to_submit,
};
use storm_rm::{
    Binding, Environment, FirstStep, InputSpec, JobSpec, Memory, Needs, OpenMode, OsBytes,
    OutputSpec, Owner, Remarks, Resources, StepSpec,
};

/// The program's name for a script on standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The elements of each process of a script's job, if the user asked for a number of them.
const CPUS_PER_TASK_VARIABLE: &str = "SLURM_CPUS_PER_TASK";

/// Default file for a job's output, as in Slurm.
const DEFAULT_OUTPUT: &str = "storm-%j.out";
/// Default file for the output of an array's jobs.
const DEFAULT_ARRAY_OUTPUT: &str = "storm-%A_%a.out";

/// The job that the options describe, with its files open. `attach` is true if the client
/// follows it.
pub(crate) fn job_request(options: &JobOptions, attach: bool) -> Result<Submission, Failure> {
    // This process may be a rank of another job, whose variables do not concern the new job.
    request(options, attach, environment_to_submit(std::env::vars_os()), false)
}

/// The job whose program and size are those of a step in the place of this process.
pub(crate) fn step_request(options: &JobOptions) -> Result<Submission, Failure> {
    request(options, true, environment_of_step(std::env::vars_os()), true)
}

/// The name of the job in whose place a step runs: `%x` in names of the step's files.
fn name_of_job(own: &[(OsString, OsString)]) -> Option<String> {
    let name = own.iter().find(|(name, _)| name == "SLURM_JOB_NAME");
    name.map(|(_, name)| name.to_string_lossy().into_owned())
}

fn request(
    options: &JobOptions,
    attach: bool,
    own: Vec<(OsString, OsString)>,
    is_step: bool,
) -> Result<Submission, Failure> {
    let mut files = ShippedFiles::default();
    let Payload { program, path, argv, name, linkage } = payload(options, &mut files)?;
    let mpi = mpi_type::chosen(
        options.mpi.unwrap_or_default(),
        linkage,
        &path,
        options.program.get(1..).unwrap_or_default(),
    );
    let further = options.bcast.iter().map(|bcast| files.further(bcast));
    let further = further.collect::<Result<_, _>>()?;
    let (procs, on_nodes) = size(options)?;
    let of_job = || name_of_job(&own).filter(|_| is_step);
    let name = options.name.clone().or_else(of_job).unwrap_or(name);
    let step = StepSpec {
        program,
        argv,
        env: environment(options, mpi, own),
        cwd: working_directory(options.chdir.as_deref())?.into_os_string().into(),
        umask: surroundings::umask()?,
        limits: surroundings::limits(),
        files: further,
        output: output(options, &name, attach)?,
        open_mode: open_mode(options),
        input: input(options, &name, attach)?,
        bind: binding(options),
        kill_on_bad_exit: options.kill_on_bad_exit,
    };
    let spec = JobSpec {
        name,
        // The manager overwrites it with the socket's peer.
        owner: Owner { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() },
        procs,
        first: match options.once {
            true => FirstStep::Script,
            false => FirstStep::Program,
        },
        nodes: on_nodes,
        resources: resources(options),
        partition: options.partition.clone(),
        sched: options.sched.clone(),
        time_limit: options.time,
        early_signal: options.signal,
        step,
        requeue: options.requeue,
        needs: Needs {
            hold: options.needs.hold,
            begin: options.needs.begin,
            // Jobs of arrays go by name, which only the manager can resolve.
            dependency: None,
            kill_on_invalid_dep: options.needs.kill_on_invalid_dep == Some(YesNo::Yes),
            array: options.needs.array.clone(),
        },
        remarks: Remarks { comment: options.comment.clone(), wckey: options.wckey.clone() },
    };
    let reservation = options.reservation.clone();
    let service = Service {
        account: options.service.account.clone(),
        qos: options.service.qos.clone(),
        nice: options.service.nice,
    };
    Ok(Submission { spec, attach, service, reservation, files: files.into_files() })
}

fn binding(options: &JobOptions) -> Binding {
    match options.bind {
        Some(BindArgument::Core) => Binding::Core,
        Some(BindArgument::None) | None => Binding::None,
    }
}

fn open_mode(options: &JobOptions) -> OpenMode {
    match options.open_mode {
        None => OpenMode::Usual,
        Some(OpenModeArgument::Append) => OpenMode::Append,
        Some(OpenModeArgument::Truncate) => OpenMode::Truncate,
    }
}

/// The number of processes, and of nodes if the user asks for a number of nodes.
pub(crate) fn size(options: &JobOptions) -> Result<(u32, Option<u32>), Failure> {
    let per_node = options.ntasks_per_node.unwrap_or(1);
    let required = options.nodelist.as_ref().or(options.nodefile.as_ref());
    // Without -n, a job that names nodes is on just these.
    let named = required.map(|list| list.count).filter(|_| options.procs.is_none());
    // As in Slurm, a number of processes for each node alone means one node.
    let one = options.ntasks_per_node.filter(|_| options.procs.is_none()).map(|_| 1);
    let on_nodes = options.on_nodes.map(|nodes| nodes.least).or(named).or(one);
    let of_nodes = on_nodes.map(|nodes| nodes.saturating_mul(per_node));
    let procs = options.procs.or(of_nodes).unwrap_or(1);
    if let Some(nodes) = on_nodes.filter(|nodes| *nodes > procs) {
        let ending = if procs == 1 { "" } else { "es" };
        let message = format!("{procs} process{ending} cannot be spread over {nodes} nodes");
        return Err(Failure::new("usage", message).hint(format!("give -n {nodes} or more")));
    }
    Ok((procs, on_nodes))
}

fn resources(options: &JobOptions) -> Resources {
    Resources {
        cpus_per_task: options.cpus_per_task.unwrap_or(1),
        tasks_per_node: options.ntasks_per_node,
        memory: memory(options),
        exclusive: options.exclusive,
        constraint: options.constraint.as_ref().map(ToString::to_string),
        nodes_max: options.on_nodes.and_then(|nodes| nodes.most),
        required_nodes: options
            .nodelist
            .as_ref()
            .or(options.nodefile.as_ref())
            .map(|list| list.folded.clone()),
        excluded_nodes: options.exclude.as_ref().map(|list| list.folded.clone()),
    }
}

/// The memory that the options ask for.
pub(crate) fn memory(options: &JobOptions) -> Memory {
    match (options.mem, options.mem_per_cpu) {
        (None, None) => Memory::Unstated,
        (Some(0), _) | (None, Some(0)) => Memory::WholeNode,
        (Some(bytes), _) => Memory::PerNode(bytes),
        (None, Some(bytes)) => Memory::PerCpu(bytes),
    }
}

fn environment(
    options: &JobOptions,
    mpi: Option<&str>,
    own: Vec<(OsString, OsString)>,
) -> Environment {
    let own = own.into_iter().filter(|(name, _)| !storm_pmix::is_of_a_server(name));
    let export = options.export.clone().unwrap_or_default();
    let mut exported = export.of(own);
    if options.once && !export.is_all() {
        let mut login = surroundings::of_login();
        login.retain(|(name, _)| !exported.iter().any(|(known, _)| known == name));
        exported.extend(login);
    }
    let exported = exported.into_iter().filter(|(name, _)| name != MPI_TYPE_VARIABLE);
    let mpi = mpi.filter(|_| !options.once);
    let mpi = mpi.map(|mpi| (MPI_TYPE_VARIABLE.into(), mpi.into()));
    // A node cannot tell `--cpus-per-task 1` from an option that was not given.
    let each = options.cpus_per_task.filter(|_| options.once);
    let exported = exported.filter(|(name, _)| each.is_none() || name != CPUS_PER_TASK_VARIABLE);
    let each = each.map(|each| (CPUS_PER_TASK_VARIABLE.into(), each.to_string().into()));
    let submitted = options.once.then(surroundings::of_submission);
    let unasked = options.once && options.procs.is_none() && options.ntasks_per_node.is_none();
    let unasked = unasked.then(|| (NTASKS_UNASKED_VARIABLE.into(), "1".into()));
    exported
        .chain(mpi)
        .chain(unasked)
        .chain(each)
        .chain(submitted.into_iter().flatten())
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The working directory of the options, if this host has no such directory; the nodes may have it.
pub(crate) fn absent_directory(options: &JobOptions) -> Option<PathBuf> {
    let chosen = working_directory(Some(options.chdir.as_deref()?)).ok()?;
    (!chosen.is_dir()).then_some(chosen)
}

fn working_directory(chosen: Option<&Path>) -> Result<PathBuf, Failure> {
    let current = || {
        std::env::current_dir().map_err(|error| {
            Failure::of("working-directory", &error).hint("is the current directory still there?")
        })
    };
    match chosen {
        None => current(),
        Some(path) if path.is_absolute() => Ok(path.to_owned()),
        Some(path) => {
            let path = current()?.join(path);
            Ok(fs::canonicalize(&path).unwrap_or(path))
        }
    }
}

/// The name of a file on the nodes.
fn pattern(option: &str, name: &OsStr, job: &str, user: &str) -> Result<OsBytes, Failure> {
    let pattern = OsBytes::from(known_at_submission(name, job, user));
    check_pattern(&pattern).map_err(|error| {
        let message = format!("{option} {}: {error}", name.display());
        Failure::new("usage", message)
            .hint(
                "%j is the job, %A the array, %a the index in it, %s the step, %r the rank, %n the \
                 node, %i its number, %x the job's name, %u its user, %% a percent sign",
            )
            .exit(EXIT_USAGE)
    })?;
    Ok(pattern)
}

fn output(options: &JobOptions, job: &str, attach: bool) -> Result<OutputSpec, Failure> {
    let user = surroundings::user().unwrap_or_default();
    let directory = working_directory(options.chdir.as_deref())?;
    let stream_of = |name: &OsString| own_stream::descriptor(name, &directory);
    let checked = |option: &str, name: &OsString| {
        if stream_of(name).is_some() {
            return Err(own_stream::refusal(option, name, attach));
        }
        pattern(option, name, job, &user)
    };
    // The output of a followed job comes here anyhow.
    let here = |name: &&OsString, stream| attach && stream_of(name) == Some(stream);
    let stdout = options.output.as_ref().filter(|name| !here(name, 1));
    let stderr = options.error.as_ref().filter(|name| stdout.is_some() || !here(name, 2));
    let stderr = stderr.map(|name| checked("--error", name)).transpose()?;
    match stdout {
        Some(stdout) => Ok(OutputSpec::Files { stdout: checked("--output", stdout)?, stderr }),
        None if attach && stderr.is_some() => {
            Err(Failure::new("usage", "--error names a file on the nodes, and output comes here")
                .hint("say --output, too")
                .exit(EXIT_USAGE))
        }
        None if attach => Ok(OutputSpec::Client),
        None => {
            let array = options.needs.array.is_some();
            let name = if array { DEFAULT_ARRAY_OUTPUT } else { DEFAULT_OUTPUT };
            Ok(OutputSpec::Files { stdout: name.into(), stderr })
        }
    }
}

fn input(options: &JobOptions, job: &str, attach: bool) -> Result<InputSpec, Failure> {
    if let Some(file) = &options.stdin {
        let user = surroundings::user().unwrap_or_default();
        return Ok(InputSpec::File(pattern("--stdin", file, job, &user)?));
    }
    let taken = options.program.first().is_some_and(|program| program == STANDARD_INPUT);
    match (options.input, attach) {
        (None, _) if taken || options.once => Ok(InputSpec::None),
        (Some(InputArgument::RankZero | InputArgument::All), _) if taken => {
            Err(Failure::new("usage", "standard input is the script: no process can read it")
                .hint("put the script into a file")
                .exit(EXIT_USAGE))
        }
        (None, true) | (Some(InputArgument::RankZero), true) => Ok(InputSpec::RankZero),
        (Some(InputArgument::All), true) => Ok(InputSpec::All),
        (None | Some(InputArgument::None), _) => Ok(InputSpec::None),
        (Some(InputArgument::RankZero | InputArgument::All), false) => {
            Err(Failure::new("usage", "a job that is not followed reads no input from here")
                .hint("use `storm run` instead of `storm submit`"))
        }
    }
}
