//! Buffered coscheduling (BCS): the communication of jobs is buffered, and carried out in slices
//! that all nodes begin together.
//!
//! The design follows Fernandez, Frachtenberg, Petrini, *BCS-MPI: A New Approach in the System
//! Software Design for Large-Scale Parallel Computers*, SC'03, and Petrini and Feng, IPDPS 2000.
//! Ranks only post descriptors of their sends and receives. Once per slice the nodes exchange the
//! descriptors, match them, agree on the number of bytes that each link carries, and move exactly
//! those. Each such microphase ([`Phase`]) begins with a strobe (XFER-AND-SIGNAL) when the previous
//! one is over on every node (COMPARE-AND-WRITE). At the end of each slice the network is empty, so
//! the memories of the nodes alone are the state of every job: a [`Checkpoint`].
//!
//! | thread of the paper | here |
//! |---|---|
//! | Strobe Sender | [`StrobeSender`], on the management node |
//! | Strobe Receiver | [`StrobeReceiver`]: drives the engine of one node over the primitives |
//! | Buffer Sender, Buffer Receiver | `buffer_sender`, `buffer_receiver`: sends and receives |
//! | DMA Helper | `dma_helper`: carries out grants, within the link's budget |
//! | Collective Helper, Reduce Helper | `collective_helper`, `reduce_helper` |
//!
//! [`Engine`] has the rules and is pure: its inputs are strobes, posts and outcomes, and its
//! outputs are [`Action`]s. [`modelled`] is a machine of engines in virtual time, and [`Ranks`] are
//! the processes of a real one. `docs/decisions/0090` lists the departures from the paper. This
//! crate knows no daemon and no backend, and moves no message outside a slice. `storm-slices` has
//! the slices themselves, their plan in global memory and their strobes.
#![forbid(unsafe_code)]

mod block;
mod block_head;
mod buffer_receiver;
mod buffer_sender;
mod collective_helper;
mod dma_helper;
mod dyadic;
mod engine;
mod error;
mod group;
mod job;
mod microphase;
pub mod modelled;
mod open;
mod operation;
mod question;
mod ranks;
mod reduce_helper;
mod reducing;
mod saved;
mod strobe_receiver;
mod turns;

pub use engine::{Action, ActionId, Engine, Reply, Traffic};
pub use error::BcsError;
pub use group::{Group, GroupId};
pub use job::{JobKey, Member};
pub use operation::{Collective, Completion, Outcome, Post, RequestId};
pub use ranks::{CHUNK_BYTES, KEPT_BYTES, Ranks, WAITING_BYTES};
pub use saved::Unsaved;
pub use storm_mpi::collective::{Number, Reduction};
pub use storm_mpi::segment::COLLECTIVE_MAX_BYTES;
pub use storm_slices::{
    BcsConfig, BcsConfigError, Checkpoint, Phase, Plan, SliceError, Strobe, StrobeSender,
};
pub use strobe_receiver::{Edge, Nudge, StrobeReceiver};
pub use turns::Turns;

// Otherwise the default plan would refuse a collective that ranks leave to their nodes.
const _: () = assert!(COLLECTIVE_MAX_BYTES as u64 + 256 <= storm_slices::RANK_COLLECTIVE_BYTES);
