//! Checks a solution: particle balance and a checksum, and bit-for-bit comparison with a reference.
//!
//! Rank 0 gathers the flux slab by slab and adds everything up in the order of the whole grid, so
//! the figures have the same bits on every process grid.

use crate::compensated_sum::CompensatedSum;
use crate::decomposition::{Column, ProcessGrid};
use crate::problem::Problem;
use crate::solver::Solution;
use std::ops::Range;
use storm_mpi::{CommError, Rank, Tag, World};

/// Largest relative imbalance of a right answer: far above rounding (1e-14), far below any error of
/// method.
pub const BALANCE_TOLERANCE: f64 = 1e-10;
/// Most bytes of flux that rank 0 gathers at once.
const GATHER_BYTES: usize = 64 << 20;

const PLANES: Tag = Tag(11);
const FACE: Tag = Tag(12);

/// The global figures of a solution. Rates are particles per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Born.
    pub source: f64,
    /// Absorbed.
    pub absorption: f64,
    /// Gone through the open faces.
    pub leakage: f64,
    /// Scattered in by the last iteration less than scattered out: vanishes with convergence.
    pub iteration_lag: f64,
    /// |source - absorption - leakage - lag| / source.
    pub balance_error: f64,
    /// Sum of the scalar flux over the cells.
    pub flux_sum: f64,
    /// BLAKE3 of the scalar flux, as little-endian doubles, i fastest, then j, then k.
    pub flux_hash: String,
    /// Sum over the cells of a hash of each flux's bits and place. The program in C computes the
    /// same sum.
    pub check_sum: u64,
    /// Whether flux and outflow equal the reference's, bit for bit; `None` without a reference.
    pub same_as_reference: Option<bool>,
}

impl Answer {
    /// Whether every check passed.
    pub fn is_right(&self) -> bool {
        self.balance_error <= BALANCE_TOLERANCE && self.same_as_reference != Some(false)
    }
}

/// Gathers a solution at rank 0 and checks it. The other ranks get `None`. `reference` is a
/// solution of the whole grid, on rank 0.
///
/// # Errors
/// If a rank cannot be reached.
pub fn check(
    world: &World,
    problem: &Problem,
    grid: ProcessGrid,
    solution: &Solution,
    reference: Option<&Solution>,
) -> Result<Option<Answer>, CommError> {
    let gather = Gather { world, problem, grid };
    let mut tally = Tally::default();
    let mut same = true;
    let plane = problem.cells[0] * problem.cells[1];
    let planes_at_once = (GATHER_BYTES / (16 * plane.max(1))).max(1);
    for start in (0..problem.cells[2]).step_by(planes_at_once) {
        let planes = start..problem.cells[2].min(start + planes_at_once);
        let flux = gather.planes(&solution.flux, &planes)?;
        let previous = gather.planes(&solution.previous, &planes)?;
        tally.add(problem, start, &flux, &previous);
        let cells = start * plane..start * plane + flux.len();
        same &= reference.is_none_or(|r| is_same(&r.flux[cells], &flux));
    }
    for axis in 0..3 {
        for high in [false, true] {
            let face = gather.face(solution, axis, high)?;
            tally.leakage.extend(face.iter().copied());
            let side = usize::from(high);
            same &= reference.is_none_or(|r| is_same(&r.outflow.faces[axis][side], &face));
        }
    }
    let at_root = world.rank() == Rank(0);
    Ok(at_root.then(|| tally.answer(reference.is_some().then_some(same))))
}

#[derive(Default)]
struct Tally {
    source: CompensatedSum,
    absorption: CompensatedSum,
    leakage: CompensatedSum,
    lag: CompensatedSum,
    flux: CompensatedSum,
    hash: blake3::Hasher,
    check_sum: u64,
    cells: u64,
}

impl Tally {
    fn add(&mut self, problem: &Problem, first_plane: usize, flux: &[f64], previous: &[f64]) {
        let volume = problem.cell_volume_cm3();
        let absorption_per_cm = problem.total_per_cm - problem.scattering_per_cm;
        let [it, jt, _] = problem.cells;
        for (index, (&new, &old)) in flux.iter().zip(previous).enumerate() {
            let cell = [index % it, index / it % jt, first_plane + index / (it * jt)];
            self.source.add(problem.source_at(cell) * volume);
            self.absorption.add(absorption_per_cm * new * volume);
            self.lag.add(problem.scattering_per_cm * (new - old) * volume);
            self.flux.add(new);
            self.hash.update(&new.to_le_bytes());
            self.check_sum = self.check_sum.wrapping_add(mix(new.to_bits() ^ mix(self.cells)));
            self.cells += 1;
        }
    }

