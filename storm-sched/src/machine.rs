//! The partition that a policy schedules: its nodes in order, the processing elements (PEs) of
//! each, and which nodes take work.
//!
//! Columns of the Ousterhout matrix are PEs numbered node by node, so neighbouring columns usually
//! share a node. The Machine Manager, not this module, decides about jobs on a dead node.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{NodeIndex, Pe};

/// The most PEs of one partition: 2^24, 1,024 times the number of nodes of the paper's largest
/// machine (16,384). The number limits the memory of a matrix row.
pub const MAX_PES: u32 = 1 << 24;

/// Whether a node takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// The node takes jobs.
    #[default]
    Up,
    /// The node takes no new job. The jobs that run there may finish.
    Drained,
    /// The node is dead or unreachable.
    Down,
    /// The node takes no job now, and is expected back. Plans count it as up.
    Away,
}

/// The properties of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node's name.
    pub name: String,
    /// The node's processing elements, at least one.
    pub pes: u32,
    /// The memory that jobs may have on the node, in bytes. `None` if it is not counted.
    pub memory_bytes: Option<u64>,
    /// The node's features, for [`crate::Constraint`]s.
    pub features: Vec<String>,
}

impl NodeSpec {
    /// Returns a node with this many PEs, without features. Its memory is not counted.
    #[must_use]
    pub fn new(name: impl Into<String>, pes: u32) -> Self {
        Self { name: name.into(), pes, memory_bytes: None, features: Vec::new() }
    }

    /// The same node with that much memory, in bytes.
    #[must_use]
    pub fn with_memory(self, memory_bytes: u64) -> Self {
        Self { memory_bytes: Some(memory_bytes), ..self }
    }

    /// The same node with these features.
    #[must_use]
    pub fn with_features<F: Into<String>>(self, features: impl IntoIterator<Item = F>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect(), ..self }
    }
}

/// One node of the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    name: Arc<str>,
    first: Pe,
    pes: u32,
    memory_bytes: Option<u64>,
    features: Arc<[String]>,
    state: NodeState,
}

impl Node {
    /// The node's name, as users know it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of PEs of the node.
    #[must_use]
    pub fn pes(&self) -> u32 {
        self.pes
    }

    /// The memory that jobs may have on the node, in bytes. `None` if it is not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    /// The features of the node.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// The columns of the node.
    #[must_use]
    pub fn columns(&self) -> Range<u32> {
        self.first.0..self.first.0 + self.pes
    }

    /// Whether the node takes new work.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// Whether plans count the node: it takes new work, or is expected back.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        match self.state {
            NodeState::Up | NodeState::Away => true,
            NodeState::Drained | NodeState::Down => false,
        }
    }
}

/// The reason why a list of nodes is not a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// There is no node.
    #[error("the partition has no nodes: name at least one")]
    NoNodes,
    /// A node has no PEs, so it could never run anything.
    #[error("node {name} has no PEs: give it at least one, or leave it out")]
    NoPes {
        /// The node.
        name: String,
    },
    /// The nodes have more than [`MAX_PES`] PEs.
    #[error("the partition has more than {MAX_PES} PEs: split it into several")]
    TooManyPes,
}

/// The nodes of a partition in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    nodes: Vec<Node>,
    node_of: Vec<NodeIndex>,
    usable_pes: u32,
    away_pes: u32,
}

impl Machine {
    /// Returns a machine of these nodes (name, PEs) in this order. All of them are up, without
    /// features, and their memory is not counted.
    ///
    /// # Errors
    /// No node, a node without PEs, or more than [`MAX_PES`] PEs in all.
    pub fn new<N: Into<String>>(
        nodes: impl IntoIterator<Item = (N, u32)>,
    ) -> Result<Self, MachineError> {
        Self::of_nodes(nodes.into_iter().map(|(name, pes)| NodeSpec::new(name, pes)))
    }

