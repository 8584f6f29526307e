//! A job's specification in the words of storm-pl.

use super::PmixStarter;
use super::interpreter::interpreter;
use super::job_directory::{DirectoryError, JobFile, plain_name};
use super::script_commands::path_of_script;
use crate::environment::{NodeNames, environment_of_job, joins_by_pmix, rank_environment};
use crate::output_pattern::{FileNameParts, expand_pattern, names_one_file};
use crate::script_environment::program_variables;
use crate::{JobTask, LaunchRefused};
use nix::sys::resource::{Resource, getrlimit};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use storm_pl::{
    Credentials, Errno, Input, LaunchFailure, LaunchSpec, LaunchStep, Output, RankSpec,
    ResourceLimit,
};
use storm_rm::{
    Binding, Destination, FileSpec, FirstStep, InputSpec, JobSpec, OpenMode, OsBytes, OutputSpec,
    Owner, Program, Rank, StepId, StepRef,
};

/// The variable with the directories of commands.
const PATH_VARIABLE: &str = "PATH";

/// "No such file or directory".
const ENOENT: i32 = nix::errno::Errno::ENOENT as i32;

/// The longest placement of a job under PMIx.
const PLACEMENT_MAX_BYTES: usize = 96 << 10;

/// How ranks under PMIx are started on this node.
pub(super) struct PmixStart<'a> {
    pub(super) starter: &'a PmixStarter,
    /// The job's directory in shared memory.
    pub(super) shared_memory: &'a Path,
    /// The processors of this node.
    pub(super) cpus: Vec<u16>,
}

/// The program that the ranks execute.
pub(super) fn program_path(task: &JobTask, directory: &Path) -> Result<PathBuf, DirectoryError> {
    Ok(match &task.spec().step.program {
        Program::OnNodes(path) => path.as_os_str().into(),
        Program::Shipped(file) => match &file.destination {
            Destination::Path(path) => path.as_os_str().into(),
            Destination::JobDirectory | Destination::JobDirectoryUnlessAt(_) => {
                directory.join(plain_name(&file.name)?)
            }
        },
    })
}

/// The file that the program was copied from, if ranks execute it where this node has it.
fn original(task: &JobTask) -> Option<PathBuf> {
    match &task.spec().step.program {
        Program::Shipped(FileSpec {
            destination: Destination::JobDirectoryUnlessAt(path), ..
        }) => Some(path.as_os_str().into()),
        Program::Shipped(_) | Program::OnNodes(_) => None,
    }
}

/// The shipped files that belong in the job's directory.
pub(super) fn job_files(
    task: &JobTask,
    content: impl Fn(Owner, &FileSpec) -> PathBuf,
) -> Vec<JobFile> {
    let spec = task.spec();
    job_contents(spec)
        .map(|file| JobFile { content: content(spec.owner, file), name: file.name.clone() })
        .collect()
}

/// The files that a job has in its directory.
pub(super) fn job_contents(spec: &JobSpec) -> impl Iterator<Item = &FileSpec> {
    let program = match &spec.step.program {
        Program::Shipped(file) => Some(file),
        Program::OnNodes(_) => None,
    };
    let local = |file: &&FileSpec| file.destination.is_job_directory();
    program.into_iter().chain(&spec.step.files).filter(local)
}

/// The user that the job runs as. Blocking, as the call queries the user database.
pub(super) fn credentials(owner: Owner) -> Result<Credentials, storm_pl::CredentialsError> {
    let own = Credentials::own();
    if own.uid == owner.uid && own.gid == owner.gid {
        return Ok(own);
    }
    let found = Credentials::lookup(owner.uid)?;
    Ok(Credentials { gid: owner.gid, ..found })
}

