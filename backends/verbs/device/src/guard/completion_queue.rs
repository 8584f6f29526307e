//! A completion queue. A channel delivers its notifications.

use super::completion_channel::CompletionChannel;
use super::device::OpenDevice;
use crate::VerbsError;
use crate::abi::{self, WC_RECV, WC_RECV_RDMA_WITH_IMM, WC_WR_FLUSH_ERR, WorkCompletion};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// Completions taken by one call.
const BATCH: usize = 4;

/// A completion queue.
pub struct CompletionQueue {
    channel: Arc<CompletionChannel>,
    queue: NonNull<abi::CompletionQueue>,
    /// The device's own pointer, because this call is the most frequent.
    poll_cq: abi::PollCq,
}

/// The result of one poll of a queue. The buffer stays in place, so that an empty poll, the usual
/// case, moves nothing.
pub struct Completions {
    batch: [MaybeUninit<WorkCompletion>; BATCH],
    /// How many entries are filled, counted from the first.
    taken: usize,
}

/// The completions that raise a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Writes of the other side, and failures.
    Arrivals,
    /// Completions of own requests as well.
    All,
}

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The poster's id of the request.
    pub id: u64,
    /// The outcome of the request.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sent data is in the memory of the other side.
    Sent,
    /// The other side has written.
    Written {
        /// The immediate value of its request.
        immediate: u32,
        /// The bytes that the other side wrote.
        len: u32,
    },
    /// A datagram has come.
    Received {
        /// The bytes in the memory of the request, including the header.
        len: u32,
    },
    /// The request was dropped because an earlier one failed or the queue pair was closed.
    Flushed,
    /// The request failed, and the queue pair with it.
    Failed {
        /// `enum ibv_wc_status`.
        status: u32,
    },
}

// SAFETY: the library's calls on a queue may come from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above, and from several threads at a time.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue with room for `len` completions. `name` identifies its notifications.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(
        channel: &Arc<CompletionChannel>,
        name: usize,
        len: u32,
    ) -> Result<CompletionQueue, VerbsError> {
        let device = channel.device();
        let wanted = c_int::try_from(len).unwrap_or(c_int::MAX);
        // The library returns this number with each notification and never dereferences it.
        let context: *mut c_void = std::ptr::without_provenance_mut(name);
        // SAFETY: context and channel are alive. The channel holds the device and belongs to it.
        // Vector 0 always exists.
        let queue = unsafe {
            let create = device.functions().create_cq;
            create(device.context(), wanted, context, channel.as_ptr(), 0)
        };
        match NonNull::new(queue) {
            Some(queue) => Ok(CompletionQueue {
                channel: channel.clone(),
                queue,
                poll_cq: device.ops().poll_cq,
            }),
            None => Err(device.no_queue("ibv_create_cq")),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut abi::CompletionQueue {
        self.queue.as_ptr()
    }

    /// The queue's device.
    pub fn device(&self) -> &Arc<OpenDevice> {
        self.channel.device()
    }

    /// Takes up to a batch of completions. Returns whether there were any.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue itself is broken.
    #[inline]
    pub fn take(&self, into: &mut Completions) -> Result<bool, VerbsError> {
        into.taken = 0;
        let first = into.batch.as_mut_ptr().cast();
        // SAFETY: the queue is alive, the function is its device's, and `batch` has the announced
        // room.
        let taken = unsafe { (self.poll_cq)(self.as_ptr(), BATCH as c_int, first) };
        match taken {
            0 => Ok(false),
            // The count is at most the room given.
            1.. => {
                into.taken = (taken as usize).min(BATCH);
                Ok(true)
            }
            _ => Err(self.device().returned("ibv_poll_cq", taken)),
        }
    }

    /// Passes the present completions to `each`. Returns whether there were any.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the queue itself is broken.
    pub fn poll(&self, mut each: impl FnMut(Completion)) -> Result<bool, VerbsError> {
        let (mut taken, mut any) = (Completions::new(), false);
        while self.take(&mut taken)? {
            any = true;
            taken.iter().for_each(&mut each);
            if taken.are_all() {
                break;
            }
        }
        Ok(any)
    }

    /// Asks the channel for a notification of the next completion that is `wanted`. Until the
    /// notification arrives, arming again can extend `wanted` but not restrict it. Earlier
    /// completions cause no notification: poll once more after this call.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&self, wanted: Wanted) -> Result<(), VerbsError> {
        let solicited_only = c_int::from(wanted == Wanted::Arrivals);
        // SAFETY: the queue is alive.
        match unsafe { (self.device().ops().req_notify_cq)(self.as_ptr(), solicited_only) } {
            0 => Ok(()),
            code => Err(self.device().returned("ibv_req_notify_cq", code)),
        }
    }

    /// The library's name of a status.
    pub fn status_name(&self, status: u32) -> String {
        // SAFETY: the library has a constant string for every number.
        let name = unsafe { CStr::from_ptr((self.device().functions().wc_status_str)(status)) };
        name.to_string_lossy().into_owned()
    }
}

impl Completions {
    /// An empty buffer.
    #[inline]
    pub fn new() -> Completions {
        Completions { batch: [const { MaybeUninit::uninit() }; BATCH], taken: 0 }
    }

    /// Whether the poll emptied the queue.
    pub fn are_all(&self) -> bool {
        self.taken < BATCH
    }

    /// The completions in order.
    pub fn iter(&self) -> impl Iterator<Item = Completion> + '_ {
        self.batch.iter().take(self.taken).map(|one| {
            // SAFETY: the call has written as many completions as it returned, from the first on.
            // They are plain numbers, and every bit pattern is a value.
            Completion::from(unsafe { one.assume_init_ref() })
        })
    }
}

impl Default for Completions {
    fn default() -> Completions {
        Completions::new()
    }
}

impl From<&WorkCompletion> for Completion {
    #[inline]
    fn from(completion: &WorkCompletion) -> Completion {
        let outcome = match (completion.status, completion.opcode) {
            (0, WC_RECV_RDMA_WITH_IMM) => Outcome::Written {
                immediate: u32::from_be(completion.imm_data),
                len: completion.byte_len,
            },
            (0, WC_RECV) => Outcome::Received { len: completion.byte_len },
            (0, _) => Outcome::Sent,
            (WC_WR_FLUSH_ERR, _) => Outcome::Flushed,
            (status, _) => Outcome::Failed { status },
        };
        Completion { id: completion.wr_id, outcome }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is destroyed once. Queue pairs that use it hold it, so they are
        // destroyed. Every notification taken was acknowledged; others end with the queue.
        unsafe { (self.device().functions().destroy_cq)(self.queue.as_ptr()) };
    }
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompletionQueue({})", self.device().name())
    }
}
