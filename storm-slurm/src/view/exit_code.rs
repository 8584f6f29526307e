//! Exit codes.

use std::fmt;

/// The exit code of a job or step and the signal that ended it, as Slurm writes them: `3:0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCode {
    /// The code; 0 if a signal ended the process.
    pub code: u8,
    /// The signal; 0 if there was none.
    pub signal: u8,
}

impl ExitCode {
    /// The status of `wait(2)`, which `squeue -O exit_code` prints.
    pub fn wait_status(self) -> u32 {
        (u32::from(self.code) << 8) | u32::from(self.signal)
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}
