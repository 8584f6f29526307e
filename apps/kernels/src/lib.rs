//! Communication kernels, each in Rust here and in C in `c/`, with the same answers.
//!
//! The kernels are examples of programs that use `storm-mpi`. They test it with every way to wait
//! and every policy, and are loads for measurements. Checksums do not depend on how the data is
//! divided: they are the same on any number of ranks, except for [`ring`] and [`bsp`], whose data
//! belongs to the ranks. The output has no times except [`bsp`]'s second line. The kernels do not
//! measure speed; `benches/` does.

pub mod answer;
pub mod bsp;
pub mod checksum;
pub mod cli;
pub mod failure;
pub mod fft;
pub mod ring;
pub mod stencil;
