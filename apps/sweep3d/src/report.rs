//! The output of rank 0: for people and as JSON.

use crate::answer::Answer;
use crate::decomposition::ProcessGrid;
use crate::problem::Problem;
use crate::solver::Solution;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The result of a run. Rates are particles per second.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Cells along i, j and k.
    pub cells: [usize; 3],
    /// N of the quadrature set.
    pub sn: usize,
    /// Processes along i and j.
    pub process_grid: [usize; 2],
    /// Times the problem was solved.
    pub steps: u32,
    /// Iterations of the last solution.
    pub iterations: usize,
    /// Largest relative change of a cell in its last iteration.
    pub error: f64,
    /// Negative fluxes fixed up.
    pub fixups: u64,
    /// Born.
    pub source: f64,
    /// Absorbed.
    pub absorption: f64,
    /// Gone through the open faces.
    pub leakage: f64,
    /// The part that the last iteration had not scattered yet.
    pub iteration_lag: f64,
    /// Relative imbalance of the four.
    pub balance_error: f64,
    /// Sum of the scalar flux.
    pub flux_sum: f64,
    /// BLAKE3 of the scalar flux.
    pub flux_hash: String,
    /// Sum of its bits and places, mixed, in hexadecimal digits.
    pub check_sum: String,
    /// Whether the flux equals that of a single process, if compared.
    pub verified: Option<bool>,
    /// Seconds from the first iteration to the last, all steps.
    pub elapsed_s: f64,
    /// Cells times angles times iterations per second.
    pub updates_per_s: f64,
    /// Whether every check passed.
    pub ok: bool,
}

impl Report {
    /// Puts the result together.
    pub fn new(
        problem: &Problem,
        grid: ProcessGrid,
        steps: u32,
        solution: &Solution,
        answer: Answer,
        elapsed: Duration,
    ) -> Self {
        let angles = 8 * problem.order.angles_per_octant();
        let updates = problem.cell_count() * angles * solution.iterations * steps as usize;
        Report {
            cells: problem.cells,
            sn: problem.order.n(),
            process_grid: [grid.npe_i, grid.npe_j],
            steps,
            iterations: solution.iterations,
            error: solution.error,
            fixups: solution.fixups,
            source: answer.source,
            absorption: answer.absorption,
            leakage: answer.leakage,
            iteration_lag: answer.iteration_lag,
            balance_error: answer.balance_error,
            flux_sum: answer.flux_sum,
            ok: answer.is_right(),
            check_sum: format!("{:016x}", answer.check_sum),
            verified: answer.same_as_reference,
            flux_hash: answer.flux_hash,
            elapsed_s: elapsed.as_secs_f64(),
            updates_per_s: updates as f64 / elapsed.as_secs_f64(),
        }
    }
}

impl Report {
    /// One line without times, with numbers as their bits. The program in C prints the same line.
    pub fn brief(&self) -> String {
        let ([i, j, k], [npe_i, npe_j]) = (self.cells, self.process_grid);
        let (ranks, right) = (npe_i * npe_j, if self.ok { "OK" } else { "WRONG" });
        let bits = [self.error, self.flux_sum, self.absorption, self.leakage]
            .map(|value| format!("{:016x}", value.to_bits()));
        let [error, flux_sum, absorption, leakage] = bits;
        format!(
            "sweep3d: {ranks} ranks, {i} x {j} x {k} cells, S{}, {} steps, {} iterations, \
             {} fix-ups, check sum {}, error {error}, flux sum {flux_sum}, \
             absorption {absorption}, leakage {leakage}, {right}",
            self.sn, self.steps, self.iterations, self.fixups, self.check_sum
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [i, j, k] = self.cells;
        let [npe_i, npe_j] = self.process_grid;
        writeln!(f, "problem:      {i} x {j} x {k} cells, S{}, {} step(s)", self.sn, self.steps)?;
        writeln!(f, "processes:    {npe_i} x {npe_j}")?;
        writeln!(f, "iterations:   {}, error {:.3e}", self.iterations, self.error)?;
        writeln!(f, "fix-ups:      {}", self.fixups)?;
        writeln!(f, "source:       {:e}", self.source)?;
        writeln!(f, "absorption:   {:e}", self.absorption)?;
        writeln!(f, "leakage:      {:e}", self.leakage)?;
        writeln!(f, "not yet scattered: {:e}", self.iteration_lag)?;
        writeln!(f, "balance:      {:.3e} relative error", self.balance_error)?;
        writeln!(f, "flux sum:     {:?}", self.flux_sum)?;
        writeln!(f, "flux hash:    {}", self.flux_hash)?;
        match self.verified {
            Some(true) => writeln!(f, "verified:     same bits as one process alone")?,
            Some(false) => writeln!(f, "verified:     DIFFERS from one process alone")?,
            None => {}
        }
        writeln!(f, "elapsed:      {:.6} s, {:.3e} updates/s", self.elapsed_s, self.updates_per_s)?;
        write!(f, "answer: {}", if self.ok { "OK" } else { "WRONG" })
    }
}
