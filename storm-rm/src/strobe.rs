//! Strobes: the orders by which a partition's nodes change the row that runs.

use crate::{PartitionId, Row};
use serde::{Deserialize, Serialize};

/// The strobe of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strobe {
    /// The partition.
    pub partition: PartitionId,
    /// The row that is active from now on.
    pub row: Row,
    /// Counts the strobes of the partition.
    pub number: u64,
    /// The Machine Manager's clock when it was issued, in nanoseconds.
    pub issued_ns: u64,
}

/// A strobe that orders more than its own slice. A node begins the following slices by its own
/// clock, until another strobe arrives. Therefore short slices cost the Machine Manager and the
/// network no more than long slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    /// The strobe, which is obeyed at once.
    pub strobe: Strobe,
    /// The length of each slice in nanoseconds, from the arrival of the strobe on.
    pub quantum_ns: u64,
    /// The rows of the following slices, in order. They count as strobes with the numbers after
    /// that of `strobe`.
    pub following: Vec<Row>,
}

impl Slices {
    /// The strobe that begins the slice `index` places after the first, as if the Machine
    /// Manager had issued it; `None` past the last.
    pub fn strobe_of(&self, index: usize) -> Option<Strobe> {
        let Some(before) = index.checked_sub(1) else { return Some(self.strobe) };
        let row = *self.following.get(before)?;
        let number = self.strobe.number.checked_add(index as u64)?;
        let since_ns = self.quantum_ns.checked_mul(index as u64)?;
        let issued_ns = self.strobe.issued_ns.checked_add(since_ns)?;
        Some(Strobe { row, number, issued_ns, ..self.strobe })
    }

    /// The number of the last of its strobes.
    pub fn last_number(&self) -> u64 {
        self.strobe.number.saturating_add(self.following.len() as u64)
    }
}