/// The specification that all ranks of the job share. `relay` is the socket by which they reach the
/// manager from this node, if there is one. A script finds Slurm's commands in `directory`, the
/// job's, if the node has them.
pub(super) fn launch_spec(
    task: &JobTask,
    (program, directory): (PathBuf, &Path),
    names: &NodeNames,
    (credentials, relay): (Credentials, Option<&Path>),
    starter: Option<PmixStart<'_>>,
) -> LaunchSpec {
    let spec = task.spec();
    let of_place = match spec.first {
        FirstStep::Program => program_variables(task, names),
        FirstStep::Script => Vec::new(),
    };
    let is_of_place = |name: &OsStr| of_place.iter().any(|(known, _)| name == *known);
    let is_root = nix::unistd::geteuid().is_root();
    let is_script = task.launch.step.step == StepId::Batch;
    let commands_in = Some(directory).filter(|_| is_script && names.has_commands);
    let text = |bytes: &OsBytes| bytes.as_os_str().to_owned();
    let mut args: Vec<OsString> = spec.step.argv.iter().map(text).collect();
    let (program, original) = match starter.filter(|_| joins_by_pmix(spec)) {
        Some(start) => {
            args = starter_arguments(task, &start, &program).into_iter().chain(args).collect();
            (start.starter.program.clone(), None)
        }
        None => (program, original(task)),
    };
    let env = environment_of_job(spec, relay)
        .filter(|(name, _)| !is_of_place(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain(of_place.iter().map(|(name, value)| (OsString::from(name), value.clone())));
    LaunchSpec {
        program,
        original,
        args,
        env: match commands_in {
            Some(directory) => with_commands(directory, env.collect()),
            None => env.collect(),
        },
        cwd: spec.step.cwd.as_os_str().into(),
        umask: spec.step.umask,
        credentials,
        limits: spec.step.limits.iter().filter_map(|wanted| limit(wanted, is_root)).collect(),
        pmi: !is_script,
    }
}

/// The environment of a script that finds Slurm's commands in the directory of its job.
fn with_commands(
    directory: &Path,
    mut env: Vec<(OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let own = env.iter().find(|(name, _)| name == PATH_VARIABLE).map(|(_, path)| path.as_os_str());
    let path = path_of_script(directory, own);
    env.retain(|(name, _)| name != PATH_VARIABLE);
    env.push((PATH_VARIABLE.into(), path));
    env
}

/// The arguments of the starter that becomes `program` under PMIx, without the program's own.
fn starter_arguments(task: &JobTask, start: &PmixStart<'_>, program: &Path) -> Vec<OsString> {
    let config = task.pmi_config();
    let mut arguments: Vec<OsString> = vec![
        "storm".into(),
        "__pmix".into(),
        "--nspace".into(),
        config.kvsname.into(),
        "--mapping".into(),
        config.process_mapping.into(),
        "--heartbeat-bytes".into(),
        start.starter.heartbeat_bytes.load(Ordering::Relaxed).to_string().into(),
        "--shared-memory".into(),
        start.shared_memory.into(),
        "--program".into(),
        program.into(),
    ];
    if let Some(original) = original(task) {
        arguments.extend(["--original".into(), original.into()]);
    }
    if task.spec().step.bind == Binding::Core {
        let cpus: Vec<String> = start.cpus.iter().map(u16::to_string).collect();
        arguments.extend(["--cpus".into(), cpus.join(",").into()]);
    }
    arguments.push("--".into());
    arguments
}

/// Checks the placement of ranks that join through PMIx. The placement is one of the ranks'
/// arguments, and Linux takes at most 128 KiB for an argument (execve(2)).
pub(super) fn check_placement(task: &JobTask) -> Result<(), LaunchRefused> {
    let bytes = task.pmi_config().process_mapping.len();
    if bytes <= PLACEMENT_MAX_BYTES {
        return Ok(());
    }
    let reason = format!(
        "its ranks are placed too irregularly for PMIx ({bytes} bytes tell where they are, \
         {PLACEMENT_MAX_BYTES} may): ask for as many on each node (--ntasks-per-node)"
    );
    Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE })
}

/// Facts about the node that a rank receives, in addition to its names.
pub(super) struct Surroundings<'a> {
    /// Cores of the host.
    pub(super) cores: usize,
    /// The processors that the rank is bound to, if any.
    pub(super) cpus: Vec<u16>,
    /// How the rank is to wait for messages.
    pub(super) waiting: &'a [(&'static str, String)],
}

/// The specification of one rank.
pub(super) fn rank_spec(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
    directory: &Path,
    Surroundings { cores, cpus, waiting }: Surroundings<'_>,
) -> RankSpec {
    let spec = task.spec();
    let (stdout, stderr) = match &spec.step.output {
        OutputSpec::Client => (Output::Pipe, Output::Pipe),
        OutputSpec::Files { stdout, stderr } => {
            let file = |pattern| output_file(task, rank, names, pattern);
            (file(stdout), stderr.as_ref().map_or(Output::SameAsStdout, file))
        }
    };
    let env = rank_environment(task, rank, names, directory.as_os_str(), cores, waiting);
    let stdin = match &spec.step.input {
        InputSpec::File(pattern) => Input::File(output_path(task, rank, names, pattern)),
        _ if task.reads_input(rank) => Input::Pipe,
        _ => Input::Null,
    };
    RankSpec { env, stdin, stdout, stderr, cpus }
}

/// The output of a rank into a file: `open_mode` states whether the file is emptied first.
fn output_file(task: &JobTask, rank: Rank, names: &NodeNames, pattern: &OsBytes) -> Output {
    let path = output_path(task, rank, names, pattern);
    if task.shares_file(pattern) {
        return Output::Lines { path };
    }
    let of_ranks =
        task.launch.size() > 1 && path == output_path(task, Rank(u32::MAX), names, pattern);
    let append = match task.spec().step.open_mode {
        OpenMode::Usual => of_ranks || (task.launch.task.is_some() && names_one_file(pattern)),
        OpenMode::Append => true,
        OpenMode::Truncate => of_ranks,
    };
    Output::File { path, append }
}

