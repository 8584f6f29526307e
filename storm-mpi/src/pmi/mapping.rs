//! The node of each rank: the value of `PMI_process_mapping`.
//!
//! `(vector,(first node,nodes,ranks per node),...)`: each block places `ranks per node` consecutive
//! ranks on each of `nodes` consecutive nodes. When the blocks place fewer ranks than the job has,
//! the vector is applied again from its start (MPICH writes cyclic placements in this way).

use crate::rank::Rank;
use std::fmt;
use thiserror::Error;

/// A node of the job, counted from 0 within the job (not the cluster's name of the node).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// Limit of blocks in a mapping: as many as fit a PMI value.
pub const MAX_BLOCKS: usize = 256;
/// Limit of ranks that a mapping is expanded to.
pub const MAX_RANKS: usize = 1 << 20;

/// Why a mapping cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MappingError {
    /// The text is not of the form `(vector,(a,b,c),...)`.
    #[error("process mapping is not of the form (vector,(first node,nodes,ranks per node),...)")]
    Syntax,
    /// There are more than [`MAX_BLOCKS`] blocks.
    #[error("process mapping has more than {MAX_BLOCKS} blocks")]
    TooManyBlocks,
    /// The blocks place no rank at all.
    #[error("process mapping places no rank")]
    Empty,
    /// There are more ranks than [`MAX_RANKS`].
    #[error("a job of {size} ranks is more than a mapping may place ({MAX_RANKS})")]
    TooManyRanks {
        /// Number of ranks asked for.
        size: usize,
    },
}

/// `ranks_per_node` ranks on each of `nodes` nodes from `first_node` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First node of the block.
    pub first_node: NodeIndex,
    /// Number of consecutive nodes.
    pub nodes: u32,
    /// Number of consecutive ranks on each node.
    pub ranks_per_node: u32,
}

/// The parsed mapping. [`fmt::Display`] gives the text back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMapping {
    blocks: Vec<Block>,
}

impl ProcessMapping {
    /// A mapping of these blocks.
    pub fn new(blocks: Vec<Block>) -> Self {
        ProcessMapping { blocks }
    }

    /// The mapping that places ranks as `nodes` does, with one entry per rank.
    pub fn from_nodes(nodes: &[NodeIndex]) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        for run in nodes.chunk_by(|a, b| a == b) {
            let ranks_per_node = run.len() as u32;
            match blocks.last_mut() {
                Some(last)
                    if last.ranks_per_node == ranks_per_node
                        && last.first_node.0.checked_add(last.nodes) == Some(run[0].0) =>
                {
                    last.nodes += 1;
                }
                _ => blocks.push(Block { first_node: run[0], nodes: 1, ranks_per_node }),
            }
        }
        ProcessMapping { blocks }
    }

    /// Parses the value of the key.
    ///
    /// # Errors
    /// [`MappingError::Syntax`] or [`MappingError::TooManyBlocks`].
    pub fn parse(text: &str) -> Result<Self, MappingError> {
        ProcessMapping::parse_within(text, MAX_BLOCKS)
    }

    /// Like [`ProcessMapping::parse`], with any number of blocks, for a text that is not a value of
    /// PMI.
    ///
    /// # Errors
    /// [`MappingError::Syntax`].
    pub fn parse_of_any_length(text: &str) -> Result<Self, MappingError> {
        ProcessMapping::parse_within(text, usize::MAX)
    }

    fn parse_within(text: &str, max_blocks: usize) -> Result<Self, MappingError> {
        let inner = text
            .trim()
            .strip_prefix("(vector")
            .and_then(|t| t.strip_suffix(')'))
            .ok_or(MappingError::Syntax)?;
        let mut blocks = Vec::new();
        let mut rest = inner;
        while !rest.is_empty() {
            if blocks.len() == max_blocks {
                return Err(MappingError::TooManyBlocks);
            }
            let body = rest.strip_prefix(",(").ok_or(MappingError::Syntax)?;
            let (block, tail) = body.split_once(')').ok_or(MappingError::Syntax)?;
            blocks.push(parse_block(block)?);
            rest = tail;
        }
        Ok(ProcessMapping { blocks })
    }

    /// The node of each of `size` ranks.
    ///
    /// # Errors
    /// [`MappingError::Empty`] and [`MappingError::TooManyRanks`].
    pub fn nodes_of_ranks(&self, size: usize) -> Result<Vec<NodeIndex>, MappingError> {
        if size > MAX_RANKS {
            return Err(MappingError::TooManyRanks { size });
        }
        if self.blocks.iter().all(|b| b.nodes == 0 || b.ranks_per_node == 0) {
            return Err(MappingError::Empty);
        }
        let mut nodes = Vec::with_capacity(size);
        while nodes.len() < size {
            for block in &self.blocks {
                block.place(&mut nodes, size);
            }
        }
        Ok(nodes)
    }

    /// The ranks of a job of `size` that share a node with `rank`, in order, `rank` included.
    ///
    /// # Errors
    /// Like [`ProcessMapping::nodes_of_ranks`].
    pub fn local_ranks(&self, rank: Rank, size: usize) -> Result<Vec<Rank>, MappingError> {
        let nodes = self.nodes_of_ranks(size)?;
        let home = nodes.get(rank.index());
        Ok((0..size).filter(|&r| nodes.get(r) == home).map(Rank::from_index).collect())
    }
}

