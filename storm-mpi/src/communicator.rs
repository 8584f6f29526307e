//! A communicator: some ranks of the job in a context of their own, and blocking messages in it.
//!
//! A safe layer over [`Process`]: buffers are borrowed for as long as the engine may touch them.
//! Collectives are in `collective/typed.rs`, non-blocking messages in `scope.rs`. Ranks are places
//! in the communicator's group; only errors of a connection name ranks of the job.

use crate::collective::{BlocksMut, Party, bytes_of, bytes_of_mut, now};
use crate::comm::{Choice, ContextId, ContextPool, Group, chosen_together};
use crate::datatype::Datatype;
use crate::engine::{Received, RequestId};
use crate::envelope::{Address, Pattern, SendMode, Source, Status, Tag, TagPattern};
use crate::error::CommError;
use crate::process::Process;
use crate::rank::Rank;
use crate::scope::Scope;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

/// Exit code of a rank that ends its job because a communication failed.
const FAILED_EXIT_CODE: i32 = 1;

/// The effect of a communication error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Print the error on standard error and end the whole job (`MPI_ERRORS_ARE_FATAL`, the
    /// default).
    Abort,
    /// Return the error (`MPI_ERRORS_RETURN`).
    Return,
}

/// State that all communicators of a process share.
pub(crate) struct Job {
    pub(crate) process: Process,
    pub(crate) started: Instant,
    contexts: RefCell<ContextPool>,
}

impl Job {
    pub(crate) fn new(process: Process) -> Self {
        Job { process, started: Instant::now(), contexts: RefCell::default() }
    }
}

/// Ranks that communicate with each other, apart from all other messages.
///
/// A communicator is not shared between threads: one thread communicates (`MPI_THREAD_FUNNELED`).
/// All members call the same collectives of a communicator in the same order, including
/// [`Communicator::duplicate`] and [`Communicator::split`].
pub struct Communicator {
    job: Rc<Job>,
    context: ContextId,
    group: Group,
    /// Rank of this process in the group.
    me: usize,
    on_error: Cell<OnError>,
}

impl Communicator {
    /// All ranks of the job.
    pub(crate) fn world(job: &Rc<Job>) -> Self {
        Communicator {
            group: Group::new((0..job.process.size()).map(Rank::from_index)),
            me: job.process.rank().index(),
            job: Rc::clone(job),
            context: ContextId::WORLD,
            on_error: Cell::new(OnError::Abort),
        }
    }

    /// A communicator of the same members in a context of its own (`MPI_Comm_dup`).
    ///
    /// # Errors
    /// [`CommError::NoContext`]; others with [`OnError::Return`].
    pub fn duplicate(&self) -> Result<Communicator, CommError> {
        self.checked(self.with_members(self.group.clone(), self.me))
    }

    /// A communicator of the members that choose the same `color`, ordered by `key` and then by
    /// their rank here (`MPI_Comm_split`). `None` for members without a color.
    ///
    /// # Errors
    /// Like [`Communicator::duplicate`].
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Communicator>, CommError> {
        let split = || {
            let mut told = vec![0; self.size() * Choice::BYTES];
            let places: Vec<_> =
                (0..self.size()).map(|i| i * Choice::BYTES..(i + 1) * Choice::BYTES).collect();
            let mine = Choice { color, key }.encode();
            let mut told_by = BlocksMut::new(&mut told, &places)?;
            now(self.party().allgather(Some(&mine), &mut told_by))?;
            let (choices, _) = told.as_chunks::<{ Choice::BYTES }>();
            let choices: Vec<_> = choices.iter().map(|&chunk| Choice::decode(chunk)).collect();
            let together = chosen_together(&choices, self.me);
            let me = together.iter().position(|&place| place == self.me);
            let group = Group::new(together.iter().map(|&place| self.group.members()[place]));
            self.made_by_all(me.map(|me| (group, me)))
        };
        self.checked(split())
    }

    /// Makes a communicator of the members of `group` (`MPI_Comm_create`). All members of this
    /// communicator call it with the same `group`. Callers outside of the group get `None`.
    ///
    /// # Errors
    /// Like [`Communicator::duplicate`].
    pub fn create(&self, group: &Group) -> Result<Option<Communicator>, CommError> {
        let me = group.position(self.job.process.rank());
        self.checked(self.made_by_all(me.map(|me| (group.clone(), me))))
    }

