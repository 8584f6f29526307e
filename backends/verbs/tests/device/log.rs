//! What is said in the log.

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

/// Keeps what is said in this thread as long as the guard lives.
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

    /// What was said until now.
    pub(crate) fn said(&self) -> String {
        let said = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// What `body` gives, and what is said in this thread while it runs.
pub(crate) fn log_of<T>(body: impl FnOnce() -> T) -> (T, String) {
    let recording = Recording::start();
    let result = body();
    (result, recording.said())
}
