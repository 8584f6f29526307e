//! Heat in a square plate whose upper border is hot: Jacobi iteration with a five-point stencil.
//!
//! The plate is cut over a grid of processes. In each step the borders of the parts travel to the
//! neighbours (non-blocking) while the inside is computed; the rim follows. The same program in C:
//! `c/stencil.c`.

use crate::answer::Answer;
use crate::checksum::{of_all, term};
use crate::failure::Failure;
use clap::Args;
use std::ops::{Range, RangeInclusive};
use storm_mpi::comm::{Cartesian, balanced_dims};
use storm_mpi::{CommError, Communicator, Rank, ReduceOp, Tag};

/// Temperature of the upper border; the other borders have 0.
const HOT: f64 = 1.0;

/// The sides of a part, as indices: up, down, left, right. A side's opposite is `side ^ 1`.
const SIDES: Range<usize> = 0..4;

/// The settings.
#[derive(Clone, Copy, Debug, Args)]
pub struct Stencil {
    /// Cells along a side of the plate
    #[arg(default_value_t = 256)]
    pub cells: usize,
    /// Steps
    #[arg(default_value_t = 100)]
    pub steps: u32,
}

/// A rank's part of the plate, with a row or column of cells around it that belong to others.
struct Part {
    /// The rows and columns in the plate.
    place: [Range<usize>; 2],
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Stencil {
    /// Runs the steps.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&self, comm: &Communicator) -> Result<Answer, Failure> {
        let mut dims = [0, 0];
        balanced_dims(comm.size(), &mut dims)?;
        if dims.iter().any(|&length| self.cells < length as usize) {
            let [rows, columns] = dims;
            let why = format!("{rows} x {columns} ranks need at least as many cells");
            return Err(Failure::Arguments(why));
        }
        let grid = Cartesian::new(&dims, &[false, false], comm.size())?;
        let me = comm.rank().index();
        let (up, down) = grid.shift(me, 0, 1)?;
        let (left, right) = grid.shift(me, 1, 1)?;
        let neighbours = [up, down, left, right].map(|place| place.map(Rank::from_index));
        let mut part = Part::new(self.cells, &grid, me);
        let mut change = 0.0;
        for _ in 0..self.steps {
            change = part.step(comm, neighbours)?;
        }
        Ok(self.answer(comm, &part, change)?)
    }

    fn answer(&self, comm: &Communicator, part: &Part, change: f64) -> Result<Answer, CommError> {
        let (mut sum, mut heat, mut low, mut high) = (0_u64, 0.0, HOT, 0.0_f64);
        for (place, cell) in part.cells(self.cells) {
            sum = sum.wrapping_add(term(place, cell.to_bits()));
            heat += cell;
            (low, high) = (cell.min(low), cell.max(high));
        }
        let sum = of_all(comm, sum)?;
        let mut largest = [0.0; 3];
        comm.allreduce(&[change, high, -low], &mut largest, ReduceOp::Max)?;
        let mut all = [0.0];
        // The parts are added in the order of the ranks: every run on as many ranks gives the same
        // bits.
        comm.allreduce(&[heat], &mut all, ReduceOp::Sum)?;
        let text = format!(
            "stencil: {} ranks, {n} x {n} cells, {} steps, check sum {sum:016x}, last change {:016x}, heat {:016x}",
            comm.size(),
            self.steps,
            largest[0].to_bits(),
            all[0].to_bits(),
            n = self.cells,
        );
        // A mean of neighbours never leaves the range of the borders.
        let right = largest[1] <= HOT && -largest[2] >= 0.0;
        Ok(Answer { text, right: Some(right), times: None })
    }
}

impl Part {
    fn new(cells: usize, grid: &Cartesian, me: usize) -> Self {
        let coords = grid.coords(me);
        let place = [0, 1].map(|dimension| {
            let (at, parts) = (coords[dimension] as usize, grid.dims()[dimension] as usize);
            cells * at / parts..cells * (at + 1) / parts
        });
        let [rows, columns] = place.clone().map(|range| range.len());
        let mut now = vec![0.0; (rows + 2) * (columns + 2)];
        if place[0].start == 0 {
            now[1..=columns].fill(HOT);
        }
        Part { place, next: now.clone(), now }
    }

