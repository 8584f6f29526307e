//! Buddy allocation over the columns of one matrix row.
//!
//! A request for n columns is rounded up to 2^k and gets a block aligned to 2^k. Blocks split and
//! merge as in Knuth's buddy system: the leftmost of the smallest sufficient blocks is split. The
//! tree is complete. If the number of PEs is not a power of two, the missing leaves are holes. If a
//! node is down, its leaves are holes, too.
//!
//! Fallback: a job that fits no single block gets several blocks, largest first. The last block is
//! rounded up to 2^k if such a block is free. So a job of n columns is placed whenever n columns
//! are free: a job of 192 columns gets the blocks 0-127 and 128-191.
//!
//! The tree does not know the holders of columns. The row does.

use std::ops::Range;

/// The side from which columns are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The lowest first.
    Left,
    /// The highest first.
    Right,
}

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
    /// Returns a tree over `columns` columns (at most [`crate::MAX_PES`]), none of them free.
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

    /// Whether an aligned block of 2^k columns is free.
    #[must_use]
    pub fn is_block_free(&self, block: Range<u32>) -> bool {
        let size = block.end.saturating_sub(block.start);
        let aligned = size.is_power_of_two() && block.start.is_multiple_of(size);
        if !aligned || block.end > 1 << self.height {
            return false;
        }
        let vertex = ((1usize << self.height) + block.start as usize) >> size.ilog2();
        self.orders[vertex] == size
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

    /// Takes `columns` columns as a union of blocks, largest first, and returns them in the order
    /// taken. Returns `None` and takes nothing when fewer are free. Unless `exact` is set, the last
    /// block is rounded up to a power of two when such a block is free.
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
                // `missing` columns are free, so the tree has a free block, smaller than the one
                // that was not found.
                None => self.find(self.orders[1].ilog2())?,
            };
            missing -= missing.min(piece.end - piece.start);
            self.set(piece.clone(), false);
            pieces.push(piece);
        }
        Some(pieces)
    }

    /// The first `columns` free columns from one side, in maximal free blocks. `None` when fewer
    /// are free.
    #[must_use]
    pub fn outermost(&self, columns: u32, side: Side) -> Option<Vec<Range<u32>>> {
        if columns > self.free {
            return None;
        }
        let mut found = Vec::new();
        let mut missing = columns;
        // The vertices that are still to be searched, the outermost last.
        let mut open = vec![(1, self.height)];
        while missing > 0 {
            // At least as many columns are free as are missing, so one of the vertices contains a
            // free column.
            let (vertex, height) = open.pop()?;
            if self.orders[vertex] == 0 {
                continue;
            }
            if self.orders[vertex] != 1 << height {
                let (left, right) = ((2 * vertex, height - 1), (2 * vertex + 1, height - 1));
                open.extend(match side {
                    Side::Left => [right, left],
                    Side::Right => [left, right],
                });
                continue;
            }
            let start = ((vertex as u32) << height) - (1 << self.height);
            let end = start + (1 << height);
            let take = missing.min(end - start);
            missing -= take;
            found.push(match side {
                Side::Left => start..start + take,
                Side::Right => end - take..end,
            });
        }
        Some(found)
    }

    /// Marks columns as free or not. Columns beyond the tree are ignored.
    pub fn set(&mut self, columns: Range<u32>, free: bool) {
        let columns = columns.start..columns.end.min(1 << self.height);
        if columns.is_empty() {
            return;
        }
        let mut low = (1usize << self.height) + columns.start as usize;
        let mut high = (1usize << self.height) + columns.end as usize - 1;
        let leaf = u32::from(free);
        let leaves = &mut self.orders[low..=high];
        self.free -= leaves.iter().sum::<u32>();
        self.free += leaf * (columns.end - columns.start);
        leaves.fill(leaf);
        for height in 1..=self.height {
            (low, high) = (low / 2, high / 2);
            // The vertices between `low` and `high` cover only leaves that were set.
            if high - low > 1 {
                self.orders[low + 1..high].fill(leaf << height);
            }
            let changed = self.merge(low, height);
            if low != high {
                self.merge(high, height);
            } else if !changed {
                return;
            }
        }
    }

    /// Computes the free blocks below a vertex of the given height from its children. Returns
    /// whether they changed.
    fn merge(&mut self, vertex: usize, height: u32) -> bool {
        let (left, right) = (self.orders[2 * vertex], self.orders[2 * vertex + 1]);
        // Buddies merge when both are free as a whole.
        let whole = 1 << (height - 1);
        let orders = if left & right & whole != 0 { 1 << height } else { left | right };
        std::mem::replace(&mut self.orders[vertex], orders) != orders
    }

    fn leaf(&self, column: u32) -> Option<usize> {
        (column < 1 << self.height).then(|| (1usize << self.height) + column as usize)
    }
}

