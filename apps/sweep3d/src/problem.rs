//! The problem to solve: grid, material, source and boundaries.

use crate::quadrature::SnOrder;

/// The region where particles are born; its strength there is 1 per cm^3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceRegion {
    /// Everywhere.
    Uniform,
    /// In the middle half of each axis.
    Center,
    /// In the lower half of each axis.
    Corner,
}

/// A fixed-source transport problem in one homogeneous material, one energy group.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Cells along i, j and k.
    pub cells: [usize; 3],
    /// Width of a cell along i, j and k, in cm.
    pub widths_cm: [f64; 3],
    /// Total cross-section, per cm.
    pub total_per_cm: f64,
    /// Isotropic scattering cross-section, per cm; less than the total.
    pub scattering_per_cm: f64,
    /// The region of the source.
    pub source: SourceRegion,
    /// Whether the low face of i, j and k reflects; all other faces are open to vacuum.
    pub reflect_low: [bool; 3],
    /// The quadrature set.
    pub order: SnOrder,
}

impl Problem {
    /// Source strength of a cell, per cm^3.
    pub fn source_at(&self, cell: [usize; 3]) -> f64 {
        let inside = |axis: usize| {
            let (n, twice_center) = (self.cells[axis], 2 * cell[axis] + 1);
            match self.source {
                SourceRegion::Uniform => true,
                SourceRegion::Center => 2 * twice_center.abs_diff(n) <= n,
                SourceRegion::Corner => twice_center <= n,
            }
        };
        if (0..3).all(inside) { 1.0 } else { 0.0 }
    }

    /// Volume of a cell, in cm^3.
    pub fn cell_volume_cm3(&self) -> f64 {
        self.widths_cm.iter().product()
    }

    /// Cells in the whole grid.
    pub fn cell_count(&self) -> usize {
        self.cells.iter().product()
    }
}
