//! One process of a job, as libraries of message passing see it: bytes, contexts, requests.
//!
//! What [`crate::Communicator`] and the C ABI stand on: a thin handle on the engine that may be used from
//! several places of one thread. Knows no datatypes and no communicators; ranks here are the job's.

use crate::background::{Background, Outstanding};
use crate::engine::{Engine, Lent, LentMut, MessageId, Received, RequestId};
use crate::envelope::{Address, Context, Pattern, SendMode, Status};
use crate::error::{CommError, InitError};
use crate::rank::Rank;
use crate::segment::Call;
use std::cell::{Cell, RefCell};

/// This process in its job.
///
/// Not shared between threads: one thread at a time communicates.
pub struct Process {
    engine: RefCell<Engine>,
    background: Background,
    rank: Rank,
    size: usize,
    in_slices: bool,
    begun: Cell<u64>,
}

impl Process {
    /// Joins the job that the environment names (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`) and waits until
    /// every rank has joined. Without a process manager: rank 0 of 1.
    ///
    /// Call it once per process.
    ///
    /// # Errors
    /// [`InitError`].
    pub fn join() -> Result<Self, InitError> {
        let engine = Engine::open()?;
        Ok(Process {
            rank: engine.me(),
            size: engine.size(),
            begun: Cell::new(0),
            in_slices: engine.is_in_slices(),
            background: Background::default(),
            engine: RefCell::new(engine),
        })
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many messages this process has started to send or to receive so far as requests: those of the
    /// background all are.
    pub fn messages_begun(&self) -> u64 {
        self.begun.get()
    }

    /// Whether nodes move this job's messages, in slices: then each takes two of them.
    pub(crate) fn is_in_slices(&self) -> bool {
        self.in_slices
    }

    /// Does what waits for all members of a communicator: how long it looks before it sleeps
    /// depends on how differently they come.
    pub(crate) fn for_all<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.engine.borrow_mut().wait_for_all(true);
        let done = wait();
        self.engine.borrow_mut().wait_for_all(false);
        done
    }

