//! How a process ended, and the status that a shell gives for it.

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitStatus {
    /// The process exited with this code.
    Code(u8),
    /// This signal ended the process.
    Signal(i32),
}

impl ExitStatus {
    /// The status that a shell gives: the code, or 128 plus the signal.
    pub fn shell_code(self) -> u8 {
        match self {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => {
                u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_no_system_has_is_a_status_all_the_same() {
        for (signal, code) in [(9, 137), (64, 192), (0, 128), (i32::MAX, 255), (i32::MIN, 255)] {
            assert_eq!(ExitStatus::Signal(signal).shell_code(), code, "{signal}");
        }
    }
}
