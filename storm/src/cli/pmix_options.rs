//! How the ranks of a job join it: the user's choice, and the options of the `__pmix` program.
//! Node Managers start `__pmix` in place of a program that joins through PMIx.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// How the ranks of a job join it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MpiArgument {
    /// Through PMIx where the program is linked with Open MPI or PMIx, else through PMI-1.
    #[default]
    Auto,
    /// Through PMI-1: MPICH, Intel MPI and storm-mpi.
    #[value(name = "pmi1")]
    Pmi1,
    /// Through PMIx: Open MPI.
    Pmix,
}

/// Options of `__pmix`.
#[derive(Debug, Args)]
pub(crate) struct PmixOptions {
    /// Serve the node's ranks, which connect to standard input
    #[arg(long)]
    pub(crate) serve: bool,
    /// Name of this run of the job
    #[arg(long, value_name = "NAME")]
    pub(crate) nspace: String,
    /// Which rank is on which node, as in PMI_process_mapping
    #[arg(long, value_name = "VECTOR")]
    pub(crate) mapping: String,
    /// Bytes of the manager's messages to nodes
    #[arg(long, value_name = "N")]
    pub(crate) heartbeat_bytes: usize,
    /// Processors for the server, if ranks are bound to some of the node's
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cpus: Vec<u16>,
    /// Directory for files that the node's ranks share
    #[arg(long, value_name = "DIR", required_unless_present = "serve")]
    pub(crate) shared_memory: Option<PathBuf>,
    /// The program
    #[arg(long, value_name = "FILE", required_unless_present = "serve")]
    pub(crate) program: Option<PathBuf>,
    /// File that the program was copied from: executed in its place if the content is the same
    #[arg(long, value_name = "FILE")]
    pub(crate) original: Option<PathBuf>,
    /// Its arguments, its own name included
    #[arg(last = true)]
    pub(crate) argv: Vec<OsString>,
}
