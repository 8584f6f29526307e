//! The signals by which a user or the system asks us to end.

use crate::failure::Failure;
use nix::sys::signal::Signal as Number;
use procfs::process::Process;
use std::future::pending;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under nohup(1).
    hang_up: Option<Signal>,
}

impl Interrupts {
    /// From now on these signals no longer end this process.
    pub(crate) fn listen() -> Result<Interrupts, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::of("signals", &error));
        let hang_up = match is_ignored(Number::SIGHUP) {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Interrupts {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// Waits for a signal, and returns the exit status for it.
    pub(crate) async fn next(&mut self) -> u8 {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = hang_up => EXIT_HUNG_UP,
        }
    }
}

/// 128 + SIGHUP.
pub(super) const EXIT_HUNG_UP: u8 = 129;

/// Whether this process ignores a signal, as its parent requested (proc_pid_status(5)).
pub(super) fn is_ignored(signal: Number) -> bool {
    let status = Process::myself().and_then(|own| own.status());
    status.is_ok_and(|status| status.sigign & (1 << (signal as i32 - 1)) != 0)
}
