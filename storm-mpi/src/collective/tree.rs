//! The binomial tree that most collectives use.

/// One member's place in the tree.
pub(super) struct Tree {
    relative: usize,
    size: usize,
    root: usize,
}

impl Tree {
    pub(super) fn new(me: usize, size: usize, root: usize) -> Self {
        Tree { relative: (me + size - root) % size, size, root }
    }

    pub(super) fn parent(&self) -> Option<usize> {
        // The parent is this member without its lowest set bit: this member is the parent `+ 2^k`.
        (self.relative > 0).then(|| self.member(self.relative & (self.relative - 1)))
    }

    /// The children in the order in which they are combined: each child's subtree follows the one
    /// before it.
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let limit = match self.relative {
            0 => usize::BITS,
            relative => relative.trailing_zeros(),
        };
        let levels = (0..limit).take_while(|&k| k < usize::BITS && 1 << k < self.size).count();
        let offsets = (0..levels).map(|k| self.relative + (1 << k));
        // Children beyond the last member come last, so the count is exact.
        let count = offsets.take_while(|&r| r < self.size).count();
        (0..count).map(|k| self.member(self.relative + (1 << k)))
    }

    fn member(&self, relative: usize) -> usize {
        (relative + self.root) % self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_the_child_of_its_parent() {
        for size in 1..40 {
            for root in [0, size / 2, size - 1] {
                let tree = |r| Tree::new(r, size, root);
                let mut seen = vec![0; size];
                for r in 0..size {
                    for child in tree(r).children() {
                        assert_eq!(tree(child).parent(), Some(r));
                        seen[child] += 1;
                    }
                }
                seen[root] += 1;
                assert_eq!(seen, vec![1; size], "size {size} root {root}");
            }
        }
    }

    /// Operations that do not commute rely on this order: their result must be in the order of the
    /// members.
    #[test]
    fn combining_children_in_order_keeps_the_members_order() {
        fn combined(member: usize, size: usize) -> Vec<usize> {
            let mut all = vec![member];
            for child in Tree::new(member, size, 0).children() {
                all.extend(combined(child, size));
            }
            all
        }
        for size in 1..40 {
            assert_eq!(combined(0, size), (0..size).collect::<Vec<_>>());
        }
    }
}