    fn answer(self, same_as_reference: Option<bool>) -> Answer {
        let (source, absorption) = (self.source.value(), self.absorption.value());
        let (leakage, iteration_lag) = (self.leakage.value(), self.lag.value());
        Answer {
            source,
            absorption,
            leakage,
            iteration_lag,
            balance_error: ((source - absorption - leakage - iteration_lag) / source).abs(),
            flux_sum: self.flux.value(),
            check_sum: self.check_sum,
            flux_hash: self.hash.finalize().to_hex().to_string(),
            same_as_reference,
        }
    }
}

struct Gather<'a> {
    world: &'a World,
    problem: &'a Problem,
    grid: ProcessGrid,
}

/// The places of the rows of a rank's part in the whole; each row is `length` long.
struct Rows {
    length: usize,
    starts: Vec<usize>,
}

impl Gather<'_> {
    /// Gathers these planes of all columns' cell arrays at rank 0. Empty at the other ranks.
    fn planes(&self, local: &[f64], planes: &Range<usize>) -> Result<Vec<f64>, CommError> {
        let [it, jt, _] = self.problem.cells;
        let mine = self.column(self.world.rank().index());
        let plane = mine.i.len() * mine.j.len();
        let part = &local[planes.start * plane..planes.end * plane];
        self.assemble(PLANES, part, it * jt * planes.len(), |column| {
            let row = |k: usize, j: usize| (k * jt + j) * it + column.i.start;
            let starts =
                (0..planes.len()).flat_map(|k| column.j.clone().map(move |j| row(k, j))).collect();
            Rows { length: column.i.len(), starts }
        })
    }

    /// The outflow of one face of the grid, at rank 0. Empty at the other ranks, and if the face is
    /// not open.
    fn face(&self, solution: &Solution, axis: usize, high: bool) -> Result<Vec<f64>, CommError> {
        if !high && self.problem.reflect_low[axis] {
            return Ok(Vec::new());
        }
        let [it, jt, kt] = self.problem.cells;
        let part = &solution.outflow.faces[axis][usize::from(high)];
        let total = [jt * kt, it * kt, it * jt][axis];
        self.assemble(FACE, part, total, |column| {
            let at_boundary = match (axis, high) {
                (0, false) => column.pe_i == 0,
                (0, true) => column.pe_i + 1 == self.grid.npe_i,
                (1, false) => column.pe_j == 0,
                (1, true) => column.pe_j + 1 == self.grid.npe_j,
                _ => true,
            };
            let (length, starts): (usize, Vec<usize>) = match axis {
                0 => (column.j.len(), (0..kt).map(|k| k * jt + column.j.start).collect()),
                1 => (column.i.len(), (0..kt).map(|k| k * it + column.i.start).collect()),
                _ => (column.i.len(), column.j.clone().map(|j| j * it + column.i.start).collect()),
            };
            if at_boundary {
                Rows { length, starts }
            } else {
                Rows { length: 0, starts: Vec::new() }
            }
        })
    }

    /// Puts every rank's part in its place.
    fn assemble(
        &self,
        tag: Tag,
        part: &[f64],
        total: usize,
        rows_of: impl Fn(&Column) -> Rows,
    ) -> Result<Vec<f64>, CommError> {
        if self.world.rank() != Rank(0) {
            if !part.is_empty() {
                self.world.send(part, Rank(0), tag)?;
            }
            return Ok(Vec::new());
        }
        let mut whole = vec![0.0; total];
        let mut received = part.to_vec();
        for rank in 0..self.world.size() {
            let rows = rows_of(&self.column(rank));
            received.resize(rows.length * rows.starts.len(), 0.0);
            if rank != 0 && !received.is_empty() {
                self.world.recv(&mut received, Rank::from_index(rank), tag)?;
            }
            for (row, &start) in rows.starts.iter().enumerate() {
                let from = &received[row * rows.length..][..rows.length];
                whole[start..][..rows.length].copy_from_slice(from);
            }
        }
        Ok(whole)
    }

    fn column(&self, rank: usize) -> Column {
        self.grid.column(rank, self.problem.cells[0], self.problem.cells[1])
    }
}

/// Spreads a number over all bits (SplitMix64's last step: Steele, Lea, Flood, OOPSLA 2014).
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn is_same(left: &[f64], right: &[f64]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.to_bits() == b.to_bits())
}
