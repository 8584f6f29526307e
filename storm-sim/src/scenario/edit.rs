//! One random edit of a configuration. A manager can start with the result of every edit.

use crate::{Configuration, ConfiguredNode, ConfiguredPartition};
use storm_primitives::NodeId;

/// One in this number of edits gives a node more elements than it has.
const ONE_TOO_LARGE: u64 = 8;

/// The configuration and the random numbers that edits are made from.
pub(super) struct Editor<'a> {
    /// Nodes of the machine.
    pub(super) nodes: u32,
    /// The number of elements of each node.
    pub(super) pes: u32,
    /// A random number below its argument.
    pub(super) random: &'a dyn Fn(u64) -> u64,
}

impl Editor<'_> {
    /// The configuration after one edit. It is unchanged if the chosen edit is not possible.
    pub(super) fn edited(&self, former: &Configuration) -> Configuration {
        let mut configuration = former.clone();
        match (self.random)(10) {
            0 => self.insert_node(&mut configuration),
            1 => self.remove_node(&mut configuration),
            2 => self.shuffle(&mut configuration.nodes),
            3 => self.shuffle(&mut configuration.partitions),
            4 => self.move_node(&mut configuration),
            5 => self.rename(&mut configuration),
            6 => self.exchange_names(&mut configuration),
            7 => self.split(&mut configuration),
            8 => self.merge(&mut configuration),
            _ => self.resize(&mut configuration),
        }
        configuration
    }

    /// A random index below `count`. `None` if there is none.
    fn pick(&self, count: usize) -> Option<usize> {
        (count > 0).then(|| (self.random)(count as u64) as usize)
    }

    /// Puts an item anywhere.
    fn insert<T>(&self, items: &mut Vec<T>, item: T) {
        let place = (self.random)(items.len() as u64 + 1) as usize;
        items.insert(place, item);
    }

    fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.random)(last as u64 + 1) as usize);
        }
    }

    fn insert_node(&self, configuration: &mut Configuration) {
        let all = (1..=self.nodes).map(NodeId);
        let absent: Vec<NodeId> = all.filter(|node| configuration.pes(*node).is_none()).collect();
        let Some(node) = self.pick(absent.len()).map(|index| absent[index]) else { return };
        self.insert(&mut configuration.nodes, ConfiguredNode { node, pes: self.pes });
        if let Some(index) = self.pick(configuration.partitions.len()) {
            self.insert(&mut configuration.partitions[index].nodes, node);
        }
    }

    fn remove_node(&self, configuration: &mut Configuration) {
        let Some(index) = self.pick(configuration.nodes.len()) else { return };
        let node = configuration.nodes[index].node;
        if self.take_out(configuration, node) {
            configuration.nodes.remove(index);
        }
    }

    /// Removes a node from its partition. A partition without nodes is removed too. Returns false,
    /// and changes nothing, if the last partition would be removed.
    fn take_out(&self, configuration: &mut Configuration, node: NodeId) -> bool {
        let partitions = &mut configuration.partitions;
        let alone = |partition: &ConfiguredPartition| partition.nodes == [node];
        if partitions.len() == 1 && partitions.iter().any(alone) {
            return false;
        }
        partitions.iter_mut().for_each(|partition| partition.nodes.retain(|one| *one != node));
        partitions.retain(|partition| !partition.nodes.is_empty());
        true
    }

    fn move_node(&self, configuration: &mut Configuration) {
        let Some(index) = self.pick(configuration.nodes.len()) else { return };
        let node = configuration.nodes[index].node;
        if self.take_out(configuration, node)
            && let Some(index) = self.pick(configuration.partitions.len())
        {
            self.insert(&mut configuration.partitions[index].nodes, node);
        }
    }

    fn rename(&self, configuration: &mut Configuration) {
        let name = self.unused_name(configuration);
        if let Some(index) = self.pick(configuration.partitions.len()) {
            configuration.partitions[index].name = name;
        }
    }

    /// A name that no partition has: one from the first configuration, or a new one.
    fn unused_name(&self, configuration: &Configuration) -> String {
        let taken = |name: &String| configuration.partitions.iter().any(|one| one.name == *name);
        let first = ["p1", "p2", "all"].map(str::to_owned).into_iter();
        let mut missing: Vec<String> = first.filter(|name| !taken(name)).collect();
        missing.extend((1..).map(|number| format!("q{number}")).find(|name| !taken(name)));
        self.pick(missing.len()).map_or_else(String::new, |index| missing.swap_remove(index))
    }

    fn exchange_names(&self, configuration: &mut Configuration) {
        let partitions = &mut configuration.partitions;
        let mut names: Vec<String> = partitions.iter().map(|one| one.name.clone()).collect();
        self.shuffle(&mut names);
        partitions.iter_mut().zip(names).for_each(|(partition, name)| partition.name = name);
    }

    /// Splits one partition in two.
    fn split(&self, configuration: &mut Configuration) {
        let name = self.unused_name(configuration);
        let Some(index) = self.pick(configuration.partitions.len()) else { return };
        let nodes = &mut configuration.partitions[index].nodes;
        let Some(kept) = self.pick(nodes.len().saturating_sub(1)) else { return };
        let nodes = nodes.split_off(kept + 1);
        self.insert(&mut configuration.partitions, ConfiguredPartition { name, nodes });
    }

    /// Removes a partition. Its nodes move to another partition, or are removed as well.
    fn merge(&self, configuration: &mut Configuration) {
        if configuration.partitions.len() < 2 {
            return;
        }
        let Some(index) = self.pick(configuration.partitions.len()) else { return };
        let removed = configuration.partitions.remove(index);
        if (self.random)(2) == 0 {
            configuration.nodes.retain(|entry| !removed.nodes.contains(&entry.node));
        } else if let Some(index) = self.pick(configuration.partitions.len()) {
            configuration.partitions[index].nodes.extend(removed.nodes);
        }
    }

    fn resize(&self, configuration: &mut Configuration) {
        let Some(index) = self.pick(configuration.nodes.len()) else { return };
        let too_large = (self.random)(ONE_TOO_LARGE) == 0;
        let fitting = 1 + (self.random)(u64::from(self.pes)) as u32;
        configuration.nodes[index].pes = if too_large { self.pes + 1 } else { fitting };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    const NODES: u32 = 6;
    const PES: u32 = 2;

    #[test]
    fn every_edit_gives_a_configuration_that_a_manager_starts_with() {
        let state = Cell::new(7u64);
        let random = |bound: u64| {
            // Knuth's multiplicative generator. Any generator would do.
            state.set(state.get().wrapping_mul(6364136223846793005).wrapping_add(1));
            (state.get() >> 33) % bound
        };
        let editor = Editor { nodes: NODES, pes: PES, random: &random };
        let mut configuration = Configuration::even(4, PES, 2);
        let mut seen = BTreeSet::new();
        for _ in 0..2_000 {
            configuration = editor.edited(&configuration);
            let Configuration { nodes, partitions } = &configuration;
            let names: BTreeSet<&str> = partitions.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names.len(), partitions.len(), "{configuration:?}");
            assert!(!names.contains(""));
            let mut members: Vec<NodeId> =
                partitions.iter().flat_map(|one| one.nodes.iter().copied()).collect();
            let mut configured: Vec<NodeId> = nodes.iter().map(|entry| entry.node).collect();
            assert!(!configured.is_empty() && partitions.iter().all(|one| !one.nodes.is_empty()));
            members.sort();
            configured.sort();
            assert_eq!(members, configured, "each node in one partition");
            assert!(nodes.iter().all(|entry| (1..=PES + 1).contains(&entry.pes)));
            seen.insert(format!("{configuration:?}"));
        }
        assert!(seen.len() > 500, "only {} configurations", seen.len());
    }
}
