//! The number of a process in its job.
//!
//! Ranks are those of one job. `pmi::ProcessMapping` knows the node of a rank.

use std::fmt;

/// A process of a job, counted from 0 (`MPI_Comm_rank`, `PMI_RANK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank as an index into per-rank tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The rank at a table's index.
    ///
    /// Tables are never longer than a job, whose size is a `u32` on the wire, so the index fits.
    pub fn from_index(index: usize) -> Self {
        Rank(index as u32)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
