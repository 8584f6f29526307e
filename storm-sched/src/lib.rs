//! Scheduling decisions of STORM, and nothing else.
//!
//! A [`Policy`] is a state machine. It takes an [`Event`] with the time at which it happened, and
//! answers with [`Action`]s. The live Machine Manager, the simulated machine and the trace replayer
//! drive the same object. So this crate has no clock, socket, thread or file, and depends on no
//! other crate of STORM.
//!
//! The pieces, from the bottom:
//!
//! - [`Machine`]: the partition, with its nodes in order. Their processing elements (PEs) are
//!   numbered node by node and are the columns of the matrix.
//! - [`BuddyTree`], [`Matrix`]: the Ousterhout matrix (a row is the paper's time slot, a column a
//!   PE) with buddy allocation inside each row.
//! - [`packing`]: the schemes that choose the row and the columns of a job.
//! - [`feasible`]: whether a [`JobRequest`] can ever run on a machine.
//! - [`space`]: the common part of the policies that share space.
//! - [`policies`]: one file each; a [`Registry`] finds them by name.
//! - [`priority`]: the facts that decide the order of the queue.
//! - [`swf`], [`metrics`]: logs of parallel machines, and measures of how well a schedule serves
//!   its jobs.
//! - [`suite`]: the invariants that every policy holds, over generated workloads.
#![forbid(unsafe_code)]

/// The worked example of the documentation, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/adding-a-policy.md")]
struct AddingAPolicy;

mod action;
mod availability;
mod buddy_tree;
mod capability;
mod column_set;
mod constraint;
mod coscheduling;
mod event;
mod feasible;
mod fit;
mod guests;
mod ids;
mod job_map;
mod job_request;
mod machine;
mod making_room;
mod matrix;
mod matrix_row;
mod memory;
mod memory_account;
pub mod metrics;
mod node_choice;
mod node_needs;
pub mod packing;
mod params;
mod partition;
mod pending_queue;
mod pending_reason;
mod placement;
pub mod policies;
mod policy;
mod precedence;
pub mod priority;
mod priority_use;
pub mod registry;
mod reservation;
mod row_order;
mod sched_time;
mod shape;
pub mod space;
pub mod suite;
pub mod swf;

pub use action::{Action, EventError};
pub use buddy_tree::{BuddyTree, Side};
pub use capability::{Capability, Unsupported};
pub use column_set::ColumnSet;
pub use constraint::{Constraint, ConstraintError, MAX_CONSTRAINT_FEATURES, is_feature_name};
pub use coscheduling::Coscheduling;
pub use event::Event;
pub use feasible::{Infeasible, feasible, fewest_nodes};
pub use fit::Fit;
pub use ids::{JobId, NodeIndex, Pe, Row};
pub use job_request::JobRequest;
pub use machine::{MAX_PES, Machine, MachineError, Node, NodeSpec, NodeState};
pub use matrix::{InvariantViolation, MAX_EXAMINED, Matrix, MatrixError, Move, RowChange};
pub use matrix_row::MatrixRow;
pub use memory::{MemorySize, NodeMemory};
pub use memory_account::MemoryAccount;
pub use node_choice::NodeChoice;
pub use node_needs::NodeNeeds;
pub use packing::Packing;
pub use params::{
    DEFAULT_MPL_LIMIT, DEFAULT_QUANTUM, DEFAULT_QUANTUM_US, DEFAULT_SLICE_US, MAX_MPL_LIMIT,
    MAX_QUANTUM_US, MAX_SLICE_US, MIN_QUANTUM_US, MatrixQueue, MplLimit, ParamError, PolicyParams,
    Quantum, SliceLength,
};
pub use pending_queue::{MAX_PENDING_JOBS, PendingQueue};
pub use pending_reason::{AbsentNode, Ahead, MAX_NAMED_NODES, PendingReason, Shortage};
pub use placement::{NodeShare, Placement};
pub use policy::{JobView, Policy, RowTurns, RowView};
pub use precedence::{Precedence, PreemptMode, QosId};
pub use priority::Priority;
pub use priority_use::PriorityUse;
pub use registry::{DEFAULT_POLICY, Registry, UnknownPolicy};
pub use reservation::{Reservation, ReservationId};
pub use sched_time::SchedTime;
pub use shape::{NodeRoom, Room, Shape, Shortfall};