/// The order k of the smallest block of 2^k columns that is large enough.
fn order_of(columns: u32) -> u32 {
    columns.max(1).checked_next_power_of_two().map_or(u32::BITS, u32::ilog2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_free(columns: u32) -> BuddyTree {
        let mut tree = BuddyTree::new(columns);
        tree.set(0..columns, true);
        tree
    }

    #[test]
    fn the_leftmost_of_the_smallest_sufficient_blocks_is_split() {
        let mut tree = all_free(16);
        tree.set(8..10, false);
        // Free: 0-7, 10-11, 12-15.
        assert_eq!(tree.find(1), Some(10..12));
        assert_eq!(tree.find(2), Some(12..16));
        assert_eq!(tree.find(0), Some(10..11));
        assert_eq!(tree.find(3), Some(0..8));
        assert_eq!(tree.find(4), None);
    }

    #[test]
    fn buddies_merge_and_neighbours_that_are_no_buddies_do_not() {
        let mut tree = all_free(8);
        tree.set(0..8, false);
        tree.set(2..6, true);
        assert_eq!(tree.find(2), None, "2-5 is not aligned to 4");
        tree.set(0..2, true);
        assert_eq!(tree.find(2), Some(0..4));
        tree.set(6..8, true);
        assert_eq!(tree.find(3), Some(0..8));
    }

    #[test]
    fn a_row_of_odd_size_can_be_taken_whole() {
        let mut tree = all_free(192);
        assert_eq!(tree.find_block(192), None, "256 columns do not exist");
        assert_eq!(tree.take_pieces(192, false), Some(vec![0..128, 128..192]));
        assert_eq!(tree.free(), 0);
        assert_eq!(tree.take_pieces(1, false), None);
    }

    #[test]
    fn pieces_are_rounded_up_unless_exact() {
        let taken = |exact| {
            let pieces = all_free(8).take_pieces(3, exact).unwrap();
            pieces.into_iter().flatten().collect::<Vec<u32>>()
        };
        assert_eq!(taken(false), [0, 1, 2, 3]);
        assert_eq!(taken(true), [0, 1, 2]);
    }

    #[test]
    fn a_request_beyond_any_tree_finds_nothing() {
        assert_eq!(all_free(8).find(31), None);
        assert_eq!(all_free(8).find(32), None);
        assert_eq!(all_free(8).find_block(u32::MAX), None);
        assert_eq!(all_free(8).take_pieces(u32::MAX, false), None);
    }

    /// The aligned free block by brute force that `find` must return.
    fn expected(free: &[bool], order: u32) -> Option<Range<u32>> {
        let leaves = free.len().next_power_of_two() as u32;
        let is_free = |block: &Range<u32>| {
            block.clone().all(|column| free.get(column as usize).copied().unwrap_or(false))
        };
        let blocks = |order: u32| {
            let size = 1 << order;
            (0..leaves / size).map(move |index| index * size..(index + 1) * size)
        };
        // The leftmost of the maximal blocks, among those of the smallest order.
        (order..=leaves.ilog2()).find_map(|order_found| {
            let maximal = |block: &Range<u32>| {
                let size = block.end - block.start;
                let parent = block.start / (2 * size) * (2 * size);
                is_free(block) && (size == leaves || !is_free(&(parent..parent + 2 * size)))
            };
            let block = blocks(order_found).find(maximal)?;
            Some(block.start..block.start + (1 << order))
        })
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_brute_force_finds(
            columns in 1..70u32,
            changes in prop::collection::vec((0..70u32, 1..40u32, any::<bool>()), 0..30),
        ) {
            let mut tree = all_free(columns);
            let mut free = vec![true; columns as usize];
            for (start, length, state) in changes {
                let range = start.min(columns)..(start + length).min(columns);
                tree.set(range.clone(), state);
                free[range.start as usize..range.end as usize].fill(state);
                let count = free.iter().filter(|free| **free).count() as u32;
                prop_assert_eq!(tree.free(), count);
                for order in 0..8 {
                    prop_assert_eq!(tree.find(order), expected(&free, order), "order {}", order);
                }
                for column in 0..columns {
                    prop_assert_eq!(tree.is_free(column), free[column as usize]);
                }
            }
        }

        #[test]
        fn pieces_are_free_disjoint_and_enough_whenever_enough_are_free(
            free in prop::collection::vec(any::<bool>(), 1..100),
            wanted in 1..100u32,
            exact in any::<bool>(),
        ) {
            let mut tree = BuddyTree::new(free.len() as u32);
            for (column, _) in free.iter().enumerate().filter(|(_, free)| **free) {
                tree.set(column as u32..column as u32 + 1, true);
            }
            let available = tree.free();
            let before = tree.clone();
            let Some(pieces) = tree.take_pieces(wanted, exact) else {
                prop_assert!(available < wanted);
                prop_assert_eq!(tree, before);
                return Ok(());
            };
            let mut taken: Vec<u32> = pieces.into_iter().flatten().collect();
            let count = taken.len() as u32;
            prop_assert!(taken.iter().all(|column| free[*column as usize]));
            prop_assert_eq!(tree.free(), available - count);
            let most = if exact { wanted } else { 2 * wanted - 1 };
            prop_assert!((wanted..=most).contains(&count));
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len() as u32, count);
        }
    }
}
