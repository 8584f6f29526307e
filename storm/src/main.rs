//! `storm`: the command line, the embedded cluster and the daemons, with the policies of
//! `storm-sched`. The library has all of the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    storm::run(storm_sched::Registry::standard())
}
