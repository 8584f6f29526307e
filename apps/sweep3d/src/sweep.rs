//! One sweep through all octants: computes the scalar flux and the outflow from the emission
//! density.
//!
//! A sweep takes a block of angles and a block of k-planes at a time. For each block, faces arrive
//! from upstream, cells are solved in the direction of flight, and faces are sent downstream.
//! Blocks follow each other through the process grid as a wavefront (Koch, Baker, Alcouffe 1992).
//! Receives come before sends and all processes take the blocks in the same order, so the sends
//! need no buffering.
//!
//! Face arrays hold a block's inflow and are turned into its outflow in place.

use crate::decomposition::Column;
use crate::exchange::{Exchange, Side};
use crate::octant::Octant;
use crate::problem::Problem;
use crate::quadrature::Angle;
use std::ops::Range;

/// The block sizes of a sweep, for the pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Blocking {
    /// Angles per block.
    pub mmi: usize,
    /// k-planes per block.
    pub mk: usize,
}

/// Particles per second that leave through the open faces of this column, per cell face and in
/// fixed order. `low` and `high` of each axis; indices run as in the flux, without that axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outflow {
    /// `faces[axis][0]` is the low face, `[1]` the high one; empty where the column has none.
    pub faces: [[Vec<f64>; 2]; 3],
}

/// A column's sweeper: geometry, angles and work arrays.
pub struct Sweeper<'p> {
    problem: &'p Problem,
    blocking: Blocking,
    angles: Vec<Angle>,
    /// Cells of the column along i, j and k.
    cells: [usize; 3],
    /// Outflow of the open faces, summed over the sweep.
    outflow: Outflow,
    /// Angular flux at the low reflecting faces: `[axis][octant x angle blocks + block]`.
    mirrors: [Vec<Vec<f64>>; 3],
    /// Cells whose negative fluxes were fixed up, counted per angle.
    fixups: u64,
}

/// The coefficients of a block of angles in an octant.
struct AngleBlock {
    /// `2 |cosine| / width` along i, j and k.
    twice: [Vec<f64>; 3],
    /// `1 / (total + sum of twice)`.
    inverse: Vec<f64>,
    weight: Vec<f64>,
    total: f64,
}

impl<'p> Sweeper<'p> {
    /// A sweeper for a column of the problem.
    pub fn new(problem: &'p Problem, column: &Column, blocking: Blocking) -> Self {
        Sweeper {
            problem,
            blocking,
            angles: problem.order.octant(),
            cells: [column.i.len(), column.j.len(), problem.cells[2]],
            outflow: Outflow::default(),
            mirrors: Default::default(),
            fixups: 0,
        }
    }

    /// Sweeps all octants: `flux` becomes the scalar flux of `emission` (per cm^3). Both are
    /// indexed `(k * nj + j) * ni + i`.
    ///
    /// # Errors
    /// An error of the exchange.
    pub fn sweep<X: Exchange>(
        &mut self,
        emission: &[f64],
        flux: &mut [f64],
        exchange: &mut X,
    ) -> Result<(), X::Error> {
        flux.fill(0.0);
        self.reset(exchange);
        let [ni, nj, nk] = self.cells;
        let angle_blocks = blocks(self.angles.len(), self.blocking.mmi);
        let k_blocks = blocks(nk, self.blocking.mk);
        for octant in Octant::all() {
            for (b, angles) in angle_blocks.iter().enumerate() {
                let mirror = octant.index() * angle_blocks.len() + b;
                let from = |axis| octant.mirrored(axis).index() * angle_blocks.len() + b;
                let block = AngleBlock::new(self.problem, &self.angles[angles.clone()]);
                let m = angles.len();
                let mut face_k = vec![0.0; ni * nj * m];
                self.enter(octant, 2, from(2), 0, &mut face_k);
                for index in octant.along(2, k_blocks.len()) {
                    let k = &k_blocks[index];
                    let mut face_i = vec![0.0; k.len() * nj * m];
                    let mut face_j = vec![0.0; k.len() * ni * m];
                    exchange.receive(Side::of(0, !octant.is_up(0)), &mut face_i)?;
                    exchange.receive(Side::of(1, !octant.is_up(1)), &mut face_j)?;
                    self.enter(octant, 0, from(0), k.start * nj * m, &mut face_i);
                    self.enter(octant, 1, from(1), k.start * ni * m, &mut face_j);
                    let faces = [&mut face_i[..], &mut face_j[..], &mut face_k[..]];
                    self.solve_block(octant, &block, k, faces, emission, flux);
                    exchange.send(Side::of(0, octant.is_up(0)), &face_i)?;
                    exchange.send(Side::of(1, octant.is_up(1)), &face_j)?;
                    self.leave(octant, 0, mirror, k.start * nj, &face_i, &block);
                    self.leave(octant, 1, mirror, k.start * ni, &face_j, &block);
                }
                self.leave(octant, 2, mirror, 0, &face_k, &block);
            }
        }
        Ok(())
    }

