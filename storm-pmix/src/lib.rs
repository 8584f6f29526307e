//! PMIx for programs of Open MPI, and for other programs that join their job through PMIx.
//!
//! A rank of such a job starts as [`start_rank`], which asks the server of its node for an
//! environment and then executes the program. The first rank of a node that asks starts the server,
//! [`serve`]. The server is one process per job and node. It runs libpmix's server as the job's
//! user, belongs to the job on the node, and is stopped and killed with it.
//!
//! Ranks pass their PMI-1 connections to the server. Towards the Node Manager, the server acts for
//! the ranks of its node: it sends `init` when they join, puts, waits in barriers, aborts and sends
//! `finalize`. So the rules for ranks under PMI-1 also hold here: for deaths, missing ranks and
//! restarts of managers. The Node Manager itself loads no library.
//!
//! Not supported are dynamic processes (MPI_Comm_spawn, MPI_Comm_connect), the name service, and
//! fences of some ranks of several nodes. The server refuses them all. A rank gets another rank's
//! data only from a fence, never directly (no direct modex).

pub mod abi;
mod client_environment;
mod detect;
mod exchange;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handover;
mod info;
mod libraries;
mod library;
mod needs;
mod placement;
mod rank;
mod server;

pub use client_environment::is_of_a_server;
pub use detect::Linkage;
pub use library::LibraryError;
pub use rank::{RankError, RankOptions, start_rank};
pub use server::{ServeError, ServeOptions, serve};
