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
/// Rank 0 prints one line with a check sum that depends on the arguments (of ring and bsp also on
/// the number of ranks) and on nothing else; bsp prints its times on a second line. The exit status
/// is 0 when the answer is right, 1 when it is wrong, 2 for wrong arguments.
#[derive(Clone, Copy, Debug, Parser)]
#[command(name = "kernels", version)]
pub enum Kernel {
    /// A block of words goes round the ring of ranks (blocking messages)
    Ring(Ring),
    /// Heat spreads over a square plate (non-blocking exchange of borders)
    Stencil(Stencil),
    /// A two-dimensional Fourier transform, there and back (everybody to everybody)
    Fft(Fft),
    /// Supersteps of computing and exchanging, as even or uneven as they are asked to be
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
