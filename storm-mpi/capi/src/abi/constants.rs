//! Constants of `mpi.h`.

use std::ffi::c_int;

/// `MPI_SUCCESS`.
pub(crate) const SUCCESS: c_int = 0;
/// `MPI_ANY_SOURCE`.
pub(crate) const ANY_SOURCE: c_int = -2;
/// `MPI_PROC_NULL`.
pub(crate) const PROC_NULL: c_int = -1;
/// `MPI_ROOT`.
pub(crate) const ROOT: c_int = -3;
/// `MPI_ANY_TAG`.
pub(crate) const ANY_TAG: c_int = -1;
/// `MPI_UNDEFINED`.
pub(crate) const UNDEFINED: c_int = -32766;
/// The value of the attribute `MPI_TAG_UB`: tags are 31 bits on the wire.
pub(crate) const TAG_UB: c_int = c_int::MAX;
/// `MPI_MAX_PROCESSOR_NAME`, `MPI_MAX_OBJECT_NAME`.
pub(crate) const MAX_NAME: usize = 128;
/// `MPI_MAX_ERROR_STRING`.
pub(crate) const MAX_ERROR_STRING: usize = 512;
/// `MPI_MAX_LIBRARY_VERSION_STRING`.
pub(crate) const MAX_LIBRARY_VERSION: usize = 256;
/// `MPI_BSEND_OVERHEAD`.
pub(crate) const BSEND_OVERHEAD: usize = 64;

/// `MPI_MAX_INFO_KEY`, with the final zero.
pub(crate) const MAX_INFO_KEY: usize = 255;
/// `MPI_MAX_INFO_VAL`, with the final zero.
pub(crate) const MAX_INFO_VALUE: usize = 1024;