    /// The outflow of the last sweep.
    pub fn outflow(&self) -> &Outflow {
        &self.outflow
    }

    /// Fix-ups since the start.
    pub fn fixups(&self) -> u64 {
        self.fixups
    }

    /// Clears the outflow, and makes room for the reflecting faces.
    fn reset(&mut self, exchange: &impl Exchange) {
        let [ni, nj, nk] = self.cells;
        let angle_blocks = self.angles.len().div_ceil(self.blocking.mmi);
        for (axis, face) in [nj * nk, ni * nk, ni * nj].into_iter().enumerate() {
            let bounds = |high| axis == 2 || !exchange.has_neighbour(Side::of(axis, high));
            let reflects = self.problem.reflect_low[axis];
            let open = [bounds(false) && !reflects, bounds(true)];
            self.outflow.faces[axis] = open.map(|open| vec![0.0; if open { face } else { 0 }]);
            let kept = if bounds(false) && reflects { face * self.blocking.mmi } else { 0 };
            self.mirrors[axis].resize(8 * angle_blocks, Vec::new());
            self.mirrors[axis].iter_mut().for_each(|mirror| mirror.resize(kept, 0.0));
        }
    }

    /// Takes the inflow of a reflecting face from the mirrored octant.
    fn enter(&self, octant: Octant, axis: usize, mirror: usize, start: usize, face: &mut [f64]) {
        let kept = &self.mirrors[axis][mirror];
        if octant.is_up(axis) && !kept.is_empty() {
            face.copy_from_slice(&kept[start..start + face.len()]);
        }
    }

    /// Counts the outflow through the grid's boundary, or keeps it for reflection. `start` is the
    /// index of the block's first cell face.
    fn leave(
        &mut self,
        octant: Octant,
        axis: usize,
        mirror: usize,
        start: usize,
        face: &[f64],
        block: &AngleBlock,
    ) {
        let m = block.weight.len();
        let kept = &mut self.mirrors[axis][mirror];
        if !octant.is_up(axis) && !kept.is_empty() {
            kept[start * m..start * m + face.len()].copy_from_slice(face);
            return;
        }
        let open = &mut self.outflow.faces[axis][usize::from(octant.is_up(axis))];
        if open.is_empty() {
            return;
        }
        // |cosine| x area = (2 |cosine| / width) x volume / 2.
        let half_volume = self.problem.cell_volume_cm3() / 2.0;
        for (sum, psi) in open[start..].iter_mut().zip(face.chunks_exact(m)) {
            for (a, psi) in psi.iter().enumerate() {
                *sum += block.weight[a] * (block.twice[axis][a] * half_volume) * psi;
            }
        }
    }

