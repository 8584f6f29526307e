//! A block of words travels round the ring of ranks, and every rank changes it.
//!
//! Sends and receives are blocking. A block of up to 16 KiB is sent eagerly, a larger one when its
//! receiver is ready. The same program in C: `c/ring.c`.

use crate::answer::Answer;
use crate::checksum::{mix, term};
use crate::failure::Failure;
use clap::Args;
use storm_mpi::{Communicator, Rank, Tag};

const BLOCK: Tag = Tag(0);

/// The settings.
#[derive(Clone, Copy, Debug, Args)]
pub struct Ring {
    /// Times that the block goes round
    #[arg(default_value_t = 10)]
    pub laps: u32,
    /// The length, in words of 8 bytes
    #[arg(default_value_t = 1000)]
    pub words: usize,
}

impl Ring {
    /// Sends the block round, and compares it with the result of one process alone.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&self, comm: &Communicator) -> Result<Answer, Failure> {
        let (me, size) = (comm.rank().index(), comm.size());
        if size < 2 {
            return Err(Failure::Arguments("a ring takes at least 2 ranks".to_owned()));
        }
        let next = Rank::from_index((me + 1) % size);
        let previous = Rank::from_index((me + size - 1) % size);
        let mut block: Vec<u64> = (0..self.words as u64).collect();
        for _ in 0..self.laps {
            if me == 0 {
                comm.send(&block, next, BLOCK)?;
            }
            comm.recv(&mut block, previous, BLOCK)?;
            change(&mut block, me);
            if me != 0 {
                comm.send(&block, next, BLOCK)?;
            }
        }
        // Only rank 0 has the final block, and only rank 0 prints.
        let text = format!(
            "ring: {size} ranks, {} laps of {} words, check sum {:016x}",
            self.laps,
            self.words,
            sum(&block)
        );
        let right = me != 0 || block == self.alone(size);
        Ok(Answer { text, right: Some(right), times: None })
    }

    /// The block after all laps, without any message.
    fn alone(&self, size: usize) -> Vec<u64> {
        let mut block: Vec<u64> = (0..self.words as u64).collect();
        for _ in 0..self.laps {
            (1..size).for_each(|rank| change(&mut block, rank));
            change(&mut block, 0);
        }
        block
    }
}

/// The change of the block by a rank.
fn change(block: &mut [u64], rank: usize) {
    block.iter_mut().for_each(|word| *word = mix(word.wrapping_add(rank as u64)));
}

fn sum(block: &[u64]) -> u64 {
    (0..).zip(block).fold(0, |sum: u64, (i, &word)| sum.wrapping_add(term(i, word)))
}
