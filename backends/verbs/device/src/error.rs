//! Why verbs cannot be used: each says what to look at.

use std::io;
use thiserror::Error;

/// Why verbs cannot be used.
#[derive(Debug, Error)]
pub enum VerbsError {
    /// The library is not installed.
    #[error("libibverbs.so.1 cannot be loaded; Debian has it in libibverbs1 and ibverbs-providers")]
    NoLibrary(#[source] libloading::Error),
    /// What is installed is not what it should be.
    #[error("libibverbs.so.1 has no {symbol}")]
    NoSymbol {
        /// What was looked for.
        symbol: &'static str,
        /// What the linker said.
        #[source]
        source: libloading::Error,
    },
    /// Neither an adapter nor a soft-RoCE device is here.
    #[error("there is no RDMA device; `rdma link` shows those that the kernel knows")]
    NoDevice,
    /// The device that the configuration names is not here.
    #[error("there is no RDMA device {wanted:?}; there are: {}", .present.join(", "))]
    NoSuchDevice {
        /// What was asked for.
        wanted: String,
        /// What is here.
        present: Vec<String>,
    },
    /// The port carries no data.
    #[error("port {port} of {device} is {state}, and not active: look at its cable or its link")]
    PortNotActive {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What it is instead.
        state: &'static str,
    },
    /// The port has no such address.
    #[error("port {port} of {device} has no address (GID) {wanted}")]
    NoGid {
        /// The device.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What was looked for.
        wanted: String,
    },
    /// The system does not let this process lock so much memory.
    #[error(
        "{bytes} bytes cannot be registered: this process may lock {limit} (RLIMIT_MEMLOCK); \
         raise it with LimitMEMLOCK= or `ulimit -l`"
    )]
    LockedMemory {
        /// How many were to be registered.
        bytes: usize,
        /// What is allowed.
        limit: u64,
    },
    /// The same of the memory that a queue of the adapter takes.
    #[error(
        "{call} on {device}: there is no memory; queues of an adapter lie in locked memory, of which this process \
         may have {limit} bytes (RLIMIT_MEMLOCK); raise it with LimitMEMLOCK= or `ulimit -l`"
    )]
    QueueMemory {
        /// The function.
        call: &'static str,
        /// On which device.
        device: String,
        /// What is allowed.
        limit: u64,
    },
    /// There can be no multicast.
    #[error("{device} cannot send to all members at once: {why}")]
    NoMulticast {
        /// The device.
        device: String,
        /// What stands in the way.
        why: &'static str,
    },
    /// A call of the library failed.
    #[error("{call} on {device} failed")]
    Call {
        /// The function.
        call: &'static str,
        /// On which device.
        device: String,
        /// What it said.
        #[source]
        source: io::Error,
    },
}
