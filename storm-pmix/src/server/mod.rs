//! The server of one job on one node. It connects libpmix with the ranks' PMI-1.
//!
//! It ends when all ranks of its node have ended, or when the node ends the job.

mod ended;
mod fences;
mod pmix;
mod ranks;
mod upcalls;
mod watch;

use crate::abi::SUCCESS;
use crate::exchange::Portion;
use crate::handover::{Environment, answer, asked};
use crate::placement::Placement;
use crate::rank::number;
use fences::{Fence, Fences};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::epoll::Epoll;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::Pid;
use pmix::Pmix;
use ranks::Ranks;
use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storm_mpi::pmi::client::PmiError;
use storm_mpi::pmi::mapping::MappingError;
use thiserror::Error;
use upcalls::{Upcall, Upcalls, lock};
use watch::{Part, Watcher};

/// The server's own files, in the job's directory.
const FILES: &str = ".storm-pmix";

/// Signals that users send to jobs. The ranks handle them, and the server continues.
const NOT_FOR_US: [Signal; 20] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGPIPE,
    Signal::SIGSTKFLT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGURG,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGPWR,
];
/// The time in which a process that has connected must state its rank.
const ASKING_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why a server ended before its ranks.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An operation of the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An operation of the system failed.
    #[error(transparent)]
    System(#[from] nix::Error),
    /// The server was not started by a rank.
    #[error("only a rank of a job can start this server")]
    Stray,
    /// The placement of the ranks is invalid.
    #[error("the placement of the job's ranks cannot be used")]
    Placement(#[from] MappingError),
    /// The Node Manager no longer serves a rank.
    #[error("rank {rank}: {source}")]
    Pmi {
        /// The rank.
        rank: u32,
        /// The reason.
        source: PmiError,
    },
}

/// A server's options. Its environment is that of the rank that starts it.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Name of this run of the job.
    pub nspace: String,
    /// The node of each rank, as in `PMI_process_mapping`, of any length.
    pub mapping: String,
    /// Bytes of the manager's messages to nodes.
    pub heartbeat_bytes: usize,
    /// The processors on which the server may run, if the rank that starts it is bound.
    pub cpus: Vec<u16>,
}

/// Serves the ranks of this node, which connect to the socket on standard input. The started
/// process ends at once with success, and a grandchild serves.
///
/// Call it before the process has started a thread.
///
/// # Errors
/// [`ServeError`]; the ranks then lose their server, which ends the job.
pub fn serve(options: &ServeOptions) -> Result<(), ServeError> {
    // Signals are ignored before more processes exist. So a signal to the job ends no process of
    // the server, and the rank still receives it.
    ignore_signals()?;
    run_on(&options.cpus);
    open_as_many_as_allowed()?;
    let watcher = match watch::begin()? {
        Part::Starter | Part::Watcher => return Ok(()),
        Part::Server(watcher) => watcher,
    };
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stray = |_| ServeError::Stray;
    let (rank, size) = (number("STORM_RANK").map_err(stray)?, number("STORM_SIZE").map_err(stray)?);
    let directory = env::var_os("STORM_JOB_DIR").ok_or(ServeError::Stray)?;
    let files = PathBuf::from(directory).join(FILES);
    fs::create_dir_all(&files)?;
    let placement = Placement::new(&options.mapping, size, rank)?;
    let ranks = Ranks::new(placement.local().len(), size)?;
    let (news, ranks) = (ranks.news(), Arc::new(Mutex::new(ranks)));
    let upcalls = Upcalls::listen(ranks.clone())?.ok_or(ServeError::Stray)?;
    let pmix = Pmix::start(&options.nspace, &placement, &files).map_err(|error| explain(&error));
    let portion = Portion::of(placement.nodes(), options.heartbeat_bytes);
    let fences = Fences::new(portion, (placement.own(), placement.nodes()));
    Server { pmix, placement, listener, upcalls, watcher, ranks, news, fences }.run()
}

/// Leaves the processors of the rank that starts the server, because they may belong to that rank
/// alone.
fn run_on(cpus: &[u16]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        // A processor out of range does not exist.
        let _ = set.set(usize::from(*cpu));
    }
    if !cpus.is_empty()
        && let Err(error) = sched_setaffinity(Pid::from_raw(0), &set)
    {
        eprintln!("storm: the PMIx server of this node stays on a rank's processors: {error}");
    }
}

