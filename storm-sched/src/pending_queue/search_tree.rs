//! A search tree whose subtrees know the least demand of their jobs. It finds the next job that
//! could start without visiting jobs that could not.
//!
//! The tree is a treap (Seidel and Aragon, Randomized Search Trees, Algorithmica 16, 1996): a
//! binary search tree by key, and a heap by numbers that look random. Its depth is therefore O(log
//! n) for any order of insertion. The numbers are a function of the index of a node, so the same
//! calls make the same tree.

use super::gap::{Demand, Gap, Least};

/// No node.
const NONE: u32 = u32::MAX;
/// The number of nodes that are kept for later use when the tree becomes empty.
const KEPT_NODES: usize = 1_024;

/// Values by key, each with its job's demand.
#[derive(Debug, Clone)]
pub(super) struct SearchTree<K, V> {
    nodes: Vec<Node<K>>,
    /// The values, at the indices of their nodes; `None` for a free node.
    values: Vec<Option<V>>,
    free: Vec<u32>,
    root: u32,
}

#[derive(Debug, Clone)]
struct Node<K> {
    key: K,
    demand: Demand,
    /// The least demand of this job and all jobs below.
    least: Least,
    left: u32,
    right: u32,
}

/// Keys and values, ascending.
#[derive(Debug)]
pub(super) struct Iter<'a, K, V> {
    tree: &'a SearchTree<K, V>,
    /// Nodes that come after the ones to their left.
    later: Vec<u32>,
}

impl<K, V> Default for SearchTree<K, V> {
    fn default() -> Self {
        Self { nodes: Vec::new(), values: Vec::new(), free: Vec::new(), root: NONE }
    }
}

impl<K: Ord + Copy, V> SearchTree<K, V> {
    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let mut at = self.root;
        while at != NONE {
            let node = &self.nodes[at as usize];
            at = match key.cmp(&node.key) {
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
                std::cmp::Ordering::Equal => return self.values[at as usize].as_ref(),
            };
        }
        None
    }

    /// The least key.
    pub(super) fn first(&self) -> Option<(&K, &V)> {
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize).filter(|node| node.left != NONE) {
            at = node.left;
        }
        self.entry(at)
    }

    /// The greatest key.
    pub(super) fn last(&self) -> Option<(&K, &V)> {
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize).filter(|node| node.right != NONE) {
            at = node.right;
        }
        self.entry(at)
    }

    /// All keys and values, ascending.
    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { tree: self, later: Vec::new() };
        iter.descend(self.root);
        iter
    }

    /// The first value after a key, or the first of all, whose job may fit the gap.
    pub(super) fn next_within(&self, after: Option<&K>, gap: &Gap) -> Option<(&K, &V)> {
        self.entry(self.seek(self.root, after, gap)?)
    }

    /// Adds a value under a key that has none yet.
    pub(super) fn insert(&mut self, key: K, demand: Demand, value: V) {
        let node = Node { key, demand, least: Least::of(demand), left: NONE, right: NONE };
        let new = match self.free.pop() {
            Some(free) => {
                self.nodes[free as usize] = node;
                self.values[free as usize] = Some(value);
                free
            }
            None => {
                if self.nodes.len() == self.nodes.capacity() {
                    // Grows by a quarter instead of doubling, because a queue can be large.
                    let more = self.nodes.len() / 4 + 16;
                    self.nodes.reserve_exact(more);
                    self.values.reserve_exact(more);
                }
                self.nodes.push(node);
                self.values.push(Some(value));
                (self.nodes.len() - 1) as u32
            }
        };
        self.root = self.insert_below(self.root, new, &key);
    }

    /// Takes the value of a key out.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let mut taken = NONE;
        self.root = self.remove_below(self.root, key, &mut taken);
        let value = self.values.get_mut(taken as usize)?.take();
        self.free.push(taken);
        if self.len() == 0 {
            self.nodes.clear();
            self.values.clear();
            self.free.clear();
            self.nodes.shrink_to(KEPT_NODES);
            self.values.shrink_to(KEPT_NODES);
            self.free.shrink_to(KEPT_NODES);
        }
        value
    }

    fn entry(&self, at: u32) -> Option<(&K, &V)> {
        let node = self.nodes.get(at as usize)?;
        Some((&node.key, self.values[at as usize].as_ref()?))
    }

    fn seek(&self, at: u32, after: Option<&K>, gap: &Gap) -> Option<u32> {
        let node = self.nodes.get(at as usize).filter(|node| node.least.may_fit(gap))?;
        if after.is_some_and(|after| *after >= node.key) {
            return self.seek(node.right, after, gap);
        }
        self.seek(node.left, after, gap)
            .or_else(|| node.demand.may_fit(gap).then_some(at))
            .or_else(|| self.seek(node.right, None, gap))
    }

    /// Inserts a node into a part; returns the part's root.
    fn insert_below(&mut self, at: u32, new: u32, key: &K) -> u32 {
        if at == NONE || height(new) > height(at) {
            let (left, right) = self.split(at, key);
            self.link(new, left, right);
            return new;
        }
        let Node { left, right, key: here, .. } = self.nodes[at as usize];
        if *key < here {
            let left = self.insert_below(left, new, key);
            self.link(at, left, right);
        } else {
            let right = self.insert_below(right, new, key);
            self.link(at, left, right);
        }
        at
    }

    /// Removes a key from a part, and puts its node into `taken`; returns the part's root.
    fn remove_below(&mut self, at: u32, key: &K, taken: &mut u32) -> u32 {
        let Some(&Node { left, right, key: here, .. }) = self.nodes.get(at as usize) else {
            return at;
        };
        match key.cmp(&here) {
            std::cmp::Ordering::Equal => {
                *taken = at;
                return self.merge(left, right);
            }
            std::cmp::Ordering::Less => {
                let left = self.remove_below(left, key, taken);
                self.link(at, left, right);
            }
            std::cmp::Ordering::Greater => {
                let right = self.remove_below(right, key, taken);
                self.link(at, left, right);
            }
        }
        at
    }

    /// Splits a part into one with the lower and one with the higher keys.
    fn split(&mut self, at: u32, key: &K) -> (u32, u32) {
        let Some(&Node { left, right, key: here, .. }) = self.nodes.get(at as usize) else {
            return (NONE, NONE);
        };
        if here < *key {
            let (lower, higher) = self.split(right, key);
            self.link(at, left, lower);
            (at, higher)
        } else {
            let (lower, higher) = self.split(left, key);
            self.link(at, higher, right);
            (lower, at)
        }
    }

    /// Merges two parts; the first has the lower keys.
    fn merge(&mut self, lower: u32, higher: u32) -> u32 {
        if lower == NONE {
            return higher;
        }
        if higher == NONE {
            return lower;
        }
        if height(lower) > height(higher) {
            let Node { left, right, .. } = self.nodes[lower as usize];
            let right = self.merge(right, higher);
            self.link(lower, left, right);
            lower
        } else {
            let Node { left, right, .. } = self.nodes[higher as usize];
            let left = self.merge(lower, left);
            self.link(higher, left, right);
            higher
        }
    }

    /// Puts parts below a node.
    fn link(&mut self, at: u32, left: u32, right: u32) {
        let below = |part: u32| self.nodes.get(part as usize).map(|node| &node.least);
        let mut least = Least::of(self.nodes[at as usize].demand);
        for part in [left, right] {
            if let Some(below) = below(part) {
                least = least.and(below);
            }
        }
        let node = &mut self.nodes[at as usize];
        (node.left, node.right, node.least) = (left, right, least);
    }
}

