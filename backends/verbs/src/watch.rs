//! The library's descriptors in the runtime.

use crate::VerbsError;
use crate::guard::{CompletionChannel, OpenDevice};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// Becomes readable when a queue of this channel has a completion.
///
/// # Errors
/// [`VerbsError::Call`].
pub(crate) fn channel(
    channel: &Arc<CompletionChannel>,
) -> Result<AsyncFd<Arc<CompletionChannel>>, VerbsError> {
    channel.unblock()?;
    // SAFETY: the descriptor is always the same, and stays open as long as the channel, which the
    // result holds.
    let watched = unsafe { AsyncFd::register(channel.clone()) };
    watched.map_err(|error| channel.device().io("waiting for completions", error.into()))
}

/// Becomes readable when the device has an event.
///
/// # Errors
/// [`VerbsError::Call`].
pub(crate) fn device(device: &Arc<OpenDevice>) -> Result<AsyncFd<Arc<OpenDevice>>, VerbsError> {
    device.unblock()?;
    // SAFETY: as above, for the device.
    let watched = unsafe { AsyncFd::register(device.clone()) };
    watched.map_err(|error| device.io("waiting for events", error.into()))
}
