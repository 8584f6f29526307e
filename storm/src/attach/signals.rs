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

/// Signals that a command passes on to its step. Otherwise they would end the command, and with it
/// the step, of a script that asked for a signal before its time limit.
#[derive(Debug)]
pub(crate) struct PassedOn(Option<[(i32, Signal); 3]>);

impl PassedOn {
    /// From now on these signals no longer end this process.
    pub(crate) fn listen() -> Result<PassedOn, Failure> {
        let listen = |kind: SignalKind| {
            let stream = signal(kind).map_err(|error| Failure::of("signals", &error))?;
            Ok::<_, Failure>((kind.as_raw_value(), stream))
        };
        let kinds = [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::alarm()];
        let [first, second, third] = kinds;
        Ok(PassedOn(Some([listen(first)?, listen(second)?, listen(third)?])))
    }

    /// No signal is passed on: these signals end this process.
    pub(crate) fn none() -> PassedOn {
        PassedOn(None)
    }

    /// Waits for a signal, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        let Some([first, second, third]) = &mut self.0 else { return pending().await };
        tokio::select! {
            _ = first.1.recv() => first.0,
            _ = second.1.recv() => second.0,
            _ = third.1.recv() => third.0,
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
