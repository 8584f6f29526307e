//! `kernels`: runs one kernel on all ranks of its job.
//!
//! Exit status: 0 right, 1 wrong or broken, 2 wrong arguments. Only rank 0 prints.

use clap::Parser;
use kernels::cli::Kernel;
use kernels::failure::Failure;
use std::error::Error;
use std::process::ExitCode;
use storm_mpi::{Rank, World};

const EXIT_WRONG: u8 = 1;
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("kernels: {}", with_causes(&error));
            return ExitCode::from(EXIT_WRONG);
        }
    };
    let code = run(&world);
    match world.finalize() {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(EXIT_WRONG),
    }
}

/// An error with its causes.
fn with_causes(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// Runs the kernel that the arguments name. Returns the exit status.
fn run(world: &World) -> u8 {
    let at_root = world.rank() == Rank(0);
    let kernel = match Kernel::try_parse() {
        Ok(kernel) => kernel,
        Err(error) => {
            if at_root {
                // An error means that standard error is closed.
                let _ = error.print();
            }
            return if error.use_stderr() { EXIT_USAGE } else { 0 };
        }
    };
    match kernel.run(world) {
        Ok(answer) => {
            if at_root {
                println!("{answer}");
            }
            if answer.right == Some(false) { EXIT_WRONG } else { 0 }
        }
        // All ranks have the same arguments, so every rank refuses them.
        Err(Failure::Arguments(why)) => {
            if at_root {
                eprintln!("kernels: {why}");
            }
            EXIT_USAGE
        }
        Err(failure) => {
            eprintln!("kernels: rank {}: {}", world.rank(), with_causes(&failure));
            world.abort(EXIT_WRONG.into())
        }
    }
}