    /// Returns a machine of these nodes in this order, all of them up.
    ///
    /// # Errors
    /// As for [`Machine::new`].
    pub fn of_nodes(nodes: impl IntoIterator<Item = NodeSpec>) -> Result<Self, MachineError> {
        let mut machine =
            Self { nodes: Vec::new(), node_of: Vec::new(), usable_pes: 0, away_pes: 0 };
        for (index, spec) in (0..).map(NodeIndex).zip(nodes) {
            let NodeSpec { name, pes, memory_bytes, features } = spec;
            if pes == 0 {
                return Err(MachineError::NoPes { name });
            }
            let first = machine.pes();
            if pes > MAX_PES - first {
                return Err(MachineError::TooManyPes);
            }
            machine.nodes.push(Node {
                name: name.into(),
                first: Pe(first),
                pes,
                memory_bytes,
                features: features.into(),
                state: NodeState::Up,
            });
            machine.node_of.resize((first + pes) as usize, index);
            machine.usable_pes += pes;
        }
        if machine.nodes.is_empty() { Err(MachineError::NoNodes) } else { Ok(machine) }
    }

    /// Returns a machine of `nodes` nodes with `pes_per_node` PEs each, named `n1`, `n2`, ...
    ///
    /// # Errors
    /// As for [`Machine::new`].
    pub fn uniform(nodes: u32, pes_per_node: u32) -> Result<Self, MachineError> {
        Self::new((1..=nodes).map(|number| (format!("n{number}"), pes_per_node)))
    }

    /// All nodes in order, in any state.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at an index, if there is one.
    #[must_use]
    pub fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index.0 as usize)
    }

    /// The node of a PE, if there is such a PE.
    #[must_use]
    pub fn node_of(&self, pe: Pe) -> Option<NodeIndex> {
        self.node_of.get(pe.0 as usize).copied()
    }

    /// The number of PEs, on nodes in any state.
    #[must_use]
    pub fn pes(&self) -> u32 {
        // `new` keeps the table within MAX_PES entries.
        self.node_of.len() as u32
    }

    /// The number of PEs on nodes that take new work.
    #[must_use]
    pub fn usable_pes(&self) -> u32 {
        self.usable_pes
    }

    /// The number of PEs on nodes that take new work, or are expected back.
    #[must_use]
    pub fn expected_pes(&self) -> u32 {
        self.usable_pes + self.away_pes
    }

    /// Whether any node is away.
    #[must_use]
    pub fn has_away(&self) -> bool {
        self.away_pes > 0
    }

    /// The nodes that are expected back.
    pub fn away(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let nodes = (0..).map(NodeIndex).zip(&self.nodes);
        let away = nodes.filter(|(_, node)| node.state == NodeState::Away);
        away.map(|(index, _)| index)
    }

    /// Whether a PE exists and its node takes new work, or is expected back.
    #[must_use]
    pub fn is_expected(&self, pe: Pe) -> bool {
        self.node_of(pe).and_then(|index| self.node(index)).is_some_and(Node::is_expected)
    }

    /// Whether a PE exists and its node takes new work.
    #[must_use]
    pub fn is_usable(&self, pe: Pe) -> bool {
        self.node_of(pe)
            .and_then(|index| self.node(index))
            .is_some_and(|node| node.state == NodeState::Up)
    }

    /// Sets the memory of a node in bytes, or `None` to leave it uncounted. Does nothing if the
    /// node does not exist.
    pub fn set_memory(&mut self, index: NodeIndex, memory_bytes: Option<u64>) {
        if let Some(node) = self.nodes.get_mut(index.0 as usize) {
            node.memory_bytes = memory_bytes;
        }
    }

    /// Reserves this number of bytes on each node whose memory is counted. Jobs cannot have them.
    pub fn reserve_memory(&mut self, reserve_bytes: u64) {
        for node in &mut self.nodes {
            node.memory_bytes = node.memory_bytes.map(|all| all.saturating_sub(reserve_bytes));
        }
    }

    /// Sets the state of a node and returns the state before, or `None` when there is no such node.
    pub fn set_state(&mut self, index: NodeIndex, state: NodeState) -> Option<NodeState> {
        let node = self.nodes.get_mut(index.0 as usize)?;
        let before = std::mem::replace(&mut node.state, state);
        match before {
            NodeState::Up => self.usable_pes -= node.pes,
            NodeState::Away => self.away_pes -= node.pes,
            NodeState::Drained | NodeState::Down => {}
        }
        match state {
            NodeState::Up => self.usable_pes += node.pes,
            NodeState::Away => self.away_pes += node.pes,
            NodeState::Drained | NodeState::Down => {}
        }
        Some(before)
    }
}
