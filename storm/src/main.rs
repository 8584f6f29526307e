//! `storm`: the command line, the embedded cluster, and the daemons' mains, with the
//! policies of `storm-sched`. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    storm::run(storm_sched::Registry::standard())
}
