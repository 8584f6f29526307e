//! The command line.

use crate::answer::Answer;
use crate::bsp::Bsp;
use crate::failure::Failure;
use crate::fft::Fft;
use crate::ring::Ring;
use crate::stencil::Stencil;
use clap::Parser;
use storm_mpi::Communicator;

/// Communication kernels: a ring, a stencil, an FFT, and bulk-synchronous supersteps.
///
/// Rank 0 prints one line with a checksum. The checksum depends only on the arguments; for ring and
/// bsp also on the number of ranks. Bsp prints its times on a second line. The exit status is 0 if
/// the answer is right, 1 if it is wrong, 2 for wrong arguments.
#[derive(Clone, Copy, Debug, Parser)]
#[command(name = "kernels", version)]
pub enum Kernel {
    /// A block of words goes round the ring of ranks (blocking messages)
    Ring(Ring),
    /// Heat spreads over a square plate (non-blocking exchange of borders)
    Stencil(Stencil),
    /// A two-dimensional Fourier transform and its inverse (all to all)
    Fft(Fft),
    /// Supersteps of computing and exchanging, with a given unevenness
    Bsp(Bsp),
}

impl Kernel {
    /// Runs it on all ranks of `comm`.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&self, comm: &Communicator) -> Result<Answer, Failure> {
        match self {
            Kernel::Ring(ring) => ring.run(comm),
            Kernel::Stencil(stencil) => stencil.run(comm),
            Kernel::Fft(fft) => fft.run(comm),
            Kernel::Bsp(bsp) => bsp.run(comm),
        }
    }
}
