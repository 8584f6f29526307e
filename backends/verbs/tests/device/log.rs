//! What is said in the log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What `body` gives, and what is said in this thread while it runs.
pub(crate) fn log_of<T>(body: impl FnOnce() -> T) -> (T, String) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let result = tracing::subscriber::with_default(subscriber.finish(), body);
    let said = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (result, String::from_utf8_lossy(&said).into_owned())
}
