//! The Machine Manager's main.

use super::DaemonError;
use crate::cli::MmOptions;

/// Runs a Machine Manager until it is told to end.
pub(crate) fn run_mm(_options: MmOptions) -> Result<(), DaemonError> {
    Err(DaemonError::NotBuilt("the Machine Manager"))
}
