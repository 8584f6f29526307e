//! Flow control of standard input, the mirror of holding output back. It bounds the input that is
//! under way between the Machine Manager and the ranks of a job. The paper has no such thing. Both
//! daemons use these numbers.
//!
//! A node reports its ranks' progress whenever they have taken [`REPORT_BYTES`] more. The Machine
//! Manager sends while the slowest node lacks less than [`WINDOW_BYTES`]. The window is larger than
//! the bytes that can stay unreported, so it never closes for good.

/// Most bytes of input under way to one job: enough to keep a pipe full over a round trip of
/// heartbeat and report. A node also holds at most this many, plus one piece, for a job that
/// does not read.
pub const WINDOW_BYTES: u64 = 512 * 1024;

/// A node reports progress in steps of this size: a few in each window.
pub const REPORT_BYTES: u64 = 64 * 1024;

/// Largest piece in one command: small compared with a heartbeat.
pub const PIECE_BYTES: usize = 32 * 1024;

const _: () = assert!(REPORT_BYTES < WINDOW_BYTES, "what is never reported closes no window");
