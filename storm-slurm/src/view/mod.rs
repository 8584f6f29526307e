//! Output of Slurm's listing commands: `squeue`, `sinfo`, `sacct`, `scontrol show` and others.
//!
//! A caller collects facts ([`JobFacts`], [`NodeFacts`], [`PartitionFacts`]) and chooses columns.
//! This module turns both into the bytes that Slurm 22.05 prints for the same facts. It reads no
//! clock, no user database and no environment: a [`Show`] carries what it needs of these.
//!
//! A fact that the caller does not know is `None`, and is printed as Slurm prints an unset value.

pub mod accounts;
mod array_text;
mod column;
mod exit_code;
mod field;
mod job_facts;
mod job_state;
pub mod json;
mod memory_text;
mod node_facts;
mod partition_facts;
pub mod sacct;
pub mod scontrol;
pub mod sdiag;
mod sheet;
mod show;
pub mod sinfo;
pub mod sprio;
pub mod squeue;
pub mod sreport;
mod step_facts;
mod time_text;

pub use column::{Layout, UnknownField};
pub use exit_code::ExitCode;
pub use field::{Field, Whole, help_format};
pub use job_facts::{ArrayPlace, JobFacts, MemoryAsked, Tasks};
pub use job_state::{NotAJobState, StateCode};
pub use node_facts::{NodeBase, NodeFacts};
pub use partition_facts::PartitionFacts;
pub use sheet::{Sheet, SheetColumn};
pub use show::{Show, TimeFormat};
pub use step_facts::{StepFacts, StepUse};

#[cfg(test)]
mod tests;
