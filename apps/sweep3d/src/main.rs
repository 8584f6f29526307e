//! `sweep3d`: solves a transport problem on all ranks of its job and checks the answer.
//!
//! Exit status: 0 right, 1 wrong or broken, 2 wrong arguments. Only rank 0 prints.

use clap::Parser;
use std::process::ExitCode;
use std::time::Instant;
use storm_mpi::{CommError, Rank, World};
use sweep3d::answer;
use sweep3d::cli::{ArgumentError, Arguments};
use sweep3d::decomposition::ProcessGrid;
use sweep3d::exchange::{Alone, Ranks};
use sweep3d::problem::Problem;
use sweep3d::report::Report;
use sweep3d::solver::{Solution, solve};

const EXIT_WRONG: u8 = 1;
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("sweep3d: {error}: {:?}", std::error::Error::source(&error));
            return ExitCode::from(EXIT_WRONG);
        }
    };
    let code = match prepare(&world) {
        Err(code) => code,
        Ok(run) => run.run(&world).unwrap_or(EXIT_WRONG),
    };
    match world.finalize() {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(EXIT_WRONG),
    }
}

struct Run {
    arguments: Arguments,
    problem: Problem,
    grid: ProcessGrid,
}

/// Reads the arguments. Rank 0 reports their errors for all ranks.
fn prepare(world: &World) -> Result<Run, u8> {
    let at_root = world.rank() == Rank(0);
    let arguments = Arguments::try_parse().map_err(|error| {
        if at_root {
            // An error means that standard error is closed.
            let _ = error.print();
        }
        if error.use_stderr() { EXIT_USAGE } else { 0 }
    })?;
    let refuse = |error: ArgumentError| {
        if at_root {
            eprintln!("sweep3d: {error}");
        }
        EXIT_USAGE
    };
    let problem = arguments.problem().map_err(refuse)?;
    let grid = arguments.process_grid(world.size()).map_err(refuse)?;
    Ok(Run { arguments, problem, grid })
}

impl Run {
    /// Solves, checks, reports; gives the exit status.
    fn run(&self, world: &World) -> Result<u8, CommError> {
        let begin = Instant::now();
        let mut solution = self.solve(world)?;
        for _ in 1..self.arguments.steps {
            solution = self.solve(world)?;
        }
        let elapsed = begin.elapsed();
        let at_root = world.rank() == Rank(0);
        let reference = (self.arguments.verify && at_root).then(|| self.solve_alone());
        let answer = answer::check(world, &self.problem, self.grid, &solution, reference.as_ref())?;
        let Some(answer) = answer else { return Ok(0) };
        let steps = self.arguments.steps;
        let report = Report::new(&self.problem, self.grid, steps, &solution, answer, elapsed);
        if self.arguments.brief {
            println!("{}", report.brief());
        } else if self.arguments.json {
            match serde_json::to_string_pretty(&report) {
                Ok(json) => println!("{json}"),
                Err(error) => eprintln!("sweep3d: {error}"),
            }
        } else {
            println!("{report}");
        }
        Ok(if report.ok { 0 } else { EXIT_WRONG })
    }

    fn solve(&self, world: &World) -> Result<Solution, CommError> {
        let [it, jt, _] = self.problem.cells;
        let column = self.grid.column(world.rank().index(), it, jt);
        let mut exchange = Ranks::new(world, self.grid, column.clone());
        let (blocking, stop) = (self.arguments.blocking(), self.arguments.stop());
        let verbose = self.arguments.verbose && world.rank() == Rank(0);
        solve(&self.problem, &column, blocking, stop, &mut exchange, |iteration, error| {
            if verbose {
                eprintln!("iteration {iteration:5}  error {error:.3e}");
            }
        })
    }

    fn solve_alone(&self) -> Solution {
        let whole = ProcessGrid { npe_i: 1, npe_j: 1 };
        let column = whole.column(0, self.problem.cells[0], self.problem.cells[1]);
        let (blocking, stop) = (self.arguments.blocking(), self.arguments.stop());
        match solve(&self.problem, &column, blocking, stop, &mut Alone, |_, _| {}) {
            Ok(solution) => solution,
        }
    }
}
