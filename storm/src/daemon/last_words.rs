//! The error of a daemon that has ended, from the log of its local cluster.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use thiserror::Error;

/// The start of the line by which a command of ours tells why it ends.
const ERROR_LINE: &str = "storm: ";
/// The start of the line after it, with the hint.
const HINT_LINE: &str = "  try: ";

/// Why a daemon ended, as far as its log or its status tell.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct LastWords {
    message: String,
    /// The hint that followed.
    pub(super) hint: Option<String>,
}

impl LastWords {
    /// Reads the last error in the log of the cluster. If there is none, the status of the process
    /// is all that is known.
    pub(super) fn of(log: &Path, status: io::Result<ExitStatus>) -> LastWords {
        let log = fs::read(log).unwrap_or_default();
        LastWords::in_log(&String::from_utf8_lossy(&log)).unwrap_or_else(|| LastWords {
            message: match status {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            hint: None,
        })
    }

    fn in_log(log: &str) -> Option<LastWords> {
        let mut lines = log.lines().rev();
        let mut hint = None;
        let message = lines.find_map(|line| {
            if let Some(said) = line.strip_prefix(HINT_LINE) {
                hint = Some(said.to_owned());
            }
            line.strip_prefix(ERROR_LINE)
        })?;
        Some(LastWords { message: message.to_owned(), hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Regression: under a low limit on descriptors, `storm up` said that a node had ended, and
    /// not why.
    #[test]
    fn the_last_error_and_its_hint_are_found() {
        let log = "2026 INFO up\nstorm: first: broken\n2026 WARN odd\n\
                   storm: the Node Manager stopped: no room\n  try: raise it\n2026 INFO more\n";
        let words = LastWords::in_log(log).expect("there is an error");
        assert_eq!(words.message, "the Node Manager stopped: no room");
        assert_eq!(words.hint.as_deref(), Some("raise it"));
        assert_eq!(LastWords::in_log("2026 INFO up\n"), None);
    }

    #[test]
    fn without_a_log_the_status_is_told() {
        let status = ExitStatus::from_raw(9);
        let words = LastWords::of(Path::new("/nonexistent"), Ok(status));
        assert!(words.message.contains("signal: 9"), "{words}");
    }
}
