//! Output files that several ranks of a job write to
//! (`docs/decisions/0140-ranks-that-share-a-file.md`).
//!
//! The ranks write into pipes. One process per job and node, a child of the keeper, reads the pipes
//! and appends whole lines to the files. The process acts as the job's user, and needs no Node
//! Manager while it works.

mod handle;
mod line;
pub(crate) mod message;
mod writer;

pub use handle::SharedFiles;
pub(crate) use handle::say_end;
pub use message::{FileFailure, FileStep, FilesEnd, SharedFilesSpec};
pub(crate) use writer::run_writer;