    /// The members, by their rank in the job.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Ends the whole job with this exit code, and this process at once.
    pub fn abort(&self, exit_code: i32) -> ! {
        self.job.process.abort(exit_code)
    }

    /// Chooses the effect of errors of this communicator from now on. Communicators made from it
    /// inherit the choice.
    pub fn set_on_error(&self, on_error: OnError) {
        self.on_error.set(on_error);
    }

    /// Rank of this process in this communicator.
    pub fn rank(&self) -> Rank {
        Rank::from_index(self.me)
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Sends `data` and returns once `data` may be reused. Small messages do not wait for their
    /// receiver. Large messages wait until the receiver has begun to receive.
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn send<T: Datatype>(&self, data: &[T], to: Rank, tag: Tag) -> Result<(), CommError> {
        self.send_in_mode(data, to, tag, SendMode::Standard)
    }

    /// Sends `data` and returns once its receiver has begun to receive it (`MPI_Ssend`).
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn ssend<T: Datatype>(&self, data: &[T], to: Rank, tag: Tag) -> Result<(), CommError> {
        self.send_in_mode(data, to, tag, SendMode::Synchronous)
    }

    /// Receives one message into `into` and returns its status.
    ///
    /// # Errors
    /// [`CommError::Truncated`] when the message is longer than `into`; others with
    /// [`OnError::Return`].
    pub fn recv<T: Datatype>(
        &self,
        into: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagPattern>,
    ) -> Result<Status, CommError> {
        let recv = || {
            let pattern = self.pattern(from.into(), tag.into())?;
            self.received::<T>(Some(self.job.process.recv(pattern, bytes_of_mut(into))?))
        };
        self.checked(recv())
    }

    /// Waits for a message and does not receive it (`MPI_Probe`).
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn probe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagPattern>,
    ) -> Result<Status, CommError> {
        let pattern = self.pattern(from.into(), tag.into());
        self.checked(pattern.and_then(|pattern| self.job.process.await_message(&pattern)))
            .map(|status| self.seen_here(status))
    }