/// The path of a rank's file under a pattern.
pub(super) fn output_path(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
    pattern: &OsBytes,
) -> PathBuf {
    let before = task.launch.step_ranks().take_while(|share| share.node != names.node).count();
    let node_index = u32::try_from(before).unwrap_or(u32::MAX);
    let (StepRef { job, step }, task) = (task.launch.step, task.launch.task);
    let parts = FileNameParts { job, task, step, rank, node_name: &names.name, node_index };
    expand_pattern(pattern, &parts).as_os_str().into()
}

/// A limit with the daemon's own hard limit, which only root can exceed; `None` if this system does
/// not have the limit.
fn limit(wanted: &storm_rm::ResourceLimit, is_root: bool) -> Option<ResourceLimit> {
    let resource = RESOURCES.into_iter().find(|known| *known as u32 == wanted.resource)?;
    let (_, hard) = getrlimit(resource).ok()?;
    let soft = if is_root { wanted.soft } else { wanted.soft.min(hard) };
    Some(ResourceLimit { resource: wanted.resource, soft, hard: hard.max(soft) })
}

/// The limits of Linux.
const RESOURCES: [Resource; 16] = [
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_LOCKS,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
];

/// Why a rank did not start, with the file that the failure is about.
pub(super) fn refused(
    failure: LaunchFailure,
    program: &Path,
    task: &JobTask,
    (rank, names): (Rank, &NodeNames),
) -> LaunchRefused {
    let LaunchFailure { step, errno } = failure;
    let file = |pattern| match output_file(task, rank, names, pattern) {
        Output::File { path, .. } | Output::Lines { path } => {
            Path::new(task.spec().step.cwd.as_os_str()).join(path)
        }
        Output::Null | Output::Pipe | Output::SameAsStdout => PathBuf::new(),
    };
    let about = match step {
        LaunchStep::Interpreter => return refused_for_interpreter(program, task, errno),
        LaunchStep::Program => program.display().to_string(),
        LaunchStep::WorkingDirectory => task.spec().step.cwd.to_string_lossy().into_owned(),
        LaunchStep::Stdout | LaunchStep::Stderr => match &task.spec().step.output {
            OutputSpec::Files { stderr: Some(stderr), .. } if step == LaunchStep::Stderr => {
                file(stderr).display().to_string()
            }
            OutputSpec::Files { stdout, .. } => file(stdout).display().to_string(),
            OutputSpec::Client => String::new(),
        },
        LaunchStep::Stdin => match &task.spec().step.input {
            InputSpec::File(pattern) => {
                let path = output_path(task, rank, names, pattern);
                Path::new(task.spec().step.cwd.as_os_str()).join(path).display().to_string()
            }
            InputSpec::None | InputSpec::RankZero | InputSpec::All => String::new(),
        },
        LaunchStep::Request
        | LaunchStep::Limit(_)
        | LaunchStep::Affinity
        | LaunchStep::OtherUser
        | LaunchStep::Groups
        | LaunchStep::Group
        | LaunchStep::User
        | LaunchStep::Keeper
        | LaunchStep::Arguments => String::new(),
    };
    let space = if about.is_empty() { "" } else { " " };
    let reason = format!("{step}{space}{about}: {errno}");
    LaunchRefused { reason, exit_code: exit_code(step == LaunchStep::Program, errno) }
}

/// The program exists, but its interpreter or loader does not.
fn refused_for_interpreter(program: &Path, task: &JobTask, errno: Errno) -> LaunchRefused {
    let (name, is_copy) = match &task.spec().step.program {
        Program::Shipped(file) => (&file.name, file.destination.is_job_directory()),
        Program::OnNodes(path) => (path, false),
    };
    // Only our own copy is read: this process may read files that the user may not.
    let named = match is_copy.then(|| interpreter(program)).flatten() {
        Some(interpreter) => interpreter.display().to_string(),
        None => "the interpreter or loader that it asks for".to_owned(),
    };
    let name = name.to_string_lossy();
    let reason = format!(
        "cannot execute {name}, as {named} is not on this node: {errno}; install it there, or have \
         the program name one that all nodes have"
    );
    LaunchRefused { reason, exit_code: exit_code(true, errno) }
}

fn exit_code(of_program: bool, errno: Errno) -> u8 {
    if of_program && errno == Errno(ENOENT) {
        LaunchRefused::NOT_FOUND
    } else {
        LaunchRefused::NOT_EXECUTABLE
    }
}
