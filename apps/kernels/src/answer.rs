//! The answer of a kernel.

use std::fmt;

/// The answer of a kernel; rank 0's is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The part that must be the same in Rust and in C, and in every run.
    pub text: String,
    /// Whether the answer equals a result computed without messages, if there is one.
    pub right: Option<bool>,
    /// The part that differs from run to run.
    pub times: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        let verdict = self.right.map(|right| if right { ", OK" } else { ", WRONG" });
        f.write_str(verdict.unwrap_or_default())?;
        self.times.iter().try_for_each(|times| write!(f, "\n{times}"))
    }
}