    fn rows(&self) -> usize {
        self.place[0].len()
    }

    fn columns(&self) -> usize {
        self.place[1].len()
    }

    /// This rank's own cells, each with its place in the plate.
    fn cells(&self, plate: usize) -> impl Iterator<Item = (u64, f64)> {
        let [rows, columns] = &self.place;
        let place =
            move |i: usize, j: usize| ((rows.start + i - 1) * plate + columns.start + j - 1) as u64;
        (1..=self.rows()).flat_map(move |i| {
            (1..=self.columns()).map(move |j| (place(i, j), self.now[self.at(i, j)]))
        })
    }

    /// Makes one step; gives the largest change of a cell here.
    fn step(
        &mut self,
        comm: &Communicator,
        neighbours: [Option<Rank>; 4],
    ) -> Result<f64, CommError> {
        let edges = [0, 1, 2, 3].map(|side| self.edge(side));
        let mut halos = edges.clone();
        let mut change = comm.scope(|scope| {
            let (mut receives, mut sends) = (Vec::new(), Vec::new());
            for (side, halo) in halos.iter_mut().enumerate() {
                let Some(neighbour) = neighbours[side] else { continue };
                // A message's tag is the side that it left its sender by.
                receives.push(scope.irecv(halo, neighbour, Tag((side ^ 1) as i32))?);
                sends.push(scope.isend(&edges[side], neighbour, Tag(side as i32))?);
            }
            let change = self.update(2..=self.rows() - 1, 2..=self.columns() - 1);
            scope.wait_all(receives)?;
            scope.wait_all_sends(sends)?;
            Ok(change)
        })?;
        for side in SIDES.filter(|&side| neighbours[side].is_some()) {
            self.surround(side, &halos[side]);
        }
        let (rows, columns) = (self.rows(), self.columns());
        change = change.max(self.update(1..=1, 1..=columns));
        change = change.max(self.update(rows..=rows, 1..=columns));
        change = change.max(self.update(2..=rows - 1, 1..=1));
        change = change.max(self.update(2..=rows - 1, columns..=columns));
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(change)
    }

    /// The next values of these cells; gives the largest change.
    fn update(&mut self, rows: RangeInclusive<usize>, columns: RangeInclusive<usize>) -> f64 {
        let (width, mut change) = (self.columns() + 2, 0.0_f64);
        for i in rows {
            for j in columns.clone() {
                let (at, cells) = (self.at(i, j), &self.now);
                let neighbours =
                    (cells[at - width] + cells[at + width]) + (cells[at - 1] + cells[at + 1]);
                self.next[at] = 0.25 * neighbours;
                change = change.max((self.next[at] - cells[at]).abs());
            }
        }
        change
    }

    /// This rank's outermost cells on a side.
    fn edge(&self, side: usize) -> Vec<f64> {
        let (rows, columns) = (self.rows(), self.columns());
        match side {
            0 => self.now[self.at(1, 1)..=self.at(1, columns)].to_vec(),
            1 => self.now[self.at(rows, 1)..=self.at(rows, columns)].to_vec(),
            2 => (1..=rows).map(|i| self.now[self.at(i, 1)]).collect(),
            _ => (1..=rows).map(|i| self.now[self.at(i, columns)]).collect(),
        }
    }

    /// Sets the neighbour's cells on a side.
    fn surround(&mut self, side: usize, halo: &[f64]) {
        let (rows, columns) = (self.rows(), self.columns());
        for (k, &cell) in (1..).zip(halo) {
            let at = match side {
                0 => self.at(0, k),
                1 => self.at(rows + 1, k),
                2 => self.at(k, 0),
                _ => self.at(k, columns + 1),
            };
            self.now[at] = cell;
        }
    }

    /// The index of a cell; the rank's own cells are counted from 1.
    fn at(&self, i: usize, j: usize) -> usize {
        i * (self.columns() + 2) + j
    }
}
