//! Brute force: whether a job fits the free PEs of a small machine, by trying
//! every set of PEs.
//!
//! It knows the definition of a placement and no algorithm: that many PEs, all
//! of them free, on the number of nodes asked for, with blocks that differ by
//! one rank at most.

use crate::{JobRequest, Machine, Pe};

/// The most PEs that the oracle takes: 2^10 sets to try.
pub const MAX_ORACLE_PES: u32 = 10;

/// Whether some set of free PEs (`free[pe]`) is a placement of the job.
///
/// # Panics
/// When the machine has more than [`MAX_ORACLE_PES`] PEs.
#[must_use]
pub fn fits(machine: &Machine, free: &[bool], request: &JobRequest) -> bool {
    assert!(machine.pes() <= MAX_ORACLE_PES, "too many PEs to try every set of them");
    (0..1u32 << machine.pes()).any(|set| is_placement(machine, free, request, set))
}

/// Whether a set of PEs (bit n is PE n) is a placement of the job.
fn is_placement(machine: &Machine, free: &[bool], request: &JobRequest, set: u32) -> bool {
    let has = |pe: &u32| set & (1 << pe) != 0;
    if set.count_ones() != request.procs || request.procs == 0 {
        return false;
    }
    if (0..machine.pes()).filter(has).any(|pe| !free[pe as usize]) {
        return false;
    }
    let blocks: Vec<u32> = machine
        .nodes()
        .iter()
        .map(|node| node.columns().filter(has).count() as u32)
        .filter(|block| *block > 0)
        .collect();
    let longest = blocks.iter().max().copied().unwrap_or(0);
    let shortest = blocks.iter().min().copied().unwrap_or(0);
    request.nodes.is_none_or(|nodes| blocks.len() as u32 == nodes && longest - shortest <= 1)
}

/// For each PE, whether its node takes work and it is not in `taken`.
#[must_use]
pub fn free_pes(machine: &Machine, taken: impl Iterator<Item = Pe>) -> Vec<bool> {
    let mut free: Vec<bool> = (0..machine.pes()).map(|pe| machine.is_usable(Pe(pe))).collect();
    for pe in taken {
        free[pe.0 as usize] = false;
    }
    free
}
