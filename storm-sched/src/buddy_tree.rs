//! Buddy allocation over the columns of one matrix row.
//!
//! A request for n columns is rounded up to 2^k and given a block aligned to
//! 2^k; blocks split and merge as in Knuth's buddy system, and of the blocks
//! that are large enough the smallest is split, the leftmost of those. The
//! tree is complete: a machine whose size is not a power of two has leaves
//! that are missing, and a node that is down has leaves that are not free;
//! both are holes.
//!
//! Fallback: a job that no single block can take gets a union of blocks,
//! largest first, the last one rounded up to 2^k when such a block is free.
//! So any n columns can be had when n are free: 192 of 192 columns are the
//! blocks 0-127 and 128-191.
//!
//! Deliberately absent: which job holds what (that is the row's business).

use std::ops::Range;

/// The free columns of a row as a buddy tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuddyTree {
    /// The tree has 2^height leaves.
    height: u32,
    /// For each vertex (root 1, children 2v and 2v+1) the orders of the
    /// maximal free blocks below it, as a bit set.
    orders: Vec<u32>,
    free: u32,
}

impl BuddyTree {
    /// A tree over `columns` columns (at most [`crate::MAX_PES`]), none free.
    #[must_use]
    pub fn new(columns: u32) -> Self {
        let leaves = columns.max(1).next_power_of_two();
        Self { height: leaves.ilog2(), orders: vec![0; 2 * leaves as usize], free: 0 }
    }

    /// The number of free columns.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether a column is free.
    #[must_use]
    pub fn is_free(&self, column: u32) -> bool {
        self.leaf(column).is_some_and(|leaf| self.orders[leaf] != 0)
    }

    /// The free block of 2^order columns that a request gets, if there is one:
    /// the leftmost part of the smallest block that is large enough.
    #[must_use]
    pub fn find(&self, order: u32) -> Option<Range<u32>> {
        let large_enough = self.orders[1].checked_shr(order)?;
        if large_enough == 0 {
            return None;
        }
        let found = order + large_enough.trailing_zeros();
        let mut vertex = 1;
        for _ in found..self.height {
            let left = 2 * vertex;
            vertex = if self.orders[left] & (1 << found) == 0 { left + 1 } else { left };
        }
        let first_leaf = (vertex as u32) << found;
        let start = first_leaf - (1 << self.height);
        Some(start..start + (1 << order))
    }

    /// The block for `columns` columns, rounded up to a power of two.
    #[must_use]
    pub fn find_block(&self, columns: u32) -> Option<Range<u32>> {
        self.find(order_of(columns))
    }

    /// Takes `columns` columns as a union of blocks, largest first, and
    /// returns them in the order taken; `None`, and nothing is taken, when
    /// fewer are free. The last block is rounded up to a power of two when
    /// such a block is free, unless `exact`.
    pub fn take_pieces(&mut self, columns: u32, exact: bool) -> Option<Vec<Range<u32>>> {
        if columns > self.free {
            return None;
        }
        let mut pieces = Vec::new();
        let mut missing = columns;
        while missing > 0 {
            let piece = match self.find_block(missing) {
                Some(block) if exact => block.start..block.start + missing,
                Some(block) => block,
                // `missing` columns are free, so the tree has a free block,
                // and it is smaller than the one that was not found.
                None => self.find(self.orders[1].ilog2())?,
            };
            missing -= missing.min(piece.end - piece.start);
            self.set(piece.clone(), false);
            pieces.push(piece);
        }
        Some(pieces)
    }

    /// Marks columns free or not; those beyond the tree are ignored.
    pub fn set(&mut self, columns: Range<u32>, free: bool) {
        let columns = columns.start..columns.end.min(1 << self.height);
        if columns.is_empty() {
            return;
        }
        let mut low = (1usize << self.height) + columns.start as usize;
        let mut high = (1usize << self.height) + columns.end as usize - 1;
        for leaf in &mut self.orders[low..=high] {
            self.free = self.free - *leaf + u32::from(free);
            *leaf = u32::from(free);
        }
        for height in 1..=self.height {
            low /= 2;
            high /= 2;
            // Buddies merge when both are free as a whole.
            let whole = 1 << (height - 1);
            for vertex in low..=high {
                let (left, right) = (self.orders[2 * vertex], self.orders[2 * vertex + 1]);
                self.orders[vertex] =
                    if left == whole && right == whole { 1 << height } else { left | right };
            }
        }
    }

    fn leaf(&self, column: u32) -> Option<usize> {
        (column < 1 << self.height).then(|| (1usize << self.height) + column as usize)
    }
}

/// The order k of the smallest block of 2^k columns that holds so many.
fn order_of(columns: u32) -> u32 {
    columns.max(1).checked_next_power_of_two().map_or(u32::BITS, u32::ilog2)
}
