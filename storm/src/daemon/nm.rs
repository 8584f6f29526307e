//! The Node Manager's main.

use super::DaemonError;
use crate::cli::NmOptions;

/// Runs a Node Manager until it is told to end.
pub(crate) fn run_nm(_options: NmOptions) -> Result<(), DaemonError> {
    Err(DaemonError::NotBuilt("the Node Manager"))
}
