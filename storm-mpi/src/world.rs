//! A rank's handle on its job: joining, leaving, and blocking messages.
//!
//! Safe layer over the engine: buffers are borrowed for as long as the engine may touch them.
//! Collectives are in `collective.rs`, non-blocking messages in `scope.rs`.

use crate::datatype::Datatype;
use crate::engine::{Engine, Lent, LentMut, Received, RequestId};
use crate::envelope::{Context, Pattern, Source, Status, Tag, TagPattern};
use crate::error::{CommError, InitError};
use crate::rank::Rank;
use crate::scope::Scope;
use std::cell::{Cell, RefCell};
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
    engine: RefCell<Engine>,
    on_error: Cell<OnError>,
    started: Instant,
    rank: Rank,
    size: usize,
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
        let engine = Engine::open()?;
        Ok(World {
            rank: engine.me(),
            size: engine.size(),
            engine: RefCell::new(engine),
            on_error: Cell::new(OnError::Abort),
            started: Instant::now(),
        })
    }

    /// Waits until every rank has finished, then leaves the job. All communication must be over.
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn finalize(self) -> Result<(), CommError> {
        let outcome = self.engine.borrow_mut().finish();
        self.checked(outcome)
    }

    /// Ends the whole job with this exit code, and this process at once.
    pub fn abort(&self, exit_code: i32) -> ! {
        // When the process manager is gone already, there is nobody left to tell.
        let _ = self.engine.borrow_mut().abort(exit_code);
        std::process::exit(exit_code);
    }

    /// Chooses what errors do from now on.
    pub fn set_on_error(&self, on_error: OnError) {
        self.on_error.set(on_error);
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> usize {
        self.size
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
        self.checked(self.send_in(Context::POINT_TO_POINT, data, to, tag))
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
        let (source, tag) = (from.into(), tag.into());
        let pattern = Pattern { context: Context::POINT_TO_POINT, source, tag };
        self.checked(self.recv_in(pattern, into))
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

    pub(crate) fn send_in<T: Datatype>(
        &self,
        context: Context,
        data: &[T],
        to: Rank,
        tag: Tag,
    ) -> Result<(), CommError> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: `data` stays borrowed until `wait` returns, and `wait` returns when the request is
        // done or the engine has ended.
        unsafe {
            let send = engine.start_send(to, context, tag, lend(data))?;
            engine.wait(send).map(|_| ())
        }
    }

    pub(crate) fn recv_in<T: Datatype>(
        &self,
        pattern: Pattern,
        into: &mut [T],
    ) -> Result<Status, CommError> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: as in `send_in`.
        let received = unsafe {
            let recv = engine.start_recv(pattern, lend_mut(into))?;
            engine.wait(recv)?
        };
        drop(engine);
        received.ok_or(CommError::Ended).and_then(check_received::<T>)
    }

    pub(crate) fn start_send<T: Datatype>(
        &self,
        data: &[T],
        to: Rank,
        tag: Tag,
    ) -> Result<RequestId, CommError> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: called by a scope only, which outlives no buffer and waits for all its requests.
        unsafe { engine.start_send(to, Context::POINT_TO_POINT, tag, lend(data)) }
    }

    pub(crate) fn start_recv<T: Datatype>(
        &self,
        into: &mut [T],
        source: Source,
        tag: TagPattern,
    ) -> Result<RequestId, CommError> {
        let pattern = Pattern { context: Context::POINT_TO_POINT, source, tag };
        // SAFETY: as in `start_send`.
        unsafe { self.engine.borrow_mut().start_recv(pattern, lend_mut(into)) }
    }

    pub(crate) fn wait(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        self.engine.borrow_mut().wait(id)
    }

    pub(crate) fn test(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        self.engine.borrow_mut().test(id)
    }

    /// Applies [`OnError`] to the outcome of a public call.
    pub(crate) fn checked<R>(&self, outcome: Result<R, CommError>) -> Result<R, CommError> {
        match outcome {
            Err(error) if self.on_error.get() == OnError::Abort => self.die_of(&error),
            outcome => outcome,
        }
    }

    fn die_of(&self, error: &CommError) -> ! {
        let mut text = format!("storm-mpi: rank {}: {error}", self.rank);
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

fn lend<T: Datatype>(data: &[T]) -> Lent {
    Lent { start: data.as_ptr().cast(), bytes: size_of_val(data) }
}

fn lend_mut<T: Datatype>(into: &mut [T]) -> LentMut {
    LentMut { start: into.as_mut_ptr().cast(), bytes: size_of_val(into) }
}
