//! PMIx for programs of Open MPI and others that join their job through PMIx.
//!
//! A rank of such a job starts as [`start_rank`], which asks its node's server for an environment
//! and becomes the program. The first rank of a node that asks starts the server, [`serve`]: a
//! process per job and node that runs libpmix's server as the job's user. It runs in the job's
//! place on the node, and stops and dies with the job.
//!
//! Ranks hand the server their PMI-1 connections. To the Node Manager, the server is the node's
//! ranks, which say `init` when they join, put, wait in barriers, abort and say `finalize`. So the
//! rules for ranks under PMI-1 hold here: for deaths, missing ranks, and restarts of managers. The
//! Node Manager itself loads no library.
//!
//! Dynamic processes (MPI_Comm_spawn, MPI_Comm_connect), the name service, and fences of some ranks
//! of several nodes are refused. Data that a rank has not given in a fence are not fetched from it
//! (direct modex).

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
