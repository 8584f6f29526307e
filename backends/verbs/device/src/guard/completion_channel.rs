//! A completion channel. A task sleeps on it until one of many completion queues has a completion.

use super::device::{OpenDevice, set_nonblocking};
use crate::VerbsError;
use crate::abi;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// A channel that reports which queues have completions.
pub struct CompletionChannel {
    device: Arc<OpenDevice>,
    channel: NonNull<abi::CompletionChannel>,
}

// SAFETY: the library's calls on a channel may come from any thread.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above, and from several threads at a time.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// A channel without queues.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(device: &Arc<OpenDevice>) -> Result<Arc<CompletionChannel>, VerbsError> {
        // SAFETY: the context is open.
        let channel = unsafe { (device.functions().create_comp_channel)(device.context()) };
        match NonNull::new(channel) {
            Some(channel) => Ok(Arc::new(CompletionChannel { device: device.clone(), channel })),
            None => Err(device.failed("ibv_create_comp_channel")),
        }
    }

    /// The channel's device.
    pub fn device(&self) -> &Arc<OpenDevice> {
        &self.device
    }

    pub(super) fn as_ptr(&self) -> *mut abi::CompletionChannel {
        self.channel.as_ptr()
    }

    /// Makes the channel's descriptor non-blocking, as
    /// [`take_notification`](Self::take_notification) needs.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn unblock(&self) -> Result<(), VerbsError> {
        let failed =
            |errno: nix::errno::Errno| self.device.io("waiting for completions", errno.into());
        set_nonblocking(self.as_fd()).map_err(failed)
    }

    /// Takes one notification. Returns the name of its queue, which may have been dropped
    /// meanwhile.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub fn take_notification(&self) -> io::Result<usize> {
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
        // SAFETY: one event of this queue was taken. Until it is acknowledged, the queue cannot be
        // destroyed (ibv_destroy_cq(3) waits for it).
        unsafe { (functions.ack_cq_events)(queue, 1) };
        Ok(context.addr())
    }
}

impl AsFd for CompletionChannel {
    /// The descriptor that becomes readable with a notification.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is destroyed with `self`, and its descriptor stays open and unchanged
        // until then.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: queues that use the channel hold it, so they are destroyed.
        unsafe { (self.device.functions().destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

impl std::fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompletionChannel({})", self.device.name())
    }
}
