//! An error as a user reads it: what failed and why, in one line.

use std::error::Error;
use std::fmt::Write;

/// Causes that are followed; no error here has more.
const DEPTH_MAX: usize = 8;

/// The error and its causes, joined by colons.
pub(crate) fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..DEPTH_MAX {
        let Some(error) = cause else { break };
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