    /// Solves the cells of a block in the direction of flight.
    fn solve_block(
        &mut self,
        octant: Octant,
        block: &AngleBlock,
        k_block: &Range<usize>,
        faces: [&mut [f64]; 3],
        emission: &[f64],
        flux: &mut [f64],
    ) {
        let [ni, nj, _] = self.cells;
        let m = block.weight.len();
        let [face_i, face_j, face_k] = faces;
        for k_in in octant.along(2, k_block.len()) {
            let k = k_block.start + k_in;
            for j in octant.along(1, nj) {
                let psi_i = &mut face_i[(k_in * nj + j) * m..][..m];
                let row_j = &mut face_j[k_in * ni * m..][..ni * m];
                let row_k = &mut face_k[j * ni * m..][..ni * m];
                let row = (k * nj + j) * ni;
                let (emission, flux) = (&emission[row..][..ni], &mut flux[row..][..ni]);
                for i in octant.along(0, ni) {
                    let psi_j = &mut row_j[i * m..][..m];
                    let psi_k = &mut row_k[i * m..][..m];
                    let fixed = block.solve_cell(emission[i], &mut flux[i], psi_i, psi_j, psi_k);
                    self.fixups += u64::from(fixed);
                }
            }
        }
    }
}

impl AngleBlock {
    fn new(problem: &Problem, angles: &[Angle]) -> Self {
        let total = problem.total_per_cm;
        let along = |axis: usize| -> Vec<f64> {
            angles.iter().map(|a| 2.0 * a.cosines[axis] / problem.widths_cm[axis]).collect()
        };
        let twice = [along(0), along(1), along(2)];
        let inverse = (0..angles.len())
            .map(|a| 1.0 / (total + twice[0][a] + twice[1][a] + twice[2][a]))
            .collect();
        AngleBlock { twice, inverse, weight: angles.iter().map(|a| a.weight).collect(), total }
    }

    /// Diamond differences in one cell for all angles of the block; the inflows become outflows.
    /// Returns how many angles needed a fix-up.
    #[inline(always)]
    fn solve_cell(
        &self,
        emission: f64,
        flux: &mut f64,
        psi_i: &mut [f64],
        psi_j: &mut [f64],
        psi_k: &mut [f64],
    ) -> u32 {
        let m = self.weight.len();
        let [ti, tj, tk] = [&self.twice[0][..m], &self.twice[1][..m], &self.twice[2][..m]];
        let (inverse, weight) = (&self.inverse[..m], &self.weight[..m]);
        let (psi_i, psi_j, psi_k) = (&mut psi_i[..m], &mut psi_j[..m], &mut psi_k[..m]);
        let mut sum = *flux;
        let mut fixed = 0;
        for a in 0..m {
            let inflow = [psi_i[a], psi_j[a], psi_k[a]];
            let gain = emission + ti[a] * inflow[0] + tj[a] * inflow[1] + tk[a] * inflow[2];
            let mut center = gain * inverse[a];
            let mut out = inflow.map(|psi| 2.0 * center - psi);
            if out[0] < 0.0 || out[1] < 0.0 || out[2] < 0.0 {
                (center, out) = self.fix_up(a, emission, inflow, out);
                fixed += 1;
            }
            sum += weight[a] * center;
            [psi_i[a], psi_j[a], psi_k[a]] = out;
        }
        *flux = sum;
        fixed
    }

    /// Sets negative outflows to zero and solves the cell's balance again without them, until none
    /// is negative. Each round settles at least one face, so three rounds are enough.
    #[cold]
    fn fix_up(
        &self,
        a: usize,
        emission: f64,
        inflow: [f64; 3],
        mut out: [f64; 3],
    ) -> (f64, [f64; 3]) {
        let mut zeroed = [false; 3];
        let mut center = 0.0;
        for _ in 0..3 {
            let mut gain = emission;
            let mut loss = self.total;
            for axis in 0..3 {
                zeroed[axis] |= out[axis] < 0.0;
                let twice = self.twice[axis][a];
                // Balance across the axis: twice / 2 x (outflow - inflow).
                if zeroed[axis] {
                    gain += 0.5 * twice * inflow[axis];
                } else {
                    gain += twice * inflow[axis];
                    loss += twice;
                }
            }
            center = gain / loss;
            for axis in 0..3 {
                out[axis] = if zeroed[axis] { 0.0 } else { 2.0 * center - inflow[axis] };
            }
            if out.iter().all(|&psi| psi >= 0.0) {
                break;
            }
        }
        (center, out)
    }
}

/// `0..n` in blocks of `size`, the last one perhaps shorter.
fn blocks(n: usize, size: usize) -> Vec<Range<usize>> {
    (0..n).step_by(size).map(|start| start..n.min(start + size)).collect()
}
