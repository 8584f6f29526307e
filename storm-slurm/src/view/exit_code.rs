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

/// The signals that Slurm names.
const SIGNALS: [(u8, &str); 16] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (6, "ABRT"),
    (9, "KILL"),
    (10, "USR1"),
    (12, "USR2"),
    (14, "ALRM"),
    (15, "TERM"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
];

impl ExitCode {
    /// The name of the signal: `KILL`; its number if Slurm has no name for it, and nothing without
    /// a signal.
    pub fn signal_name(self) -> String {
        match SIGNALS.iter().find(|(number, _)| *number == self.signal) {
            Some((_, name)) => (*name).to_owned(),
            None if self.signal == 0 => String::new(),
            None => self.signal.to_string(),
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}
