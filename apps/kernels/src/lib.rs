//! Kernels of communication, each in Rust here and in C in `c/`, which give the same answers.
//!
//! They are examples of how programs use `storm-mpi`, tests of it in every way to wait and under every
//! policy, and loads for measurements. Check sums do not depend on how the data is divided: but for
//! [`ring`] and [`bsp`], whose data belongs to the ranks, they are the same on any number of ranks.
//! What is printed has no time in it but [`bsp`]'s second line. Deliberately absent: speed, which
//! `benches/` measures.

pub mod answer;
pub mod bsp;
pub mod checksum;
pub mod cli;
pub mod failure;
pub mod fft;
pub mod ring;
pub mod stencil;