    /// The ranks of this node, this one among them, in order.
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
    /// They must be valid for reads, and not written, until the request is done or a call has
    /// failed with anything but an argument error. With no bytes, `start` may be anything.
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
        // SAFETY: the caller vouches for the memory, with the same words.
        unsafe { self.engine.borrow_mut().start_send(address, mode, Lent { start, bytes }) }
    }

    /// Starts to receive one message into the `bytes` bytes at `start`.
    ///
    /// # Safety
    /// They must be valid for writes, and not otherwise touched, until the request is done or a
    /// call has failed with anything but an argument error. With no bytes, `start` may be anything.
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
        // SAFETY: the caller vouches for the memory, with the same words.
        unsafe { self.engine.borrow_mut().start_recv(pattern, LentMut { start, bytes }) }
    }

    /// Sends `data` and returns once it may be reused.
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
            self.engine.borrow_mut().begin_send(address, mode, data)?
        };
        match send {
            Some(send) => self.wait(send).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Sends `data` if it is short, goes to a neighbour, and nothing stands in its way. False: nothing
    /// was done, and [`Process::send`] does it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn send_short(&self, address: Address, data: &[u8]) -> Result<bool, CommError> {
        self.engine.borrow_mut().send_short(address, data)
    }

    /// Receives a short message of a neighbour that is there, or comes within a microsecond, or after longer ones
    /// within three or four. `None`: it was not received, and [`Process::recv_by_request`] does it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn recv_short(
        &self,
        pattern: &Pattern,
        into: &mut [u8],
    ) -> Result<Option<Received>, CommError> {
        // What is in the background is brought on by each wait.
        if !self.background.is_empty() {
            return Ok(None);
        }
        self.engine.borrow_mut().recv_short(pattern, into)
    }

    /// Receives one message into `into`, which is cut when it is longer.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn recv(&self, pattern: Pattern, into: &mut [u8]) -> Result<Received, CommError> {
        match self.recv_short(&pattern, into)? {
            Some(received) => Ok(received),
            None => self.recv_by_request(pattern, into),
        }
    }

    /// As [`Process::recv`], for who has tried [`Process::recv_short`]: the wait that this began goes on, and is not
    /// begun a second time.
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

    /// Waits until a request is done and collects it; a send gives `None`.
    ///
    /// # Errors
    /// [`CommError`]; also when the request has been collected before.
    pub fn wait(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        if self.background.is_empty()
            && let Some(received) = self.engine.borrow_mut().wait_short(id)?
        {
            return Ok(Some(received));
        }
        self.wait_by_news(id)
    }

    /// The same for who has tried the straight way.
    fn wait_by_news(&self, id: RequestId) -> Result<Option<Received>, CommError> {
        if self.background.is_empty() {
            return self.engine.borrow_mut().wait(id);
        }
        loop {
            if let Some(done) = self.engine.borrow_mut().collect(id)? {
                return Ok(done);
            }
            self.progress(true)?;
        }
    }

    /// Collects a request if it is done. Moves bytes, does not wait.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn test(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        if self.background.is_empty() {
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
    /// As [`Process::wait`].
    pub fn is_done(&self, id: RequestId) -> Result<bool, CommError> {
        self.engine.borrow().is_done(id)
    }

    /// Takes back a receive that no message has matched, and tells whether it was one: then the
    /// request is gone, and its memory is the caller's again.
    pub fn cancel_recv(&self, id: RequestId) -> bool {
        self.engine.borrow_mut().cancel_recv(id)
    }

    /// Asks for a send that no receive has taken yet: it is done then in any case, and
    /// [`Process::wait_for_cancelled`] tells what has become of it. The receiver's answer comes when that is inside of a
    /// function that waits, tests or probes.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn cancel_send(&self, id: RequestId) -> Result<(), CommError> {
        self.engine.borrow_mut().cancel_send(id)
    }

    /// Waits for a send that was asked back and collects it: whether it came back. Its receiver has not seen it then.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn wait_for_cancelled(&self, id: RequestId) -> Result<bool, CommError> {
        while !self.is_done(id)? {
            self.progress(true)?;
        }
        let is_back = self.engine.borrow().is_cancelled(id);
        self.engine.borrow_mut().collect(id)?;
        Ok(is_back)
    }

    /// What the next matching message is that no receive has taken. Moves bytes, does not wait.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn probe(&self, pattern: &Pattern) -> Result<Option<Status>, CommError> {
        let found = self.engine.borrow().look_for(pattern)?;
        if found.is_some() {
            return Ok(found);
        }
        self.progress(false)?;
        self.engine.borrow().look_for(pattern)
    }

    /// Waits for a matching message and leaves it where it is.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn await_message(&self, pattern: &Pattern) -> Result<Status, CommError> {
        loop {
            if let Some(status) = self.engine.borrow().look_for(pattern)? {
                return Ok(status);
            }
            self.progress(true)?;
        }
    }

    /// As [`Process::probe`], and takes the message (`MPI_Improbe`).
    ///
    /// # Errors
    /// [`CommError`].
    pub fn hold(&self, pattern: &Pattern) -> Result<Option<(MessageId, Status)>, CommError> {
        let held = self.engine.borrow_mut().hold(pattern)?;
        if held.is_some() {
            return Ok(held);
        }
        self.progress(false)?;
        self.engine.borrow_mut().hold(pattern)
    }

    /// Waits for a matching message and takes it (`MPI_Mprobe`): only
    /// [a receive of it](Process::start_recv_of) gets it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn await_and_hold(&self, pattern: &Pattern) -> Result<(MessageId, Status), CommError> {
        loop {
            if let Some(held) = self.engine.borrow_mut().hold(pattern)? {
                return Ok(held);
            }
            self.progress(true)?;
        }
    }

    /// Starts to receive a message that was taken.
    ///
    /// # Safety
    /// As [`Process::start_recv`].
    ///
    /// # Errors
    /// [`CommError`], which ends all communication but when the message was received before.
    pub unsafe fn start_recv_of(
        &self,
        message: MessageId,
        start: *mut u8,
        bytes: usize,
    ) -> Result<RequestId, CommError> {
        // SAFETY: the caller vouches for the memory, with the same words.
        unsafe { self.engine.borrow_mut().start_recv_of(message, LentMut { start, bytes }) }
    }

    /// Moves bytes, and brings on what is in the background; waits for the first news when `block`.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn progress(&self, block: bool) -> Result<(), CommError> {
        // What the caller has done since may be what the background waited for: no news would come.
        if self.background.poll() && block {
            return Ok(());
        }
        let moved = self.engine.borrow_mut().progress(block);
        // After a failure too, which its futures learn of.
        self.background.poll();
        moved
    }

    /// Runs a future, such as a collective of a [party in the
    /// background](crate::collective::Party::in_background), whenever this process moves bytes. It is
    /// polled once before this returns, and then until it is done, or this process is gone.
    pub fn in_background<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Outstanding<T> {
        self.background.begin(future)
    }

    /// Waits for what runs in the background.
    ///
    /// # Errors
    /// [`CommError`], when it will never be done.
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

    /// As [`Process::hold`], for the background: of what has arrived, as bytes are moved by who runs it.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn hold_arrived(
        &self,
        pattern: &Pattern,
    ) -> Result<Option<(MessageId, Status)>, CommError> {
        self.engine.borrow_mut().hold(pattern)
    }

    /// Collects a request of the background, if it is done. Moves no bytes.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn step(&self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        let done = self.engine.borrow_mut().collect(id);
        if !matches!(done, Ok(None)) {
            self.background.stepped();
        }
        done
    }

    /// Takes part in a collective that the nodes carry out, and waits for its end: what came of it for
    /// this member. `None`: nodes do not, and members have to pass messages.
    pub(crate) fn collective(
        &self,
        context: Context,
        members: &[Rank],
        call: Call<'_>,
    ) -> Result<Option<Vec<u8>>, CommError> {
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

    /// Asks the process manager for the end of the whole job, and ends this process.
    pub fn abort(&self, exit_code: i32) -> ! {
        // Called from within a communication, the engine is in use: the process's exit code has
        // to do. When the process manager is gone, there is nobody left to tell.
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
