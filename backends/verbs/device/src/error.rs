//! Errors of verbs. Each message tells the operator where to look.

use std::io;
use thiserror::Error;

/// Why verbs cannot be used.
#[derive(Debug, Error)]
pub enum VerbsError {
    /// The library is not installed.
    #[error("libibverbs.so.1 cannot be loaded; Debian has it in libibverbs1 and ibverbs-providers")]
    NoLibrary(#[source] libloading::Error),
    /// The installed library lacks a symbol.
    #[error("libibverbs.so.1 has no {symbol}")]
    NoSymbol {
        /// The missing symbol.
        symbol: &'static str,
        /// The linker's error.
        #[source]
        source: libloading::Error,
    },
    /// This host has neither an adapter nor a soft-RoCE device.
    #[error("there is no RDMA device; `rdma link` shows those that the kernel knows")]
    NoDevice,
    /// The configured device is not present.
    #[error("there is no RDMA device {wanted:?}; there are: {}", .present.join(", "))]
    NoSuchDevice {
        /// The device asked for.
        wanted: String,
        /// The devices present.
        present: Vec<String>,
    },
    /// The port carries no data.
    #[error("port {port} of {device} is {state}, not active: check its cable or its link")]
    PortNotActive {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// The port's state.
        state: &'static str,
    },
    /// The port lacks the address.
    #[error("port {port} of {device} has no address (GID) {wanted}")]
    NoGid {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// The address asked for.
        wanted: String,
    },
    /// The system does not let this process lock that much memory.
    #[error(
        "{bytes} bytes cannot be registered: this process may lock {limit} (RLIMIT_MEMLOCK); \
         raise it with LimitMEMLOCK= or `ulimit -l`"
    )]
    LockedMemory {
        /// The bytes to register.
        bytes: usize,
        /// The limit.
        limit: u64,
    },
    /// The process is not allowed to lock enough memory for an adapter's queue.
    #[error(
        "{call} on {device}: out of memory; an adapter's queues need locked memory, and this \
         process may have {limit} bytes (RLIMIT_MEMLOCK); raise it with LimitMEMLOCK= or `ulimit \
         -l`"
    )]
    QueueMemory {
        /// The function.
        call: &'static str,
        /// The device.
        device: String,
        /// The limit.
        limit: u64,
    },
    /// Multicast is not possible.
    #[error("{device} cannot multicast to all members: {why}")]
    NoMulticast {
        /// The device.
        device: String,
        /// The obstacle.
        why: &'static str,
    },
    /// A call of the library failed.
    #[error("{call} on {device} failed")]
    Call {
        /// The function.
        call: &'static str,
        /// The device.
        device: String,
        /// The call's error.
        #[source]
        source: io::Error,
    },
}
