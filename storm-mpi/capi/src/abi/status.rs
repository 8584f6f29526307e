//! `MPI_Status`.

use super::constants::{ANY_SOURCE, ANY_TAG, PROC_NULL, SUCCESS};
use std::ffi::{c_int, c_longlong};

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    pub(crate) cancelled: c_int,
    pub(crate) bytes: c_longlong,
}

impl Status {
    /// Status of a null request, or of a send.
    pub(crate) const EMPTY: Status =
        Status { source: ANY_SOURCE, tag: ANY_TAG, error: SUCCESS, cancelled: 0, bytes: 0 };
    /// Status of a receive from `MPI_PROC_NULL`.
    pub(crate) const OF_NOBODY: Status = Status { source: PROC_NULL, ..Status::EMPTY };
}
