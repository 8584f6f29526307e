//! The C interface of storm-mpi: the functions of `mpi.h`, as `libstormmpi`.
//!
//! It is a thin layer: handles and their tables, checks of arguments, packing of derived datatypes,
//! and error handlers. The crate `storm-mpi` communicates. Before anything is sent, ranks are
//! checked against the communicator, and counts and datatypes are checked. `abi` lists the
//! guarantees of a C caller. `entering.rs` describes which threads may call, and how they affect
//! each other. `docs/mpi.md` lists what is absent.
// The names and the arguments are the standard's.
#![allow(non_snake_case, clippy::too_many_arguments)]

mod abi;
mod api;
mod call;
mod class;
mod codes;
mod collective;
mod comm;
mod comm_checks;
mod datatype;
mod entering;
mod fault;
mod file;
mod gathered;
mod generalized;
mod handle;
mod info;
mod intercomm;
mod kept;
mod launcher;
mod level;
mod library;
mod member_blocks;
mod members;
mod memory;
mod number;
mod operation;
mod phase;
mod profiling;
mod reducer;
mod request;
mod requests;
mod sequence;
mod session;
mod table;
mod types;
mod window;