    /// The message that a receive would get now, if there is one (`MPI_Iprobe`).
    ///
    /// # Errors
    /// [`CommError`], with [`OnError::Return`].
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagPattern>,
    ) -> Result<Option<Status>, CommError> {
        let pattern = self.pattern(from.into(), tag.into());
        self.checked(pattern.and_then(|pattern| self.job.process.probe(&pattern)))
            .map(|found| found.map(|status| self.seen_here(status)))
    }

    /// Sends and receives at the same time, so no order of calls on the two sides can block for
    /// good.
    ///
    /// # Errors
    /// Like [`Communicator::send`] and [`Communicator::recv`].
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

    /// Runs `body` with a [`Scope`] for non-blocking messages. All of them are done when `scope`
    /// returns.
    ///
    /// # Errors
    /// The body's error, else the error of a message that was still to be waited for.
    pub fn scope<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        Scope::run(self, body)
    }

    /// All members, for a collective.
    pub(crate) fn party(&self) -> Party<'_> {
        let context = self.context.collective();
        Party::new(&self.job.process, self.group.members(), self.me, context)
    }

    /// The request must be waited for before `data`'s borrow ends.
    pub(crate) fn start_send<T: Datatype>(
        &self,
        data: &[T],
        to: Rank,
        tag: Tag,
        mode: SendMode,
    ) -> Result<RequestId, CommError> {
        let to = self.in_job(to)?;
        let address = Address { to, context: self.context.point_to_point(), tag };
        let (start, bytes) = (data.as_ptr().cast(), size_of_val(data));
        // SAFETY: the callers wait for the request before they return. A scope outlives no buffer
        // and waits for all its requests.
        unsafe { self.job.process.start_send(address, mode, start, bytes) }
    }

    /// The request must be waited for before `into`'s borrow ends.
    pub(crate) fn start_recv<T: Datatype>(
        &self,
        into: &mut [T],
        source: Source,
        tag: TagPattern,
    ) -> Result<RequestId, CommError> {
        let pattern = self.pattern(source, tag)?;
        let (start, bytes) = (into.as_mut_ptr().cast(), size_of_val(into));
        // SAFETY: as in `start_send`.
        unsafe { self.job.process.start_recv(pattern, start, bytes) }
    }

    pub(crate) fn wait(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        self.job.process.wait(id)
    }

    pub(crate) fn test(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        self.job.process.test(id)
    }

    /// Makes the [`Status`] of a receive of such elements.
    pub(crate) fn received<T: Datatype>(
        &self,
        received: Option<Received>,
    ) -> Result<Status, CommError> {
        let Received { status, buffer_bytes } = received.ok_or(CommError::Ended)?;
        let status = self.seen_here(status);
        let (rank, sent_bytes) = (status.source, status.bytes);
        if sent_bytes > buffer_bytes {
            return Err(CommError::Truncated { rank, sent_bytes, buffer_bytes });
        }
        if !sent_bytes.is_multiple_of(size_of::<T>()) {
            return Err(CommError::PartialElement { rank, sent_bytes });
        }
        Ok(status)
    }

    /// Applies [`OnError`] to the outcome of a public call.
    pub(crate) fn checked<R>(&self, outcome: Result<R, CommError>) -> Result<R, CommError> {
        match outcome {
            Err(error) if self.on_error.get() == OnError::Abort => self.die_of(&error),
            outcome => outcome,
        }
    }

    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    fn send_in_mode<T: Datatype>(
        &self,
        data: &[T],
        to: Rank,
        tag: Tag,
        mode: SendMode,
    ) -> Result<(), CommError> {
        let send = || {
            let to = self.in_job(to)?;
            let address = Address { to, context: self.context.point_to_point(), tag };
            self.job.process.send(address, mode, bytes_of(data))
        };
        self.checked(send())
    }

    fn pattern(&self, source: Source, tag: TagPattern) -> Result<Pattern, CommError> {
        let source = match source {
            Source::Any => Source::Any,
            Source::Rank(rank) => Source::Rank(self.in_job(rank)?),
        };
        Ok(Pattern { context: self.context.point_to_point(), source, tag })
    }

    fn in_job(&self, rank: Rank) -> Result<Rank, CommError> {
        let unknown = CommError::NoSuchRank { rank, size: self.size() as u32 };
        self.group.members().get(rank.index()).copied().ok_or(unknown)
    }

    /// The status with its source's rank in this communicator. Only members send in this context.
    fn seen_here(&self, status: Status) -> Status {
        let source = self.group.position(status.source).map_or(status.source, Rank::from_index);
        Status { source, ..status }
    }

    /// Makes a new communicator. Every member of this communicator calls it, including members that
    /// will not use the new one, because all of them agree on the context.
    fn made_by_all(&self, part: Option<(Group, usize)>) -> Result<Option<Communicator>, CommError> {
        let agreed = ContextPool::agree(&self.job.contexts, self.party())?;
        let context = agreed.ok_or(CommError::NoContext)?;
        let Some((group, me)) = part else {
            self.job.contexts.borrow_mut().give_back(context);
            return Ok(None);
        };
        self.job.contexts.borrow_mut().take(context);
        let (job, on_error) = (Rc::clone(&self.job), self.on_error.clone());
        Ok(Some(Communicator { job, context, group, me, on_error }))
    }

    fn with_members(&self, group: Group, me: usize) -> Result<Communicator, CommError> {
        self.made_by_all(Some((group, me)))?.ok_or(CommError::Ended)
    }

    fn die_of(&self, error: &CommError) -> ! {
        let mut text = format!("storm-mpi: rank {}: {error}", self.job.process.rank());
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        // Writes the whole line at once: ranks often fail together, and pieces of their lines would
        // mix.
        text.push('\n');
        eprint!("{text}");
        self.abort(FAILED_EXIT_CODE)
    }
}

impl Drop for Communicator {
    /// No message of this communicator is under way here: a scope waits for all of its own.
    fn drop(&mut self) {
        if self.context != ContextId::WORLD {
            self.job.contexts.borrow_mut().give_back(self.context);
        }
    }
}
