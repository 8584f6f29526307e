//! A rank before it becomes its program: it finds the server of its node, or starts it.

use crate::client_environment::{set_open_mpi, set_server, without_other_servers};
use crate::handover::ask;
use nix::fcntl::{Flock, FlockArg};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use storm_mpi::pmi::PmiClient;
use thiserror::Error;

/// File that a rank locks while it checks whether there is a server.
const LOCK: &str = ".storm-pmix.lock";
/// Socket of the server.
const SOCKET: &str = ".storm-pmix.socket";

/// A rank's options in addition to its environment.
#[derive(Clone, Debug)]
pub struct RankOptions {
    /// A directory in shared memory that only the job's ranks on this node use.
    pub shared_memory: PathBuf,
    /// The program to execute.
    pub program: PathBuf,
    /// A program to execute in its place, if possible.
    pub original: Option<PathBuf>,
    /// The program's arguments, its own name included.
    pub argv: Vec<OsString>,
    /// The arguments with which this program runs [`crate::serve`].
    pub server: Vec<OsString>,
}

/// The reason why a rank did not become its program.
#[derive(Debug, Error)]
pub enum RankError {
    /// A variable that the Node Manager gives every rank is absent.
    #[error("{0} is not set: this command starts only ranks of a job")]
    Environment(&'static str),
    /// The job's directory on the node cannot be used.
    #[error("the job's directory cannot be used for PMIx")]
    Directory(#[source] io::Error),
    /// No server could be started.
    #[error("the PMIx server of the node cannot be started")]
    Start(#[source] io::Error),
    /// The server died, or does not answer.
    #[error("the PMIx server of the node does not answer")]
    Silent(#[source] io::Error),
    /// The server cannot serve.
    #[error("{0}")]
    Refused(String),
    /// The program cannot be executed.
    #[error("{} cannot be executed", program.display())]
    Execute {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl RankError {
    /// The exit status of the rank. If the program could not be executed, it is the status that a
    /// shell gives.
    pub fn exit_code(&self) -> u8 {
        match self {
            RankError::Execute { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            RankError::Execute { .. } => 126,
            _ => 1,
        }
    }
}

/// Becomes the program, with the environment of a PMIx client. A failure ends the job, because each
/// rank without a server would take itself for the whole job.
///
/// Call it before the process has started a thread.
pub fn start_rank(options: &RankOptions) -> RankError {
    let error = match become_client(options) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    // A rank without a Node Manager has no receiver for the error.
    if let Ok(Some(mut pmi)) = PmiClient::from_env() {
        let _ = pmi.abort(i32::from(error.exit_code()));
    }
    error
}

fn become_client(options: &RankOptions) -> Result<std::convert::Infallible, RankError> {
    let rank = number("STORM_RANK")?;
    let directory = env::var_os("STORM_JOB_DIR").ok_or(RankError::Environment("STORM_JOB_DIR"))?;
    let mut server = connect(Path::new(&directory), options)?;
    let answer = ask(&mut server, rank, &pmi_descriptor()?).map_err(RankError::Silent)?;
    let environment = answer.map_err(RankError::Refused)?;
    let execute = |path: &Path| {
        let mut program = Command::new(path);
        let (name, arguments) = match options.argv.split_first() {
            Some((name, arguments)) => (name.as_os_str(), arguments),
            None => (path.as_os_str(), &[][..]),
        };
        program.arg0(name).args(arguments).env_remove("PMI_FD");
        without_other_servers(&mut program);
        set_open_mpi(&mut program, &options.shared_memory, environment.clone());
        program.exec()
    };
    if let Some(original) = &options.original {
        // If the original cannot be executed, for example on a file system mounted `noexec`, the
        // copy is executed.
        execute(original);
    }
    Err(RankError::Execute { program: options.program.clone(), source: execute(&options.program) })
}

/// Connects to the server of this node. The first rank makes the socket and starts the server.
/// Later ranks wait for the lock, and then for an answer.
fn connect(directory: &Path, options: &RankOptions) -> Result<UnixStream, RankError> {
    let opened = File::open(directory).map_err(RankError::Directory)?;
    // The path of the job's directory may be longer than the address of a socket can hold.
    let short = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let lock = File::options().create(true).append(true).open(short.join(LOCK));
    let lock = lock.map_err(RankError::Directory)?;
    let held = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, errno)| RankError::Directory(errno.into()))?;
    let socket = short.join(SOCKET);
    if fs::symlink_metadata(&socket).is_err() {
        let listener = UnixListener::bind(&socket).map_err(RankError::Directory)?;
        start_server(listener, options).map_err(RankError::Start)?;
    }
    drop(held);
    UnixStream::connect(&socket).map_err(RankError::Silent)
}

/// Starts the server. The intermediate parent process ends at once, because the rank becomes the
/// program, and a program must not find a child that it did not make.
fn start_server(listener: UnixListener, options: &RankOptions) -> io::Result<()> {
    let mut server = Command::new("/proc/self/exe");
    // PMI_FD stays open in the server. Its watcher needs it to end the job if the server dies.
    server.args(&options.server);
    without_other_servers(&mut server);
    set_server(&mut server);
    let listener = Stdio::from(OwnedFd::from(listener));
    let status = server.stdin(listener).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// A second descriptor of the PMI connection, which the program does not get.
fn pmi_descriptor() -> Result<OwnedFd, RankError> {
    let fd = number("PMI_FD")?;
    // SAFETY: the Node Manager has opened the descriptor for this process, and it is borrowed for
    // the next line only. If it were not open, the system call would fail.
    let pmi = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let own = pmi.try_clone_to_owned().map_err(|_| RankError::Environment("PMI_FD"))?;
    let close = nix::fcntl::FdFlag::FD_CLOEXEC;
    nix::fcntl::fcntl(pmi, nix::fcntl::FcntlArg::F_SETFD(close))
        .map_err(|_| RankError::Environment("PMI_FD"))?;
    Ok(own)
}

/// A number that the Node Manager has set.
pub(crate) fn number(variable: &'static str) -> Result<u32, RankError> {
    let text = env::var(variable).map_err(|_| RankError::Environment(variable))?;
    text.parse().map_err(|_| RankError::Environment(variable))
}
