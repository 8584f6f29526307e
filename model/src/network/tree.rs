//! A k-ary tree of messages in the LogGP model: latency L, overhead o of the processor at each end,
//! gap g between messages and G between bytes.
//!
//! The management node is the root; the nodes hang below it. The hosts' work on the bytes is not
//! modelled here.

use crate::{InputError, MibPerS, NodeCount, Sourced};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most children of a node: the limit of `[network] fan-out` in a cluster's configuration.
pub const MAX_FAN_OUT: u32 = 1024;

/// Children of each node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct FanOut(u32);

impl FanOut {
    /// A chain.
    pub const ONE: FanOut = FanOut(1);

    /// A fan-out of `children`.
    ///
    /// # Errors
    /// No children, or more than [`MAX_FAN_OUT`].
    pub fn new(children: u32) -> Result<FanOut, InputError> {
        match children {
            0 => Err(InputError::NoFanOut),
            1..=MAX_FAN_OUT => Ok(FanOut(children)),
            _ => Err(InputError::FanOutTooLarge { fan_out: children, max: MAX_FAN_OUT }),
        }
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Every fan-out that makes a different tree of `nodes`.
    pub fn candidates(nodes: NodeCount) -> impl Iterator<Item = FanOut> {
        let most = nodes.get().min(u64::from(MAX_FAN_OUT));
        // The bound came from a u32.
        (1..=most as u32).map(FanOut)
    }
}

impl fmt::Display for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Levels of the tree below its root.
pub fn tree_depth(nodes: NodeCount, fan_out: FanOut) -> u64 {
    let children = u64::from(fan_out.get());
    if children == 1 {
        return nodes.get();
    }
    let (mut depth, mut width, mut covered) = (0, 1, 0);
    // The width doubles at least, so this ends after 40 levels.
    while covered < nodes.get() {
        width *= children;
        covered += width;
        depth += 1;
    }
    depth
}

/// LogGP parameters of one link of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tree {
    /// L: the wire and the switches, in us.
    pub latency_us: Sourced,
    /// o: the processor's work to send or to receive a message, in us.
    pub overhead_us: Sourced,
    /// g: between the starts of two messages of one sender, in us.
    pub gap_us: Sourced,
    /// 1/G: bytes that a node sends to all of its children together, in MiB/s.
    pub bandwidth_mib_s: Sourced,
}

impl Tree {
    pub(crate) fn bandwidth(&self) -> MibPerS {
        MibPerS(self.bandwidth_mib_s.value)
    }

    /// A short message from a node to one child, in us.
    pub(crate) fn hop_us(&self) -> f64 {
        self.latency_us.value + 2.0 * self.overhead_us.value
    }

    /// The time between the first and the last of a node's messages to its children, in us.
    pub(crate) fn fan_us(&self, nodes: NodeCount, fan_out: FanOut) -> f64 {
        let between = self.gap_us.value.max(self.overhead_us.value);
        (children(nodes, fan_out) - 1.0) * between
    }

    /// A short message from the root to every node, in us.
    pub(crate) fn sweep_us(&self, nodes: NodeCount, fan_out: FanOut) -> f64 {
        tree_depth(nodes, fan_out) as f64 * (self.hop_us() + self.fan_us(nodes, fan_out))
    }

    /// COMPARE-AND-WRITE: a sweep down the tree and the combined answers up, in us.
    pub(crate) fn conditional_us(&self, nodes: NodeCount, fan_out: FanOut) -> f64 {
        2.0 * self.sweep_us(nodes, fan_out)
    }

    /// A node's time to send a chunk to all of its children, in us. Each child takes the gap, and
    /// every byte is sent once per child.
    pub(crate) fn forward_us(&self, nodes: NodeCount, fan_out: FanOut, chunk_ms: f64) -> f64 {
        self.fan_us(nodes, fan_out)
            + self.overhead_us.value
            + children(nodes, fan_out) * chunk_ms * 1e3
    }
}

/// Children that the busiest node has.
fn children(nodes: NodeCount, fan_out: FanOut) -> f64 {
    f64::from(fan_out.get()).min(nodes.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(nodes: u64, children: u32) -> u64 {
        tree_depth(NodeCount::new(nodes).unwrap(), FanOut::new(children).unwrap())
    }

    #[test]
    fn a_tree_is_as_deep_as_its_nodes_need() {
        assert_eq!((depth(1, 4), depth(4, 4), depth(5, 4), depth(20, 4)), (1, 1, 2, 2));
        assert_eq!((depth(21, 4), depth(7, 1), depth(6, 2), depth(7, 2)), (3, 7, 2, 3));
        assert_eq!(depth(crate::MAX_NODES, 2), 40);
    }

    #[test]
    fn a_fan_out_of_nothing_is_refused() {
        assert_eq!(FanOut::new(0), Err(InputError::NoFanOut));
        assert!(FanOut::new(MAX_FAN_OUT + 1).is_err());
        let three = NodeCount::new(3).unwrap();
        assert_eq!(FanOut::candidates(three).map(FanOut::get).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
