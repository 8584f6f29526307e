//! Descriptors of the library as the runtime waits for them.

use crate::VerbsError;
use crate::guard::{CompletionChannel, OpenDevice};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// Tells when a queue of this channel has something.
///
/// # Errors
/// [`VerbsError::Call`].
pub(crate) fn channel(
    channel: &Arc<CompletionChannel>,
) -> Result<AsyncFd<Arc<CompletionChannel>>, VerbsError> {
    channel.unblock()?;
    // SAFETY: the descriptor is always the same, and open as long as the channel, which the
    // result holds.
    let watched = unsafe { AsyncFd::register(channel.clone()) };
    watched.map_err(|error| channel.device().io("waiting for completions", error.into()))
}

/// Tells when something has happened to this device.
///
/// # Errors
/// [`VerbsError::Call`].
pub(crate) fn device(device: &Arc<OpenDevice>) -> Result<AsyncFd<Arc<OpenDevice>>, VerbsError> {
    device.unblock()?;
    // SAFETY: as above, of the device.
    let watched = unsafe { AsyncFd::register(device.clone()) };
    watched.map_err(|error| device.io("waiting for events", error.into()))
}
