//! Records the log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::subscriber::DefaultGuard;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records the log of this thread until the guard is dropped.
pub(crate) struct Recording {
    log: Log,
    _guard: DefaultGuard,
}

impl Recording {
    pub(crate) fn start() -> Recording {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        Recording { log, _guard: tracing::subscriber::set_default(subscriber.finish()) }
    }

    /// The log so far.
    pub(crate) fn text(&self) -> String {
        let said = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// The result of `body`, and the log of this thread while it runs.
pub(crate) fn log_of<T>(body: impl FnOnce() -> T) -> (T, String) {
    let recording = Recording::start();
    let result = body();
    (result, recording.text())
}
