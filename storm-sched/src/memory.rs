//! Memory as the scheduler counts it: in bytes, per node.
//!
//! The scheduler only counts. The Node Manager enforces the limit on the node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The memory that a job asks for on each of its nodes, regardless of how many processes it has
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeMemory {
    /// No demand: no memory is counted for the job.
    #[default]
    Unstated,
    /// Bytes on each node (Slurm `--mem`).
    Bytes(u64),
    /// All memory of the node (Slurm `--mem 0`). If the node's memory is not counted, this is
    /// nothing.
    Whole,
}

impl NodeMemory {
    /// The demand on a node with that much memory, in bytes; `None` if its memory is not counted.
    #[must_use]
    pub fn on_node_bytes(self, node_bytes: Option<u64>) -> u64 {
        match self {
            Self::Unstated => 0,
            Self::Bytes(bytes) => bytes,
            Self::Whole => node_bytes.unwrap_or(0),
        }
    }
}

/// A size in bytes as users write it, in the largest unit that divides it: `64 GiB`, `1536 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize(pub u64);

/// The units, largest first.
const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let divides = |(shift, _): &&(u32, &str)| bytes != 0 && bytes.trailing_zeros() >= *shift;
        match UNITS.iter().find(divides) {
            Some((shift, unit)) => write!(f, "{} {unit}", bytes >> shift),
            None => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_memory_of_a_node_is_its_size() {
        assert_eq!(NodeMemory::Whole.on_node_bytes(Some(7)), 7);
        assert_eq!(NodeMemory::Whole.on_node_bytes(None), 0);
        assert_eq!(NodeMemory::Bytes(3).on_node_bytes(None), 3);
        assert_eq!(NodeMemory::Unstated.on_node_bytes(Some(7)), 0);
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_divides_them() {
        let written = [0, 1, 1536 << 20, 64 << 30, 2 << 40, 5 << 10, u64::MAX]
            .map(|bytes| MemorySize(bytes).to_string());
        let expected =
            ["0 B", "1 B", "1536 MiB", "64 GiB", "2 TiB", "5 KiB", "18446744073709551615 B"];
        assert_eq!(written, expected);
    }
}
