//! `storm`: the command line, the embedded cluster, and the daemons' mains.
//!
//! A command parses its options ([`cli`]), finds the cluster that is meant
//! ([`target`]) or makes one ([`local_cluster`]), asks its Machine Manager over
//! the client API, and prints the answer ([`output`]). It keeps no state but
//! the record of the cluster that `storm up` started.

mod attach;
mod begin_time;
mod cli;
mod command;
mod config;
mod daemon;
mod duration;
mod failure;
mod job_request;
mod key_file;
mod local_cluster;
mod manager;
mod memory;
mod output;
mod size;
mod target;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(match cli::Cli::try_parse() {
        Ok(cli) => command::run(cli),
        Err(error) => command::refuse(&error),
    })
}
