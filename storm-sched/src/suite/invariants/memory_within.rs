//! Memory is never overcommitted. On each node, the jobs of all rows, stopped or not, have no more
//! than the node has (A3).

use super::{Invariant, Violation};
use crate::NodeIndex;
use crate::suite::{Step, oracle};

/// The memory of no node is overcommitted.
#[derive(Debug)]
pub struct MemoryWithin;

#[derive(Debug, thiserror::Error)]
#[error("the jobs on node {node} have {held_bytes} B of its {bytes} B of memory")]
struct Overcommitted {
    node: NodeIndex,
    held_bytes: u64,
    bytes: u64,
}

impl Invariant for MemoryWithin {
    fn name(&self) -> &'static str {
        "the memory of no node is overcommitted"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let held = oracle::held_bytes(step.after);
        let nodes = (0..).map(NodeIndex).zip(step.after.machine.nodes()).zip(held);
        for ((node, of_node), held_bytes) in nodes {
            if let Some(bytes) = of_node.memory_bytes().filter(|all| held_bytes > *all) {
                return Err(Overcommitted { node, held_bytes, bytes }.into());
            }
        }
        Ok(())
    }
}
