//! Source iteration: sweep, scatter, repeat, until the scalar flux has converged.

use crate::decomposition::Column;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::sweep::{Blocking, Outflow, Sweeper};

/// Most iterations to convergence: with a scattering ratio of 0.99 an error shrinks by 1e-4 in
/// 1,000.
pub const MAX_ITERATIONS: usize = 5000;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// When the largest relative change of a cell's flux is at most this value.
    Converged(f64),
    /// After this many iterations.
    After(usize),
}

/// A column's part of the solution.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Scalar flux, indexed `(k * nj + j) * ni + i`.
    pub flux: Vec<f64>,
    /// The flux that the last iteration scattered from.
    pub previous: Vec<f64>,
    /// Outflow through the column's open faces, in the last iteration.
    pub outflow: Outflow,
    /// Iterations made.
    pub iterations: usize,
    /// Largest relative change in the last iteration, over all columns.
    pub error: f64,
    /// Negative fluxes fixed up in all iterations, over all columns.
    pub fixups: u64,
}

/// Solves the problem on this column, together with the other processes. Calls `progress` with each
/// iteration and its error.
///
/// # Errors
/// An error of the exchange.
pub fn solve<X: Exchange>(
    problem: &Problem,
    column: &Column,
    blocking: Blocking,
    stop: Stop,
    exchange: &mut X,
    mut progress: impl FnMut(usize, f64),
) -> Result<Solution, X::Error> {
    let source = source_of(problem, column);
    let mut sweeper = Sweeper::new(problem, column, blocking);
    let mut flux = vec![0.0; source.len()];
    let mut previous = flux.clone();
    let mut emission = source.clone();
    let (limit, epsi) = match stop {
        Stop::Converged(epsi) => (MAX_ITERATIONS, epsi),
        Stop::After(iterations) => (iterations, f64::NEG_INFINITY),
    };
    let (mut iterations, mut error) = (0, f64::INFINITY);
    while iterations < limit && error > epsi {
        std::mem::swap(&mut flux, &mut previous);
        for ((e, s), p) in emission.iter_mut().zip(&source).zip(&previous) {
            *e = s + problem.scattering_per_cm * p;
        }
        sweeper.sweep(&emission, &mut flux, exchange)?;
        error = exchange.max(largest_change(&flux, &previous))?;
        iterations += 1;
        progress(iterations, error);
    }
    let fixups = exchange.sum(sweeper.fixups())?;
    let outflow = sweeper.outflow().clone();
    Ok(Solution { flux, previous, outflow, iterations, error, fixups })
}

fn source_of(problem: &Problem, column: &Column) -> Vec<f64> {
    let mut source = Vec::with_capacity(column.i.len() * column.j.len() * problem.cells[2]);
    for k in 0..problem.cells[2] {
        for j in column.j.clone() {
            source.extend(column.i.clone().map(|i| problem.source_at([i, j, k])));
        }
    }
    source
}

/// The largest relative change of a cell; a cell without flux does not count.
fn largest_change(flux: &[f64], previous: &[f64]) -> f64 {
    let change =
        |(&new, &old): (&f64, &f64)| if new == 0.0 { 0.0 } else { ((new - old) / new).abs() };
    flux.iter().zip(previous).map(change).fold(0.0, f64::max)
}