/// An error and its causes, in one line.
fn explain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn ignore_signals() -> Result<(), ServeError> {
    for number in NOT_FOR_US {
        // SAFETY: ignoring a signal runs no code of this program.
        unsafe { signal(number, SigHandler::SigIgn) }?;
    }
    for number in nix::libc::SIGRTMIN()..=nix::libc::SIGRTMAX() {
        // SAFETY: as above.
        let former = unsafe { nix::libc::signal(number, nix::libc::SIG_IGN) };
        if former == nix::libc::SIG_ERR {
            return Err(nix::Error::last().into());
        }
    }
    Ok(())
}

/// Raises the limit of descriptors. Each rank needs three in this process, and users' default
/// limits are low.
fn open_as_many_as_allowed() -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
}

struct Server {
    /// libpmix's server, or the reason why there is none, as reported to the ranks.
    pmix: Result<Pmix, String>,
    placement: Placement,
    listener: UnixListener,
    upcalls: Upcalls,
    watcher: Watcher,
    ranks: Arc<Mutex<Ranks>>,
    /// Readable when something has happened to a rank.
    news: Arc<Epoll>,
    fences: Fences,
}

impl Server {
    fn run(mut self) -> Result<(), ServeError> {
        while !lock(&self.ranks).are_over() {
            self.wait()?;
            while let Some(upcall) = self.upcalls.next() {
                self.answer(upcall)?;
            }
            // The ends of ranks are processed after their requests. Otherwise a rank that has just
            // joined could wait for a rank that had ended before.
            let mut ranks = lock(&self.ranks);
            ranks.note_ends()?;
            if ranks.leave_barriers()? {
                self.fences.all_are_out(&mut ranks)?;
            }
        }
        Ok(())
    }

    /// Waits until something has happened. Ranks that ask for an environment get it.
    fn wait(&mut self) -> Result<(), ServeError> {
        let all = [Some(self.listener.as_fd()), self.upcalls.bell(), Some(self.news.0.as_fd())];
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut polled: Vec<PollFd<'_>> = all.into_iter().flatten().map(readable).collect();
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if polled.first().is_some_and(|listener| listener.any() == Some(true)) {
            let (rank, _) = self.listener.accept()?;
            // A silent connection must not delay the others.
            rank.set_read_timeout(Some(ASKING_TIMEOUT))?;
            self.admit(rank);
        }
        Ok(())
    }

    /// Serves a rank that is about to execute its program.
    fn admit(&mut self, mut asking: UnixStream) {
        let admitted = asked(&asking).map_err(|error| error.to_string()).and_then(|(rank, pmi)| {
            lock(&self.ranks)
                .admit(rank, &asking, pmi, &self.watcher)
                .map_err(|error| error.to_string())?;
            self.environment(rank)
        });
        let told = answer(&mut asking, admitted.as_ref().map_err(String::as_str));
        if let Err(error) = told {
            eprintln!("storm: a rank gets no answer of its PMIx server: {error}");
        }
    }

    fn environment(&self, rank: u32) -> Result<Environment, String> {
        let pmix = self.pmix.as_ref().map_err(Clone::clone)?;
        if !self.placement.local().contains(&rank) {
            return Err(format!("rank {rank} is not of this node"));
        }
        pmix.environment(rank).map_err(|error| explain(&error))
    }

    fn answer(&mut self, upcall: Upcall) -> Result<(), ServeError> {
        match upcall {
            Upcall::Moved(moved) => moved?,
            Upcall::Abort { rank, exit_code, done } => {
                lock(&self.ranks).abort(rank, exit_code)?;
                done.give(SUCCESS);
            }
            // Open MPI 4.1 reports the refusal only to the rank that asked. The other ranks would
            // wait for ever.
            Upcall::Spawn { rank } if self.placement.size() > 1 => {
                eprintln!("storm: rank {rank}: MPI_Comm_spawn is refused, and the job ended");
                lock(&self.ranks).abort(rank, 1)?;
            }
            Upcall::Spawn { .. } => {}
            Upcall::Fence { ranks, blob, done } => {
                let whole =
                    ranks.as_ref().is_none_or(|ranks| ranks.len() as u32 == self.placement.size());
                let here = |ranks: &Vec<u32>| {
                    ranks.iter().all(|rank| self.placement.local().contains(rank))
                };
                match ranks {
                    _ if whole => {
                        self.fences.begin(Fence { blob, done }, &mut lock(&self.ranks))?
                    }
                    // All members are in the fence, because libpmix calls only then.
                    Some(ranks) if here(&ranks) => done.give(Ok(blob)),
                    Some(_) | None => done.give(Err(upcalls::REFUSED)),
                }
            }
        }
        Ok(())
    }
}
