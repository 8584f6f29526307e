//! The PMI-1 line protocol: typed requests and responses, their parsing and their formatting.
//!
//! A message is one text line, `cmd=NAME` followed by `key=value` words. `value=` takes the rest of
//! the line, because values may contain `[ ] # $ =`. The module does no I/O: its input is bytes,
//! its output is types. Hostile input gives a [`WireError`], never a panic, and nothing longer than
//! the limits named here is kept.

mod fields;
mod request;
mod response;

pub use fields::WireError;
pub use request::Request;
pub use response::{NameResultKind, Response};

/// Longest line accepted, without its newline. It fits a `put` at every limit below, and the
/// longest lines that `mcmd=spawn` sends in practice.
pub const MAX_LINE_BYTES: usize = 4096;
/// Longest name of a key-value space, as announced by `maxes` (MPICH announces the same).
pub const KVSNAME_MAX_BYTES: usize = 256;
/// Longest key, as announced by `maxes`.
pub const KEYLEN_MAX_BYTES: usize = 64;
/// Longest value, as announced by `maxes`. Clients split longer values themselves.
pub const VALLEN_MAX_BYTES: usize = 1024;
/// The key of the placement of ranks on nodes.
pub const PROCESS_MAPPING_KEY: &str = "PMI_process_mapping";
