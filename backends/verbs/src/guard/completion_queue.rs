//! A completion queue with a channel of its own to sleep on.

use super::device::OpenDevice;
use crate::VerbsError;
use crate::abi::{self, WC_RECV_RDMA_WITH_IMM, WC_WR_FLUSH_ERR, WorkCompletion};
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// Completions taken by one call.
const BATCH: usize = 16;

/// A completion queue.
pub struct CompletionQueue {
    device: Arc<OpenDevice>,
    channel: NonNull<abi::CompletionChannel>,
    queue: NonNull<abi::CompletionQueue>,
}

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What its poster called it.
    pub id: u64,
    /// How it went.
    pub outcome: Outcome,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was to be sent is in the memory of the other side.
    Sent,
    /// The other side has written, and says this about it.
    Written {
        /// The immediate value of its request.
        immediate: u32,
        /// How many bytes it wrote.
        len: u32,
    },
    /// It was given up because an earlier one had failed or the queue pair was closed.
    Flushed,
    /// It failed, and with it the queue pair.
    Failed {
        /// `enum ibv_wc_status`.
        status: u32,
    },
}

// SAFETY: the library's calls on a queue may come from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: and from several at a time.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue for `len` completions that nobody has taken yet.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(device: &Arc<OpenDevice>, len: u32) -> Result<CompletionQueue, VerbsError> {
        let functions = device.functions();
        // SAFETY: the context is open.
        let channel = unsafe { (functions.create_comp_channel)(device.context()) };
        let Some(channel) = NonNull::new(channel) else {
            return Err(device.failed("ibv_create_comp_channel"));
        };
        let wanted = c_int::try_from(len).unwrap_or(c_int::MAX);
        let none = std::ptr::null_mut();
        // SAFETY: context and channel are alive and the channel is of the context; vector 0
        // is always there.
        let queue =
            unsafe { (functions.create_cq)(device.context(), wanted, none, channel.as_ptr(), 0) };
        let queue = match NonNull::new(queue) {
            Some(queue) => queue,
            None => {
                let error = device.failed("ibv_create_cq");
                // SAFETY: it was just made, and no queue uses it.
                unsafe { (functions.destroy_comp_channel)(channel.as_ptr()) };
                return Err(error);
            }
        };
        Ok(CompletionQueue { device: device.clone(), channel, queue })
    }

    /// Its descriptor as something to wait for.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn watch(self: Arc<Self>) -> Result<AsyncFd<Arc<CompletionQueue>>, VerbsError> {
        let device = self.device.clone();
        let failed = |source| device.io("waiting for completions", source);
        set_nonblocking(self.as_fd()).map_err(|errno| failed(errno.into()))?;
        // SAFETY: the descriptor is always the same, and open as long as the queue, which
        // the result holds.
        unsafe { AsyncFd::register(self) }.map_err(|error| failed(error.into()))
    }

    pub(super) fn as_ptr(&self) -> *mut abi::CompletionQueue {
        self.queue.as_ptr()
    }

    /// The device that it is of.
    pub fn device(&self) -> &Arc<OpenDevice> {
        &self.device
    }

    /// Gives the completions that are here to `each`; whether there were any.
    ///
    /// # Errors
    /// [`VerbsError::Call`] when the queue itself is broken.
    pub fn poll(&self, mut each: impl FnMut(Completion)) -> Result<bool, VerbsError> {
        let mut any = false;
        loop {
            let mut batch = [WorkCompletion::default(); BATCH];
            // SAFETY: the queue is alive, and `batch` has as much room as is said.
            let taken = unsafe {
                (self.device.ops().poll_cq)(self.as_ptr(), BATCH as c_int, batch.as_mut_ptr())
            };
            let Ok(taken) = usize::try_from(taken) else {
                return Err(self.device.returned("ibv_poll_cq", taken));
            };
            any |= taken > 0;
            batch.iter().take(taken).map(Completion::from).for_each(&mut each);
            if taken < BATCH {
                return Ok(any);
            }
        }
    }

    /// Has the descriptor become readable at the next completion. Completions that came
    /// before do not count: poll once more after this.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue is alive.
        match unsafe { (self.device.ops().req_notify_cq)(self.as_ptr(), 0) } {
            0 => Ok(()),
            code => Err(self.device.returned("ibv_req_notify_cq", code)),
        }
    }

    /// Takes one notification.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none.
    pub fn take_notification(&self) -> io::Result<()> {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        let functions = self.device.functions();
        // SAFETY: the channel is alive, its descriptor does not block, and both places are
        // valid for the call.
        let code = unsafe {
            (functions.get_cq_event)(self.channel.as_ptr(), &raw mut queue, &raw mut context)
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: one event was taken, of the only queue of this channel.
        unsafe { (functions.ack_cq_events)(self.as_ptr(), 1) };
        Ok(())
    }

    /// A status as the library names it.
    pub fn status_name(&self, status: u32) -> String {
        // SAFETY: the library has a constant string for every number.
        let name = unsafe { CStr::from_ptr((self.device.functions().wc_status_str)(status)) };
        name.to_string_lossy().into_owned()
    }
}

impl From<&WorkCompletion> for Completion {
    fn from(completion: &WorkCompletion) -> Completion {
        let outcome = match (completion.status, completion.opcode) {
            (0, WC_RECV_RDMA_WITH_IMM) => Outcome::Written {
                immediate: u32::from_be(completion.imm_data),
                len: completion.byte_len,
            },
            (0, _) => Outcome::Sent,
            (WC_WR_FLUSH_ERR, _) => Outcome::Flushed,
            (status, _) => Outcome::Failed { status },
        };
        Completion { id: completion.wr_id, outcome }
    }
}

impl AsFd for CompletionQueue {
    /// Where notifications are read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`, and so is its descriptor open, which
        // is not changed.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }
}

impl AsRawFd for CompletionQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let functions = self.device.functions();
        // SAFETY: queue pairs that use the queue hold it and are gone; every notification
        // taken was acknowledged. The channel has no other queue.
        unsafe {
            (functions.destroy_cq)(self.queue.as_ptr());
            (functions.destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompletionQueue({})", self.device.name())
    }
}

/// Reading an event waits no longer for one.
pub(super) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> Result<(), nix::errno::Errno> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_truncate(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}
