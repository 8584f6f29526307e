//! STORM's resource-management functions on top of the three primitives: the paper's Algorithms 1
//! to 9, one function each, and the messages that they carry.
//!
//! | algorithm | here |
//! |---|---|
//! | 1 AWAIT-SPACE, 2 ENQUEUE, 3 DEQUEUE | [`remote_queue`] |
//! | 4, 5 ISSUE- and RECEIVE-HEARTBEAT | [`heartbeat`] |
//! | 6 TRANSFER-FILE, 7 RECEIVE-FILE | [`file_transfer`] |
//! | 8 DETECT-TERMINATION, 9 ANNOUNCE-TERMINATION | [`termination`] |
//! | section 2.4.3, isolating a failed node | [`failure_detection`] |
//!
//! Everything is straight-line `async` code, generic over
//! [`Primitives`](storm_primitives::Primitives), and runs the same in real and in virtual time.
//! These functions share the plan of global memory ([`GlobalPlan`]). The daemons' messages are in
//! [`message`]; how far input may run ahead of its readers is in [`input_flow`].
//!
//! This crate opens no socket or file, starts no process, does not decide what runs where, and does
//! not read the wall clock.

mod clients_address;
mod content_sum;
mod early_signal;
mod environment;
mod exit_status;
pub mod failure_detection;
pub mod file_transfer;
mod global_plan;
pub mod heartbeat;
mod held_job;
mod ids;
pub mod input_flow;
mod job_spec;
mod launch_facts;
pub mod message;
mod needs;
mod node_info;
mod node_ranks;
mod os_bytes;
pub mod poll;
mod process_class;
mod rank_map;
mod remarks;
pub mod remote_queue;
mod resources;
mod step;
mod step_ask;
mod step_layout;
mod step_size;
mod step_spec;
mod strobe;
pub mod termination;

pub use content_sum::{ContentSum, Summing};
pub use early_signal::EarlySignal;
pub use environment::{Environment, MPI_SPACE_VARIABLE, RecentEnvironments};
pub use global_plan::{GlobalPlan, PlanConfig, SLICE_LINK_BYTES};
pub use ids::{
    Channel, ContentHash, Generation, JobIncarnation, JobSlot, PartitionId, Rank, RowSet,
};
pub use job_spec::{
    Binding, Destination, FileSpec, InputSpec, JobSpec, OpenMode, OutputSpec, Owner, Program,
    ResourceLimit,
};
pub use launch_facts::LaunchFacts;
pub use needs::{
    ArrayError, ArrayExtent, ArraySpec, ArrayTask, Condition, Dependency, IndexRange, Needs,
};
pub use os_bytes::OsBytes;
pub use process_class::{ProcessClass, ProcessFigures, RankClass, Witness};
pub use rank_map::{MAX_RANKS, MAX_RANKS_PER_NODE, RankMap, RankRun, RankRunError};
pub use remarks::Remarks;
pub use resources::{LEAST_MEMORY_BYTES, Memory, Resources};
pub use step::{FirstStep, StepId, StepRef};
pub use step_ask::StepAsk;
pub use step_layout::StepLayout;
pub use step_size::{Share, StepSize};
pub use step_spec::StepSpec;
pub use storm_sched::{Coscheduling, JobId, Row};
pub use storm_slices::BcsConfig;
