//! Flow control of standard input, the mirror of what holds output back: how much
//! may be under way between the Machine Manager and the ranks of a job. The paper
//! has no such thing; both daemons go by these figures.
//!
//! A node reports what its ranks have taken whenever that has grown by
//! [`REPORT_BYTES`]; the Machine Manager sends while the node that has taken least
//! lacks less than [`WINDOW_BYTES`]. A window that is larger than what can stay
//! unreported never closes for good.

/// Most bytes of input under way to one job: enough to keep a pipe full over a round trip of
/// heartbeat and report. A node also holds at most this many, plus one piece, for a job that
/// does not read.
pub const WINDOW_BYTES: u64 = 512 * 1024;

/// A node reports progress in steps of so much: a few in each window.
pub const REPORT_BYTES: u64 = 64 * 1024;

/// Largest piece in one command: small beside a heartbeat.
pub const PIECE_BYTES: usize = 32 * 1024;

const _: () = assert!(REPORT_BYTES < WINDOW_BYTES, "what is never reported closes no window");
