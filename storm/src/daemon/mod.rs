//! The mains of the two daemons.

mod mm;
mod nm;

pub(crate) use mm::run_mm;
pub(crate) use nm::run_nm;

use thiserror::Error;

/// Why a daemon ended.
#[derive(Debug, Error)]
pub(crate) enum DaemonError {
    /// The daemon is not part of this binary.
    #[error("{0} is not built into this binary")]
    NotBuilt(&'static str),
}
