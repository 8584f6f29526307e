//! A discrete-ordinates (Sn) particle-transport kernel with a wavefront sweep: the application of
//! the paper's gang-scheduling experiments (section 4.3).
//!
//! The method is that of K. R. Koch, R. S. Baker, R. E. Alcouffe, "Solution of the first-order form
//! of the 3-D discrete ordinates equation on a massively parallel processor", Trans. Am. Nucl. Soc.
//! 65 (1992) 198. A Cartesian grid is cut into columns over a two-dimensional grid of processes.
//! Eight octants, blocks of angles and blocks of k-planes are pipelined along the wavefront. The
//! scheme has diamond differences with fix-up of negative fluxes, isotropic scattering, and source
//! iteration.
//!
//! The scalar flux has the same bits on every process grid: each cell's arithmetic, and the order
//! in which its angles are added, do not depend on the process. Deliberately absent: energy groups,
//! anisotropic scattering, time dependence, acceleration of the source iteration.

pub mod answer;
pub mod cli;
pub mod compensated_sum;
pub mod decomposition;
pub mod exchange;
pub mod octant;
pub mod problem;
pub mod quadrature;
pub mod report;
pub mod solver;
pub mod sweep;
