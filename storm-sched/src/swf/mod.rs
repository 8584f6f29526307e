//! The Standard Workload Format, version 2.2: logs of parallel machines as the Parallel Workloads
//! Archive keeps them, one job a line, 18 fields each.
//!
//! The module is pure: [`SwfReader`] takes bytes in pieces of any size. Logs are untrusted. A
//! damaged line is recorded with its number, and the rest is used. In addition to its result,
//! reading needs no more memory than one line. [`Cleaning`] leaves out the jobs that cannot be
//! replayed, and counts them.
//!
//! Not in this module: files, compression, and the use of the jobs.
//!
//! Reference: section B of the policy reference; the field list of the archive.

mod cleaning;
mod damage;
mod header;
mod reader;
mod record;

pub use cleaning::{Cleaned, Cleaning, DropReason, Drops, LogJob, MAX_LOG_RUN_S, MAX_LOG_TIME_S};
pub use damage::{Damage, DamagedLine};
pub use header::{MAX_HEADER_ENTRIES, SwfHeader};
pub use reader::{Conformity, MAX_LINE_BYTES, MAX_NAMED_LINES, SwfContents, SwfReader};
pub use record::{FIELDS, MIN_FIELDS, SwfRecord};
