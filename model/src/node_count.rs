//! The number of nodes of a machine: at least one.

use crate::InputError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most nodes: far more than where the paper's curves cross (17 billion), and few enough for a
/// float to distinguish neighbouring numbers.
pub const MAX_NODES: u64 = 1 << 40;

/// The number of nodes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u64", try_from = "u64")]
pub struct NodeCount(u64);

impl NodeCount {
    /// One node.
    pub const ONE: NodeCount = NodeCount(1);
    /// The most that there can be.
    pub const LARGEST: NodeCount = NodeCount(MAX_NODES);

    /// `nodes` nodes.
    ///
    /// # Errors
    /// None, or more than [`MAX_NODES`].
    pub fn new(nodes: u64) -> Result<NodeCount, InputError> {
        match nodes {
            0 => Err(InputError::NoNodes),
            1..=MAX_NODES => Ok(NodeCount(nodes)),
            _ => Err(InputError::TooManyNodes { nodes, max: MAX_NODES }),
        }
    }

    /// 2 to the power of `exponent`, at most [`MAX_NODES`].
    pub fn power_of_2(exponent: u32) -> NodeCount {
        NodeCount(1u64.checked_shl(exponent).unwrap_or(MAX_NODES).clamp(1, MAX_NODES))
    }

    /// Nodes of a quaternary fat tree of `stages` stages.
    pub fn power_of_4(stages: u32) -> NodeCount {
        NodeCount::power_of_2(stages.saturating_mul(2))
    }

    /// A number about halfway between the two; `None` if no number lies between them.
    pub fn between(self, above: NodeCount) -> Option<NodeCount> {
        let middle = self.0.midpoint(above.0);
        (self.0 < middle && middle < above.0).then_some(NodeCount(middle))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number, exactly.
    pub fn as_f64(self) -> f64 {
        // A float represents every integer up to 2^40 exactly.
        self.0 as f64
    }

    /// The paper's `lg`: the logarithm to the base 2.
    pub fn log2(self) -> f64 {
        self.as_f64().log2()
    }
}

impl From<NodeCount> for u64 {
    fn from(nodes: NodeCount) -> u64 {
        nodes.0
    }
}

impl TryFrom<u64> for NodeCount {
    type Error = InputError;

    fn try_from(nodes: u64) -> Result<NodeCount, InputError> {
        NodeCount::new(nodes)
    }
}

impl fmt::Display for NodeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_at_least_one_node_and_at_most_the_bound() {
        assert_eq!(NodeCount::new(0), Err(InputError::NoNodes));
        assert_eq!(NodeCount::new(1), Ok(NodeCount::ONE));
        assert!(NodeCount::new(MAX_NODES).is_ok());
        let error = NodeCount::new(MAX_NODES + 1).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        assert!(error.hint().contains(&MAX_NODES.to_string()));
    }
}