impl<K, V> Iter<'_, K, V> {
    fn descend(&mut self, mut at: u32) {
        while let Some(node) = self.tree.nodes.get(at as usize) {
            self.later.push(at);
            at = node.left;
        }
    }
}

impl<'a, K: Ord + Copy, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        let at = self.later.pop()?;
        self.descend(tree.nodes[at as usize].right);
        tree.entry(at)
    }
}

/// The order of the heap: a node is above all nodes of less height. The mixing is the last step of
/// murmur3 (Appleby), which maps no two numbers to the same.
fn height(node: u32) -> u32 {
    let mut bits = node;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_tree_is_an_ordered_map_and_skips_no_fitting_job(
            steps in prop::collection::vec((0..64u32, 1..40u32, 0..5_000u64, any::<bool>()), 1..200),
            pes in 0..40u32,
            window_s in 0..5_000u64,
            spare_pes in 0..40u32,
        ) {
            let mut tree = SearchTree::default();
            let mut map = BTreeMap::new();
            let gap = Gap::new(pes, Duration::from_secs(window_s), spare_pes);
            for (key, pes, secs, add) in steps {
                let demand = Demand::new(pes, Duration::from_secs(secs));
                if add && !map.contains_key(&key) {
                    tree.insert(key, demand, demand);
                    map.insert(key, demand);
                } else {
                    prop_assert_eq!(tree.remove(&key), map.remove(&key));
                }
                prop_assert_eq!(tree.len(), map.len());
                prop_assert!(tree.iter().eq(map.iter()));
                prop_assert_eq!(tree.first(), map.first_key_value());
                prop_assert_eq!(tree.get(&key), map.get(&key));
                let wanted: Vec<u32> =
                    map.iter().filter(|(_, d)| d.may_fit(&gap)).map(|(key, _)| *key).collect();
                let mut seen = Vec::new();
                while let Some((key, _)) = tree.next_within(seen.last(), &gap) {
                    let key = *key;
                    seen.push(key);
                }
                prop_assert_eq!(seen, wanted);
            }
        }
    }

    #[test]
    fn the_tree_stays_shallow_when_keys_ascend() {
        let mut tree = SearchTree::default();
        let demand = Demand::new(1, Duration::ZERO);
        for key in 0..20_000u32 {
            tree.insert(key, demand, ());
        }
        // Twice the natural logarithm, 20, is expected, and hardly ever three times as much.
        assert!(depth(&tree, tree.root) < 60);
        (0..20_000u32).for_each(|key| assert!(tree.remove(&key).is_some()));
        assert!(tree.first().is_none());
    }

    fn depth(tree: &SearchTree<u32, ()>, at: u32) -> u32 {
        let Some(node) = tree.nodes.get(at as usize) else { return 0 };
        1 + depth(tree, node.left).max(depth(tree, node.right))
    }
}
