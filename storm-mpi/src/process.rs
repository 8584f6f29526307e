//! One process of a job, as message-passing libraries see it: bytes, contexts, requests.
//!
//! [`crate::Communicator`] and the C ABI are built on this thin handle on the engine. The handle
//! knows no datatypes and no communicators, and its ranks are ranks of the job.

mod cancelling;
mod probing;

use crate::background::{Background, Outstanding};
use crate::engine::{Engine, Lent, LentMut, Received, RequestId};
use crate::envelope::{Address, Context, Pattern, SendMode};
use crate::error::{CommError, InitError};
use crate::rank::Rank;
use crate::segment::Call;
use crate::threads::Threads;
use std::cell::{Cell, RefCell, RefMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// This process in its job.
///
/// Only one thread uses it at a time: the thread that [joined](Process::join), or, with [several
/// threads](Process::join_with), the thread that is inside.
pub struct Process {
    engine: RefCell<Engine>,
    others: Option<Others>,
    background: Background,
    rank: Rank,
    size: usize,
    in_slices: bool,
    begun: Cell<u64>,
}

/// State of the other threads, which enter while one waits.
struct Others {
    threads: Arc<Threads>,
    /// Descriptor that a sleeping thread polls.
    sockets: OwnedFd,
}

impl Process {
    /// Joins the job that the environment names (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`) and waits until
    /// every rank has joined. Without a process manager this process is rank 0 of 1.
    ///
    /// Call it once per process.
    ///
    /// # Errors
    /// [`InitError`].
    pub fn join() -> Result<Self, InitError> {
        Self::opened(None)
    }

    /// Joins the job for several threads. Each thread [enters](Threads::enter) before it uses the
    /// process in any way. While a thread waits, others enter.
    ///
    /// # Errors
    /// [`InitError`].
    pub fn join_with(threads: &Arc<Threads>) -> Result<Self, InitError> {
        Self::opened(Some(threads))
    }

    fn opened(threads: Option<&Arc<Threads>>) -> Result<Self, InitError> {
        let engine = Engine::open(threads.is_some())?;
        let others = |threads: &Arc<Threads>| -> Result<_, InitError> {
            let sockets = engine.sockets().map_err(InitError::os("epoll"))?;
            Ok(Others { threads: Arc::clone(threads), sockets })
        };
        Ok(Process {
            others: threads.map(others).transpose()?,
            rank: engine.me(),
            size: engine.size(),
            begun: Cell::new(0),
            in_slices: engine.is_in_slices(),
            background: Background::default(),
            engine: RefCell::new(engine),
        })
    }

    /// Whether several threads call the library at any rank of the job; all ranks get the same
    /// answer. If so, several agreements on contexts may be under way at the same time, and they
    /// use another method.
    ///
    /// # Errors
    /// [`CommError`].
    pub(crate) fn job_has_threads(&self) -> Result<bool, CommError> {
        // A failure also ends the waits of other threads.
        self.engine.borrow_mut().job_has_threads().inspect_err(|_| self.has_changed())
    }

    /// The engine, for an action that another thread may wait for.
    #[inline]
    fn engine(&self) -> RefMut<'_, Engine> {
        self.has_changed();
        self.engine.borrow_mut()
    }

    #[inline]
    fn has_changed(&self) {
        if let Some(others) = &self.others {
            others.threads.has_changed();
        }
    }

    /// Moves bytes. With `block` it waits for the first news, and lends the engine meanwhile.
    fn move_bytes(&self, block: bool) -> Result<(), CommError> {
        match &self.others {
            None => self.engine.borrow_mut().progress(block),
            Some(others) if block => others.threads.wait(&self.engine, others.sockets.as_fd()),
            Some(others) => others.threads.look(&self.engine),
        }
    }

    /// Whether a wait may keep the engine.
    #[inline]
    fn is_alone(&self) -> bool {
        self.background.is_empty() && self.others.is_none()
    }

    /// Rank of this process in the job.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of requests that this process has started so far, background work included.
    pub fn messages_begun(&self) -> u64 {
        self.begun.get()
    }

    /// Whether nodes move this job's messages in slices. Each message then takes two slices.
    pub(crate) fn is_in_slices(&self) -> bool {
        self.in_slices
    }

    /// Runs `wait` as a wait for all members of a communicator. The time of polling before a sleep
    /// then depends on how far apart the members arrive.
    pub(crate) fn for_all<T>(&self, wait: impl FnOnce() -> T) -> T {
        if self.others.is_some() {
            // The waits of other threads may overlap it.
            return wait();
        }
        self.engine.borrow_mut().wait_for_all(true);
        let done = wait();
        self.engine.borrow_mut().wait_for_all(false);
        done
    }

    /// The ranks of this node, including this rank, in order.
    pub fn node_ranks(&self) -> Vec<Rank> {
        self.engine.borrow().node_ranks().to_vec()
    }

    /// Whether all of these ranks are on this node.
    pub(crate) fn are_on_this_node(&self, ranks: &[Rank]) -> bool {
        let engine = self.engine.borrow();
        ranks.iter().all(|rank| engine.node_ranks().binary_search(rank).is_ok())
    }

    /// Starts to send the `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The bytes must be valid for reads, and not written, until the request is done or a call has
    /// failed with anything but an argument error. If `bytes` is 0, `start` may be anything.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`]; any other ends all communication.
    pub unsafe fn start_send(
        &self,
        address: Address,
        mode: SendMode,
        start: *const u8,
        bytes: usize,
    ) -> Result<RequestId, CommError> {
        self.begun.set(self.begun.get() + 1);
        // SAFETY: the caller vouches for the memory, under the same contract.
        unsafe { self.engine().start_send(address, mode, Lent { start, bytes }) }
    }

    /// Starts to receive one message into the `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The bytes must be valid for writes, and not otherwise touched, until the request is done or
    /// a call has failed with anything but an argument error. With no bytes, any `start` is
    /// allowed.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`]; any other ends all communication.
    pub unsafe fn start_recv(
        &self,
        pattern: Pattern,
        start: *mut u8,
        bytes: usize,
    ) -> Result<RequestId, CommError> {
        self.begun.set(self.begun.get() + 1);
        // SAFETY: the caller vouches for the memory, under the same contract.
        unsafe { self.engine().start_recv(pattern, LentMut { start, bytes }) }
    }

    /// Sends `data` and returns once `data` may be reused.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn send(&self, address: Address, mode: SendMode, data: &[u8]) -> Result<(), CommError> {
        if mode == SendMode::Standard && self.send_short(address, data)? {
            return Ok(());
        }
        // SAFETY: `data` stays borrowed until `wait` returns, and `wait` returns when the request
        // is done or the engine has ended.
        let send = unsafe {
            let data = Lent { start: data.as_ptr(), bytes: data.len() };
            self.engine().begin_send(address, mode, data)?
        };
        match send {
            Some(send) => self.wait(send).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Sends `data` if it is short, its receiver is a neighbour, and nothing prevents it. Returns
    /// false if nothing was done; the caller then uses [`Process::send`].
    ///
    /// # Errors
    /// [`CommError`].
    pub fn send_short(&self, address: Address, data: &[u8]) -> Result<bool, CommError> {
        // A failure also ends the waits of other threads.
        self.engine.borrow_mut().send_short(address, data).inspect_err(|_| self.has_changed())
    }

    /// Receives a short message of a neighbour that is there or arrives within a microsecond, or,
    /// after longer messages, within three or four. `None` means that nothing was received; the
    /// caller then uses [`Process::recv_by_request`].
    ///
    /// # Errors
    /// [`CommError`].
    pub fn recv_short(
        &self,
        pattern: &Pattern,
        into: &mut [u8],
    ) -> Result<Option<Received>, CommError> {
        // Each wait advances the background work.
        if !self.background.is_empty() {
            return Ok(None);
        }
        // As in `send_short`.
        self.engine.borrow_mut().recv_short(pattern, into).inspect_err(|_| self.has_changed())
    }

    /// Receives one message into `into`. A longer message is truncated.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn recv(&self, pattern: Pattern, into: &mut [u8]) -> Result<Received, CommError> {
        match self.recv_short(&pattern, into)? {
            Some(received) => Ok(received),
            None => self.recv_by_request(pattern, into),
        }
    }

    /// Receives as [`Process::recv`] does, after [`Process::recv_short`] was tried. The wait that
    /// `recv_short` began continues and is not begun a second time.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn recv_by_request(
        &self,
        pattern: Pattern,
        into: &mut [u8],
    ) -> Result<Received, CommError> {
        // SAFETY: as in `send`.
        let received = unsafe {
            let recv = self.start_recv(pattern, into.as_mut_ptr(), into.len())?;
            self.wait_by_news(recv)?
        };
        received.ok_or(CommError::Ended)
    }

    /// Waits until a request is done and collects it. A send gives `None`.
    ///
    /// # Errors
    /// [`CommError`]; also when the request has been collected before.
    pub fn wait(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        if self.background.is_empty() {
            let received = self.engine.borrow_mut().wait_short(id);
            // A failure also ends the waits of other threads.
            if let Some(received) = received.inspect_err(|_| self.has_changed())? {
                return Ok(Some(received));
            }
        }
        self.wait_by_news(id)
    }

    /// Waits for a request after the short path was tried.
    fn wait_by_news(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        if self.is_alone() {
            return self.engine.borrow_mut().wait(id);
        }
        let mut waited = false;
        loop {
            let mut engine = self.engine.borrow_mut();
            if let Some(done) = engine.collect(id)? {
                engine.has_waited(waited && done.is_none());
                return Ok(done);
            }
            drop(engine);
            self.progress(true)?;
            waited = true;
        }
    }

    /// Collects a request if it is done. Moves bytes, does not wait.
    ///
    /// # Errors
    /// Like [`Process::wait`].
    pub fn test(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        if self.is_alone() {
            return self.engine.borrow_mut().test(id);
        }
        if let Some(done) = self.engine.borrow_mut().collect(id)? {
            return Ok(Some(done));
        }
        self.progress(false)?;
        self.engine.borrow_mut().collect(id)
    }

    /// Whether a request is done. Neither collects it nor moves bytes.
    ///
    /// # Errors
    /// Like [`Process::wait`].
    pub fn is_done(&self, id: RequestId) -> Result<bool, CommError> {
        self.engine.borrow().is_done(id)
    }

    /// Waits until a request is done or gone, and leaves it to be collected. Other threads still
    /// find the request meanwhile.
    ///
    /// # Errors
    /// [`CommError`], when the request will never be done.
    pub fn wait_until_done(&self, id: RequestId) -> Result<(), CommError> {
        let mut waited = false;
        while matches!(self.is_done(id), Ok(false)) {
            self.progress(true)?;
            waited = true;
        }
        let engine = self.engine.borrow();
        engine.has_waited(waited && engine.is_sent(id));
        Ok(())
    }

    /// Moves bytes, and advances the background work. With `block` it waits for the first news.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn progress(&self, block: bool) -> Result<(), CommError> {
        // The background work may wait for an action of the caller, and no news announces it.
        if self.background.poll() && block {
            return Ok(());
        }
        let moved = self.move_bytes(block);
        // The poll also follows a failure, so the futures learn of it.
        self.background.poll();
        moved
    }

    /// Runs a future whenever this process moves bytes, for example a collective of a [party in the
    /// background](crate::collective::Party::in_background). The future is polled once before
    /// `in_background` returns, and then until it is done or the process is gone.
    pub fn in_background<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Outstanding<T> {
        self.has_changed();
        self.background.begin(future)
    }

    /// Records that the condition of a background future may have become true without a message.
    /// The future continues, and waiting threads check again.
    pub fn stir(&self) {
        self.background.stepped();
        self.background.poll();
        self.has_changed();
    }

    /// Waits for a result of background work.
    ///
    /// # Errors
    /// [`CommError`], when the work will never be done.
    pub fn wait_for<T>(&self, outstanding: &Outstanding<T>) -> Result<T, CommError> {
        loop {
            if let Some(done) = outstanding.take() {
                return Ok(done);
            }
            let moved = self.progress(true);
            if !outstanding.is_done() {
                moved?;
            }
        }
    }

    /// Collects a request of background work, if it is done. Moves no bytes.
    ///
    /// # Errors
    /// Like [`Process::wait`].
    pub fn step(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        let done = self.engine.borrow_mut().collect(id);
        if !matches!(done, Ok(None)) {
            self.background.stepped();
            self.has_changed();
        }
        done
    }

    /// Takes part in a collective that the nodes carry out, waits for its end, and returns the
    /// result for this member. `None` means that the nodes do not carry it out and members must
    /// pass messages.
    pub(crate) fn collective(
        &self,
        context: Context,
        members: &[Rank],
        call: Call<'_>,
    ) -> Result<Option<Vec<u8>>, CommError> {
        // A rank has one collective at a time with its node, but each of several threads may have
        // its own.
        if !self.in_slices || self.job_has_threads()? {
            return Ok(None);
        }
        let frame = self.engine.borrow_mut().call_frame(context, members, call)?;
        let Some(frame) = frame else { return Ok(None) };
        while !self.engine.borrow_mut().post_call(context, &frame)? {
            self.progress(true)?;
        }
        loop {
            let result = self.engine.borrow_mut().take_result();
            if let Some(result) = result {
                return Ok(result);
            }
            self.progress(true)?;
        }
    }

    /// Waits until every rank has finished, then leaves the job. All communication must be over.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn finish(&self) -> Result<(), CommError> {
        while !self.background.is_empty() {
            self.progress(true)?;
        }
        self.engine.borrow_mut().finish()
    }

    /// Requests the end of the whole job from the process manager, and ends this process.
    pub fn abort(&self, exit_code: i32) -> ! {
        // If the call comes from within a communication, the engine is in use, and only the
        // process's exit code ends the job. If the process manager is gone, no report is possible.
        if let Ok(mut engine) = self.engine.try_borrow_mut() {
            let _ = engine.abort(exit_code);
        }
        std::process::exit(exit_code);
    }
}

/// The name of the machine this process runs on (`MPI_Get_processor_name`).
pub fn processor_name() -> String {
    match nix::unistd::gethostname() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => String::from("localhost"),
    }
}
