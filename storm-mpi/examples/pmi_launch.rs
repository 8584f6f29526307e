//! Starts a program as a job on simulated nodes of this host, for experiments and benchmarks:
//! `pmi_launch NODES RANKS_PER_NODE PROGRAM [ARGUMENTS]`. Prints the output of the ranks, by rank.

use std::process::ExitCode;
use storm_mpi::testing::Launcher;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next =
        || args.next().ok_or("usage: pmi_launch NODES RANKS_PER_NODE PROGRAM [ARGUMENTS]");
    let (nodes, ranks_per_node) = (next()?.parse()?, next()?.parse()?);
    let program = next()?;
    let launcher = Launcher::new(program).nodes(nodes, ranks_per_node);
    let outcome = args.fold(launcher, |launcher, arg| launcher.arg(arg)).run()?;
    for rank in &outcome.ranks {
        print!("{}", rank.stdout);
        eprint!("{}", rank.stderr);
    }
    eprintln!("elapsed {:.3} s, {}", outcome.elapsed.as_secs_f64(), outcome.report());
    Ok(if outcome.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
