//! Nodes that share a line: those that look the same in the columns that are shown.

use crate::view::{Layout, NodeFacts, PartitionFacts};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A line of sinfo: nodes of a partition.
#[derive(Clone, Debug)]
pub struct SinfoLine {
    /// The partition.
    pub partition: Rc<PartitionFacts>,
    /// The partition's place in the configuration.
    pub place: usize,
    /// The nodes; none if no node of the partition was asked for.
    pub nodes: Vec<Rc<NodeFacts>>,
}

/// How nodes are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// Each node by itself (`--Node`).
    pub by_node: bool,
    /// Only nodes of equal size share a line (`--exact`).
    pub exact: bool,
}

/// The values that nodes on a line have in common.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    partition: String,
    texts: Vec<String>,
}

/// The lines for these nodes of these partitions.
pub fn group(
    partitions: &[Rc<PartitionFacts>],
    nodes: &[Rc<NodeFacts>],
    layout: &Layout<SinfoLine>,
    grouping: Grouping,
) -> Vec<SinfoLine> {
    let mut lines: Vec<SinfoLine> = Vec::new();
    let mut places: HashMap<Alike, usize> = HashMap::new();
    let shown = Shown::of(layout);
    for (place, partition) in partitions.iter().enumerate() {
        let members = nodes.iter().filter(|node| node.partitions.contains(&partition.name));
        let mut any = false;
        for node in members {
            any = true;
            let alike = shown.alike(partition, node, grouping);
            let at = *places.entry(alike).or_insert(lines.len());
            match lines.get_mut(at) {
                Some(line) => line.nodes.push(node.clone()),
                None => lines.push(SinfoLine {
                    partition: partition.clone(),
                    place,
                    nodes: vec![node.clone()],
                }),
            }
        }
        if !any && !grouping.by_node {
            lines.push(SinfoLine { partition: partition.clone(), place, nodes: Vec::new() });
        }
    }
    for line in &mut lines {
        // Without the column of partitions a node of two partitions is on one line twice.
        let mut seen = HashSet::new();
        line.nodes.retain(|node| seen.insert(node.name.clone()));
    }
    lines
}

/// The columns that keep nodes apart.
struct Shown {
    partition: bool,
    compact: bool,
    long: bool,
    complete: bool,
    reason: bool,
    reason_by: bool,
    features: bool,
    gres: bool,
    host: bool,
    comparing_memory: bool,
}

impl Shown {
    fn of(layout: &Layout<SinfoLine>) -> Shown {
        let any = |names: &[&str]| names.iter().any(|name| layout.shows(name));
        Shown {
            partition: any(&["partition", "partitionname"]),
            compact: any(&["statecompact"]),
            long: any(&["statelong"]),
            complete: any(&["statecomplete"]),
            reason: any(&["reason"]),
            reason_by: any(&["timestamp", "user", "userlong"]),
            features: any(&["features", "features_act"]),
            gres: any(&["gres", "gresused"]),
            host: any(&["nodehost", "nodeaddr"]),
            comparing_memory: any(&["allocmem"]),
        }
    }

    fn alike(&self, partition: &PartitionFacts, node: &NodeFacts, grouping: Grouping) -> Alike {
        let mut texts = Vec::new();
        let mut keep = |shown: bool, text: &dyn Fn() -> String| {
            if shown {
                texts.push(text());
            }
        };
        keep(grouping.by_node || self.host, &|| node.name.clone());
        keep(self.compact || self.long, &|| node.state_long());
        keep(self.complete, &|| node.state_complete());
        keep(self.reason, &|| node.reason.clone().unwrap_or_default());
        keep(self.reason_by, &|| format!("{:?}", node.reason_by));
        keep(self.features, &|| node.features.join(","));
        keep(self.gres, &|| node.gres.clone().unwrap_or_default());
        keep(self.comparing_memory, &|| node.memory_held_mib.to_string());
        keep(grouping.exact, &|| format!("{} {:?}", node.cpus, node.memory_mib));
        let by_partition = self.partition || grouping.by_node;
        let partition = if by_partition { partition.name.clone() } else { String::new() };
        Alike { partition, texts }
    }
}
