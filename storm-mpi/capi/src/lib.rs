//! The C interface of storm-mpi: the functions of `mpi.h`, as `libstormmpi`.
//!
//! It is a thin layer: handles and their tables, checks of arguments, packing of derived datatypes,
//! and error handlers. The crate `storm-mpi` communicates. Ranks are checked against the
//! communicator, and counts and datatypes are checked, before anything is sent. `abi.rs` lists the
//! guarantees of a C caller. `level.rs` describes the threads that may call in, and their effects
//! on each other. `docs/mpi.md` lists what is absent.
// The names and the arguments are the standard's.
#![allow(non_snake_case, clippy::too_many_arguments)]

mod abi;
mod api;
mod codes;
mod collective;
mod comm;
mod fault;
mod file;
mod generalized;
mod intercomm;
mod kept;
mod launcher;
mod level;
mod member_blocks;
mod memory;
mod operation;
mod profiling;
mod recipe;
mod request;
mod sequence;
mod session;
mod table;
mod types;
mod window;
