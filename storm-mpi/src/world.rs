//! A rank's handle on its job: joining, leaving, and blocking messages.
//!
//! Safe layer over [`Process`]: buffers are borrowed for as long as the engine may touch them.
//! Collectives are in `collective/typed.rs`, non-blocking messages in `scope.rs`.

use crate::collective::Party;
use crate::comm::ContextId;
use crate::datatype::Datatype;
use crate::engine::{Received, RequestId};
use crate::envelope::{Address, Pattern, SendMode, Source, Status, Tag, TagPattern};
use crate::error::{CommError, InitError};
use crate::process::Process;
use crate::rank::Rank;
use crate::scope::Scope;
use std::cell::Cell;
use std::time::Instant;

/// Exit code of a rank that ends its job because a communication failed.
const FAILED_EXIT_CODE: i32 = 1;

/// What a communication error does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Say so on standard error and end the whole job (`MPI_ERRORS_ARE_FATAL`, the default).
    Abort,
    /// Return it (`MPI_ERRORS_RETURN`).
    Return,
}

/// All ranks of the job, seen from this one (`MPI_COMM_WORLD`).
///
/// Not shared between threads: one thread communicates (`MPI_THREAD_FUNNELED`).
pub struct World {
    process: Process,
    members: Vec<Rank>,
    on_error: Cell<OnError>,
    started: Instant,
}

impl World {
    /// Joins the job that the environment names (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`) and waits until
    /// every rank has joined. Without a process manager: rank 0 of 1.
    ///
    /// Call it once per process.
    ///
    /// # Errors
    /// [`InitError`].
    pub fn init() -> Result<Self, InitError> {
        let process = Process::join()?;
        Ok(World {
            members: (0..process.size()).map(Rank::from_index).collect(),
            process,
            on_error: Cell::new(OnError::Abort),
            started: Instant::now(),
        })
    }

    /// Waits until every rank has finished, then leaves the job. All communication must be over.
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn finalize(self) -> Result<(), CommError> {
        self.checked(self.process.finish())
    }

    /// Ends the whole job with this exit code, and this process at once.
    pub fn abort(&self, exit_code: i32) -> ! {
        self.process.abort(exit_code)
    }

    /// Chooses what errors do from now on.
    pub fn set_on_error(&self, on_error: OnError) {
        self.on_error.set(on_error);
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.process.rank()
    }

    /// Ranks in the job.
    pub fn size(&self) -> usize {
        self.process.size()
    }

    /// Seconds since this process joined the job (`MPI_Wtime`).
    pub fn wtime_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The name of the machine this rank runs on (`MPI_Get_processor_name`).
    pub fn processor_name(&self) -> String {
        match nix::unistd::gethostname() {
            Ok(name) => name.to_string_lossy().into_owned(),
            Err(_) => String::from("localhost"),
        }
    }

    /// Sends `data` and returns once it may be reused. Small messages do not wait for their receiver;
    /// large ones wait until it has begun to receive.
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn send<T: Datatype>(&self, data: &[T], to: Rank, tag: Tag) -> Result<(), CommError> {
        let send = || {
            let request = self.start_send(data, to, tag)?;
            self.wait(request).map(|_| ())
        };
        self.checked(send())
    }

    /// Receives one message into `into` and returns what it was.
    ///
    /// # Errors
    /// [`CommError::Truncated`] when it is longer than `into`; others with [`OnError::Return`].
    pub fn recv<T: Datatype>(
        &self,
        into: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagPattern>,
    ) -> Result<Status, CommError> {
        let recv = || {
            let request = self.start_recv(into, from.into(), tag.into())?;
            self.wait(request)?.ok_or(CommError::Ended).and_then(check_received::<T>)
        };
        self.checked(recv())
    }

    /// Sends and receives at once: no order of calls on the two sides can block for good.
    ///
    /// # Errors
    /// As [`World::send`] and [`World::recv`].
    pub fn sendrecv<T: Datatype, U: Datatype>(
        &self,
        data: &[T],
        to: Rank,
        send_tag: Tag,
        into: &mut [U],
        from: impl Into<Source>,
        recv_tag: impl Into<TagPattern>,
    ) -> Result<Status, CommError> {
        let (from, recv_tag) = (from.into(), recv_tag.into());
        self.scope(|scope| {
            let recv = scope.irecv(into, from, recv_tag)?;
            let send = scope.isend(data, to, send_tag)?;
            let (status, _) = recv.wait()?;
            send.wait()?;
            Ok(status)
        })
    }

    /// Runs `body` with a [`Scope`] for non-blocking messages; all of them are done when it returns.
    ///
    /// # Errors
    /// The body's, else that of a message still to be waited for.
    pub fn scope<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        Scope::run(self, body)
    }

    /// All ranks, for a collective.
    pub(crate) fn party(&self) -> Party<'_> {
        let me = self.rank().index();
        Party::new(&self.process, &self.members, me, ContextId::WORLD.collective())
    }

    /// The request must be waited for before `data`'s borrow ends.
    pub(crate) fn start_send<T: Datatype>(
        &self,
        data: &[T],
        to: Rank,
        tag: Tag,
    ) -> Result<RequestId, CommError> {
        let address = Address { to, context: ContextId::WORLD.point_to_point(), tag };
        let (start, bytes) = (data.as_ptr().cast(), size_of_val(data));
        // SAFETY: called by what waits for the request before it returns, and by a scope, which
        // outlives no buffer and waits for all its requests.
        unsafe { self.process.start_send(address, SendMode::Standard, start, bytes) }
    }

    /// The request must be waited for before `into`'s borrow ends.
    pub(crate) fn start_recv<T: Datatype>(
        &self,
        into: &mut [T],
        source: Source,
        tag: TagPattern,
    ) -> Result<RequestId, CommError> {
        let pattern = Pattern { context: ContextId::WORLD.point_to_point(), source, tag };
        let (start, bytes) = (into.as_mut_ptr().cast(), size_of_val(into));
        // SAFETY: as in `start_send`.
        unsafe { self.process.start_recv(pattern, start, bytes) }
    }

    pub(crate) fn wait(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        self.process.wait(id)
    }

    pub(crate) fn test(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        self.process.test(id)
    }

    /// Applies [`OnError`] to the outcome of a public call.
    pub(crate) fn checked<R>(&self, outcome: Result<R, CommError>) -> Result<R, CommError> {
        match outcome {
            Err(error) if self.on_error.get() == OnError::Abort => self.die_of(&error),
            outcome => outcome,
        }
    }

    fn die_of(&self, error: &CommError) -> ! {
        let mut text = format!("storm-mpi: rank {}: {error}", self.rank());
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        eprintln!("{text}");
        self.abort(FAILED_EXIT_CODE)
    }
}

/// Checks that a message fits its buffer and its element type.
pub(crate) fn check_received<T: Datatype>(received: Received) -> Result<Status, CommError> {
    let Received { status, buffer_bytes } = received;
    let (rank, sent_bytes) = (status.source, status.bytes);
    if sent_bytes > buffer_bytes {
        return Err(CommError::Truncated { rank, sent_bytes, buffer_bytes });
    }
    if sent_bytes % size_of::<T>() != 0 {
        return Err(CommError::PartialElement { rank, sent_bytes });
    }
    Ok(status)
}