impl fmt::Display for ProcessMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(vector")?;
        for b in &self.blocks {
            write!(f, ",({},{},{})", b.first_node.0, b.nodes, b.ranks_per_node)?;
        }
        f.write_str(")")
    }
}

impl Block {
    fn place(&self, nodes: &mut Vec<NodeIndex>, size: usize) {
        for n in 0..self.nodes {
            if nodes.len() >= size || self.ranks_per_node == 0 {
                return;
            }
            let here = (size - nodes.len()).min(self.ranks_per_node as usize);
            let node = NodeIndex(self.first_node.0.saturating_add(n));
            nodes.extend(std::iter::repeat_n(node, here));
        }
    }
}

fn parse_block(text: &str) -> Result<Block, MappingError> {
    let mut numbers = text.split(',').map(|n| n.trim().parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).ok_or(MappingError::Syntax);
    let block = Block { first_node: NodeIndex(next()?), nodes: next()?, ranks_per_node: next()? };
    match numbers.next() {
        None => Ok(block),
        Some(_) => Err(MappingError::Syntax),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str, size: usize) -> Vec<u32> {
        let mapping = ProcessMapping::parse(text).unwrap();
        mapping.nodes_of_ranks(size).unwrap().into_iter().map(|n| n.0).collect()
    }

    #[test]
    fn one_block_fills_nodes_in_turn() {
        assert_eq!(nodes("(vector,(0,2,2))", 4), [0, 0, 1, 1]);
    }

    #[test]
    fn several_blocks_and_a_cyclic_one() {
        assert_eq!(nodes("(vector,(0,1,3),(4,2,1))", 5), [0, 0, 0, 4, 5]);
        assert_eq!(nodes("(vector,(0,3,1))", 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn from_nodes_round_trips() {
        let placed: Vec<_> = [0, 0, 1, 1, 2, 5, 5, 5].map(NodeIndex).into();
        let mapping = ProcessMapping::from_nodes(&placed);
        let again = ProcessMapping::parse(&mapping.to_string()).unwrap();
        assert_eq!(mapping.to_string(), "(vector,(0,2,2),(2,1,1),(5,1,3))");
        assert_eq!(again.nodes_of_ranks(8).unwrap(), placed);
    }

    #[test]
    fn local_ranks_of_a_cyclic_placement() {
        let mapping = ProcessMapping::parse("(vector,(0,2,1))").unwrap();
        assert_eq!(mapping.local_ranks(Rank(1), 5).unwrap(), [Rank(1), Rank(3)]);
    }

    #[test]
    fn hostile_mappings_give_errors() {
        for text in
            ["", "(vector", "vector)", "(vector,(1,2))", "(vector,(1,2,3,4))", "(vector,(a,1,1))"]
        {
            assert_eq!(ProcessMapping::parse(text), Err(MappingError::Syntax), "{text}");
        }
        let empty = ProcessMapping::parse("(vector,(0,4294967295,0))").unwrap();
        assert_eq!(empty.nodes_of_ranks(4), Err(MappingError::Empty));
        let huge = ProcessMapping::parse("(vector,(4294967295,4294967295,4294967295))").unwrap();
        assert_eq!(huge.nodes_of_ranks(3).unwrap().len(), 3);
    }
}
