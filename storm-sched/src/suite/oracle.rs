//! Brute force: whether a job fits the free PEs of a small machine, by trying every set of PEs.
//!
//! The oracle knows the definition of a placement and no algorithm. A placement has the right
//! number of PEs, all of them free, and whole processes on each node. It has the requested number
//! of nodes, with blocks that differ by at most one process. Every node meets the job's demands.
//! All required nodes have a process, and no excluded node has one.

use crate::suite::{Running, World};
use crate::{JobRequest, Machine, Node, NodeIndex, Pe};

/// The most PEs that the oracle takes: 2^10 sets to try.
pub const MAX_ORACLE_PES: u32 = 10;

/// Whether some set of free PEs (`free[pe]`) is a placement of the job, on nodes with all their
/// memory free.
///
/// # Panics
/// When the machine has more than [`MAX_ORACLE_PES`] PEs.
#[must_use]
pub fn fits(machine: &Machine, free: &[bool], request: &JobRequest) -> bool {
    fits_beside(machine, free, &vec![0; machine.nodes().len()], request)
}

/// Does the same as [`fits`] when jobs hold the given bytes of each node's memory.
///
/// # Panics
/// When the machine has more than [`MAX_ORACLE_PES`] PEs.
#[must_use]
pub fn fits_beside(
    machine: &Machine,
    free: &[bool],
    held_bytes: &[u64],
    request: &JobRequest,
) -> bool {
    assert!(machine.pes() <= MAX_ORACLE_PES, "too many PEs to try every set of them");
    (0..1u32 << machine.pes()).any(|set| is_placement(machine, free, held_bytes, request, set))
}

/// The memory that jobs hold on each node, over all rows, in bytes.
#[must_use]
pub fn held_bytes(world: &World) -> Vec<u64> {
    let nodes = (0..).map(NodeIndex).zip(world.machine.nodes());
    let held = |(index, node): (NodeIndex, &Node)| {
        let of_job = |running: &Running| {
            let share = running.placement.share_of(index)?;
            Some(running.request.memory_on_bytes(node, share.ranks))
        };
        world.running.values().chain(world.suspended.values()).filter_map(of_job).sum()
    };
    nodes.map(held).collect()
}

/// The PEs that a job keeps from the other jobs of its row. If the job has its nodes for itself,
/// these are all their PEs.
#[must_use]
pub fn held_pes(machine: &Machine, running: &Running) -> Vec<Pe> {
    if !running.request.exclusive {
        return running.placement.pes().to_vec();
    }
    let nodes = running.placement.nodes().filter_map(|node| machine.node(node));
    nodes.flat_map(Node::columns).map(Pe).collect()
}

/// Whether a set of PEs (bit n is PE n) is a placement of the job.
fn is_placement(
    machine: &Machine,
    free: &[bool],
    held_bytes: &[u64],
    request: &JobRequest,
    set: u32,
) -> bool {
    let has = |pe: &u32| set & (1 << pe) != 0;
    let of_each = request.pes_per_proc;
    if of_each == 0 || request.procs == 0 || set.count_ones() != request.procs * of_each {
        return false;
    }
    let mut blocks: Vec<u32> = Vec::new();
    for (node, held) in machine.nodes().iter().zip(held_bytes) {
        let pes = node.columns().filter(has).count() as u32;
        let choice = request.choice.as_deref();
        let is_in = |names: &std::collections::BTreeSet<String>| names.contains(node.name());
        if choice
            .is_some_and(|choice| is_in(if pes == 0 { &choice.required } else { &choice.excluded }))
        {
            return false;
        }
        if pes == 0 {
            continue;
        }
        let procs = pes / of_each;
        let needed: Vec<u32> = node.columns().filter(|pe| has(pe) || request.exclusive).collect();
        let memory = held.saturating_add(request.memory_on_bytes(node, procs));
        let suits = pes.is_multiple_of(of_each)
            && needed.iter().all(|pe| free[*pe as usize])
            && request.constraint.as_ref().is_none_or(|c| c.is_met_by(node.features()))
            && request.procs_per_node.is_none_or(|most| procs <= most)
            && (!request.asks_for_memory() || node.memory_bytes().is_none_or(|all| memory <= all));
        if !suits {
            return false;
        }
        blocks.push(procs);
    }
    let longest = blocks.iter().max().copied().unwrap_or(0);
    let shortest = blocks.iter().min().copied().unwrap_or(0);
    request.nodes.is_none_or(|nodes| blocks.len() as u32 == nodes && longest - shortest <= 1)
}

/// For each PE, whether its node takes work and it is not in `taken`.
#[must_use]
pub fn free_pes(machine: &Machine, taken: impl Iterator<Item = Pe>) -> Vec<bool> {
    free_of((0..machine.pes()).map(|pe| machine.is_usable(Pe(pe))).collect(), taken)
}

/// For each PE, whether it is among `free` and not in `taken`.
#[must_use]
pub fn free_of(mut free: Vec<bool>, taken: impl Iterator<Item = Pe>) -> Vec<bool> {
    for pe in taken {
        free[pe.0 as usize] = false;
    }
    free
}
