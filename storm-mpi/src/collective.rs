//! Collectives, built from point-to-point messages of their own context.
//!
//! One binomial tree over all ranks, rooted at rank 0 (at the root for broadcast): the children of
//! relative rank `r` are `r + 1, r + 2, r + 4, ...`. With ranks placed in blocks its lower levels
//! stay inside nodes, and it costs `2 (n - 1)` messages where a dissemination barrier costs
//! `n log n`: on nodes with more ranks than processors the number of messages is the time.
//! Reductions combine children in a fixed order, whatever the order of arrival, so that results are
//! the same bits in every run with the same number of ranks.

use crate::datatype::{Datatype, ReduceOp, Reducible};
use crate::envelope::{Context, Pattern, Source, Tag, TagPattern};
use crate::error::CommError;
use crate::rank::Rank;
use crate::world::World;

/// Tags of the collectives' messages. Successive collectives of one kind cannot mix: messages of a
/// pair do not overtake, and all ranks call collectives in the same order.
#[derive(Clone, Copy)]
enum Step {
    Gather,
    Release,
    Broadcast,
    Reduce,
    ToRoot,
}

impl World {
    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn barrier(&self) -> Result<(), CommError> {
        let nothing: &mut [u8] = &mut [];
        let tree = Tree::new(self.rank(), self.size(), Rank(0));
        let outcome = (|| {
            for child in tree.children() {
                self.take(nothing, child, Step::Gather)?;
            }
            if let Some(parent) = tree.parent() {
                self.give(nothing, parent, Step::Gather)?;
            }
            self.down(&tree, nothing, Step::Release)
        })();
        self.checked(outcome)
    }

    /// Gives every rank the root's `data`.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn bcast<T: Datatype>(&self, data: &mut [T], root: Rank) -> Result<(), CommError> {
        self.checked(self.check_root(root).and_then(|()| {
            self.down(&Tree::new(self.rank(), self.size(), root), data, Step::Broadcast)
        }))
    }

    /// Combines `data` of all ranks, element by element, into `result` at `root`; `result` is left
    /// alone elsewhere. The order of combination does not depend on `root`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] at the root; others with [`crate::OnError::Return`].
    pub fn reduce<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
        root: Rank,
    ) -> Result<(), CommError> {
        self.checked(self.reduce_to(data, result, op, root))
    }

    /// Combines `data` of all ranks, element by element, into `result` everywhere: the same bits on
    /// every rank.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn allreduce<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let outcome = check_lengths(data, result).and_then(|()| {
            self.reduce_to(data, result, op, Rank(0))?;
            self.down(&Tree::new(self.rank(), self.size(), Rank(0)), result, Step::Broadcast)
        });
        self.checked(outcome)
    }

    fn reduce_to<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
        root: Rank,
    ) -> Result<(), CommError> {
        self.check_root(root)?;
        if self.rank() == root {
            check_lengths(data, result)?;
        }
        let tree = Tree::new(self.rank(), self.size(), Rank(0));
        let mut sum = data.to_vec();
        let mut part = data.to_vec();
        for child in tree.children() {
            self.take(&mut part, child, Step::Reduce)?;
            for (s, &p) in sum.iter_mut().zip(&part) {
                *s = T::apply(op, *s, p);
            }
        }
        if let Some(parent) = tree.parent() {
            self.give(&sum, parent, Step::Reduce)?;
        } else if root == self.rank() {
            result.copy_from_slice(&sum);
        } else {
            self.give(&sum, root, Step::ToRoot)?;
        }
        if root == self.rank() && root != Rank(0) {
            self.take(result, Rank(0), Step::ToRoot)?;
        }
        Ok(())
    }

    /// Hands `data` from the tree's root to all.
    fn down<T: Datatype>(&self, tree: &Tree, data: &mut [T], step: Step) -> Result<(), CommError> {
        if let Some(parent) = tree.parent() {
            self.take(data, parent, step)?;
        }
        // Largest subtree first: it has the longest way.
        for child in tree.children().rev() {
            self.give(data, child, step)?;
        }
        Ok(())
    }

    fn give<T: Datatype>(&self, data: &[T], to: Rank, step: Step) -> Result<(), CommError> {
        self.send_in(Context::COLLECTIVE, data, to, Tag(step as i32))
    }

    /// Receives exactly `into.len()` elements.
    fn take<T: Datatype>(&self, into: &mut [T], from: Rank, step: Step) -> Result<(), CommError> {
        let tag = TagPattern::Tag(Tag(step as i32));
        let pattern = Pattern { context: Context::COLLECTIVE, source: Source::Rank(from), tag };
        let status = self.recv_in(pattern, into)?;
        let (left, right) = (into.len(), status.bytes / size_of::<T>());
        if left == right { Ok(()) } else { Err(CommError::LengthMismatch { left, right }) }
    }

    fn check_root(&self, root: Rank) -> Result<(), CommError> {
        let size = self.size() as u32;
        if root.0 < size { Ok(()) } else { Err(CommError::NoSuchRank { rank: root, size }) }
    }
}

/// This rank's place in the binomial tree.
struct Tree {
    relative: usize,
    size: usize,
    root: usize,
}

impl Tree {
    fn new(me: Rank, size: usize, root: Rank) -> Self {
        let relative = (me.index() + size - root.index()) % size;
        Tree { relative, size, root: root.index() }
    }

    fn parent(&self) -> Option<Rank> {
        // Without its lowest set bit: the parent is the rank that this one is `+ 2^k` of.
        (self.relative > 0).then(|| self.rank(self.relative & (self.relative - 1)))
    }

    /// In the order in which they are combined.
    fn children(&self) -> impl DoubleEndedIterator<Item = Rank> + '_ {
        let limit = match self.relative {
            0 => usize::BITS,
            relative => relative.trailing_zeros(),
        };
        let levels = (0..limit).take_while(|&k| k < usize::BITS && 1 << k < self.size);
        let offsets: Vec<usize> =
            levels.map(|k| self.relative + (1 << k)).filter(|&r| r < self.size).collect();
        offsets.into_iter().map(|r| self.rank(r))
    }

    fn rank(&self, relative: usize) -> Rank {
        Rank::from_index((relative + self.root) % self.size)
    }
}

fn check_lengths<T>(left: &[T], right: &[T]) -> Result<(), CommError> {
    let (left, right) = (left.len(), right.len());
    if left == right { Ok(()) } else { Err(CommError::LengthMismatch { left, right }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_the_child_of_its_parent() {
        for size in 1..40 {
            for root in [0, size / 2, size - 1] {
                let tree = |r| Tree::new(Rank::from_index(r), size, Rank::from_index(root));
                let mut seen = vec![0; size];
                for r in 0..size {
                    for child in tree(r).children() {
                        assert_eq!(tree(child.index()).parent(), Some(Rank::from_index(r)));
                        seen[child.index()] += 1;
                    }
                }
                seen[root] += 1;
                assert_eq!(seen, vec![1; size], "size {size} root {root}");
            }
        }
    }
}
