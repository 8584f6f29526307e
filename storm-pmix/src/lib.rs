//! PMIx for programs of Open MPI, and of whatever else joins its job through PMIx.
//!
//! A rank of such a job is started as [`start_rank`], which asks the server of its node for an
//! environment and becomes the program. The first rank of a node that asks starts the server,
//! [`serve`]: one process per job and node that runs libpmix's server as the job's user, in the
//! job's place on the node, stops and dies with it. Ranks hand it their PMI-1 connections: to the
//! Node Manager it is the ranks of its node, which say `init` when they join, put, wait in
//! barriers, abort and say `finalize`. So what holds of ranks under PMI-1 holds here: deaths,
//! missing ranks, restarts of managers. The Node Manager itself loads no library.
//!
//! What it does not do: dynamic processes (MPI_Comm_spawn, MPI_Comm_connect), the name service,
//! and fences of some ranks of several nodes are refused. Nothing is fetched from a rank that
//! has not given it in a fence (direct modex).

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
mod placement;
mod rank;
mod server;

pub use client_environment::is_of_a_server;
pub use detect::Linkage;
pub use library::LibraryError;
pub use rank::{RankError, RankOptions, start_rank};
pub use server::{ServeError, ServeOptions, serve};
