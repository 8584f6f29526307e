//! Turns the written configuration into numbered nodes and partitions. Checks that concern more
//! than one key are here.

use super::{ConfigProblem, MmConfig, NetworkConfig, PartitionEntry};
use std::collections::{BTreeMap, HashMap};
use storm_primitives::NodeNames;
use storm_sched::{DEFAULT_POLICY, NodeSpec, PolicyParams, Quantum};

/// Most nodes of a cluster.
const MAX_NODES: usize = 65_535;
/// Most processing elements of a node, local clusters included: the most that is tested. Each
/// element has a process that waits for a job.
pub(crate) const MAX_PES: u32 = 1024;

/// The nodes and partitions of a cluster, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterPlan {
    /// In order of their numbers, which begin at 1.
    pub(crate) nodes: Vec<NodeSpec>,
    /// At least one; each node is in exactly one; exactly one is the default.
    pub(crate) partitions: Vec<PlannedPartition>,
    /// Accounts, qualities of service and the weights of priorities.
    pub(crate) service: storm_mm::ServiceConfig,
}

/// A partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedPartition {
    pub(crate) name: String,
    /// Its nodes, as indices into [`ClusterPlan::nodes`], in order.
    pub(crate) nodes: Vec<usize>,
    /// Its policy.
    pub(crate) sched: String,
    /// The policy's settings.
    pub(crate) params: PolicyParams,
    /// Whether jobs that name neither partition nor policy go there.
    pub(crate) default: bool,
}

impl MmConfig {
    /// Numbers the nodes and resolves the partitions.
    pub(crate) fn plan(&self) -> Result<ClusterPlan, ConfigProblem> {
        check_name("cluster", &self.cluster)?;
        check_network(&self.network)?;
        self.flexible.rules().check()?;
        self.security.check(self.listen)?;
        self.clients.check(&self.security)?;
        if self.history == 0 {
            return Err(ConfigProblem::History);
        }
        if self.cache_bytes.is_some_and(|bytes| bytes == 0 || bytes > self.spool_bytes) {
            return Err(ConfigProblem::CacheBytes { spool_bytes: self.spool_bytes });
        }
        if self.timeouts.node_dead() < 2 * self.timeouts.heartbeat() {
            return Err(ConfigProblem::NodeDead);
        }
        if self.timeouts.node_hung() < self.timeouts.node_dead() {
            return Err(ConfigProblem::NodeHung);
        }
        let nodes = self.planned_nodes()?;
        let mut partitions = if self.partitions.is_empty() {
            vec![whole_machine(nodes.len())]
        } else {
            self.planned_partitions(&nodes)?
        };
        if !partitions.iter().any(|partition| partition.default) {
            partitions[0].default = true;
        }
        let service = self.planned_service(&partitions)?;
        Ok(ClusterPlan { nodes, partitions, service })
    }

    fn planned_nodes(&self) -> Result<Vec<NodeSpec>, ConfigProblem> {
        let mut nodes = Vec::new();
        let mut seen = BTreeMap::new();
        for (index, entry) in self.nodes.iter().enumerate() {
            let key = format!("nodes[{index}]");
            if !(1..=MAX_PES).contains(&entry.pes) {
                return Err(ConfigProblem::Pes { key, pes: entry.pes, most: MAX_PES });
            }
            let wrong = |feature: &&String| !storm_sched::is_feature_name(feature);
            if let Some(feature) = entry.features.iter().find(wrong) {
                return Err(ConfigProblem::Feature { key, feature: feature.clone() });
            }
            let key_of_names = format!("{key}.names");
            for name in unfold(&key_of_names, &entry.names)? {
                check_name(&key_of_names, &name)?;
                if seen.insert(name.clone(), ()).is_some() {
                    return Err(ConfigProblem::NodeTwice { key, name });
                }
                nodes.push(NodeSpec {
                    name,
                    pes: entry.pes,
                    memory_bytes: entry.memory.map(|memory| memory.0),
                    features: entry.features.clone(),
                });
            }
        }
        match nodes.len() {
            0 => Err(ConfigProblem::NoNodes),
            count if count > MAX_NODES => Err(ConfigProblem::TooManyNodes { most: MAX_NODES }),
            _ => Ok(nodes),
        }
    }

    fn planned_partitions(
        &self,
        nodes: &[NodeSpec],
    ) -> Result<Vec<PlannedPartition>, ConfigProblem> {
        let index: HashMap<&str, usize> =
            nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
        let mut owner: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut planned: Vec<PlannedPartition> = Vec::new();
        for (number, entry) in self.partitions.iter().enumerate() {
            let key = format!("partitions[{number}]");
            check_partition(&key, entry, &planned)?;
            let members = match &entry.nodes {
                Some(list) => members(&format!("{key}.nodes"), list, &index)?,
                None if self.partitions.len() == 1 => (0..nodes.len()).collect(),
                None => return Err(ConfigProblem::PartitionNodes { key }),
            };
            for &member in &members {
                if owner[member].replace(number).is_some() {
                    let name = nodes[member].name.clone();
                    return Err(ConfigProblem::NodeTwice { key: format!("{key}.nodes"), name });
                }
            }
            planned.push(PlannedPartition {
                name: entry.name.clone(),
                nodes: members,
                sched: entry.sched.clone(),
                params: params(&key, entry)?,
                default: entry.default,
            });
        }
        match owner.iter().position(Option::is_none) {
            Some(lost) => Err(ConfigProblem::NoPartition { name: nodes[lost].name.clone() }),
            None => Ok(planned),
        }
    }
}

/// Refuses names that nodes would refuse at their start.
fn check_name(key: &str, name: &str) -> Result<(), ConfigProblem> {
    match storm_pl::is_name(name) {
        true => Ok(()),
        false => Err(ConfigProblem::Name { key: key.to_owned(), name: name.to_owned() }),
    }
}

fn whole_machine(nodes: usize) -> PlannedPartition {
    PlannedPartition {
        name: "main".to_owned(),
        nodes: (0..nodes).collect(),
        sched: DEFAULT_POLICY.to_owned(),
        params: PolicyParams::default(),
        default: true,
    }
}

fn check_partition(
    key: &str,
    entry: &PartitionEntry,
    earlier: &[PlannedPartition],
) -> Result<(), ConfigProblem> {
    let key = key.to_owned();
    if earlier.iter().any(|other| other.name == entry.name) {
        return Err(ConfigProblem::PartitionTwice { key, name: entry.name.clone() });
    }
    if entry.default && earlier.iter().any(|other| other.default) {
        return Err(ConfigProblem::TwoDefaults { key });
    }
    if super::policies().canonical(&entry.sched).is_none() {
        let known = super::policies().listing();
        return Err(ConfigProblem::NoSuchPolicy { key, name: entry.sched.clone(), known });
    }
    Ok(())
}

fn params(key: &str, entry: &PartitionEntry) -> Result<PolicyParams, ConfigProblem> {
    let mut params = entry.params;
    if let Some(quantum) = entry.quantum {
        params.quantum_us = Quantum::try_from(quantum.0)
            .map_err(|why| ConfigProblem::Quantum { key: format!("{key}.quantum"), why })?;
    }
    Ok(params)
}

fn members(
    key: &str,
    list: &str,
    index: &HashMap<&str, usize>,
) -> Result<Vec<usize>, ConfigProblem> {
    let find = |name: String| match index.get(name.as_str()) {
        Some(&found) => Ok(found),
        None => Err(ConfigProblem::NoSuchNode { key: key.to_owned(), name }),
    };
    let mut members: Vec<usize> =
        unfold(key, list)?.into_iter().map(find).collect::<Result<_, _>>()?;
    members.sort_unstable();
    Ok(members)
}

/// The names of a folded list.
fn unfold(key: &str, list: &str) -> Result<Vec<String>, ConfigProblem> {
    let wrong =
        |why: String| ConfigProblem::NodeList { key: key.to_owned(), names: list.to_owned(), why };
    let set = NodeNames::parse(list, storm_primitives::MAX_NODES)
        .map_err(|error| wrong(error.to_string()))?;
    match set.len() {
        0 => Err(wrong("it is empty".to_owned())),
        count if count > MAX_NODES => Err(ConfigProblem::TooManyNodes { most: MAX_NODES }),
        _ => Ok(set.iter().collect()),
    }
}

fn check_network(network: &NetworkConfig) -> Result<(), ConfigProblem> {
    // Each value with the range in which it makes sense.
    for (key, value, least, most) in [
        ("fan-out", network.fan_out, 1, 1024),
        ("chunk-bytes", network.chunk_bytes, 4 << 10, 64 << 20),
        ("chunk-slots", network.chunk_slots, 1, 64),
        ("channels", network.channels, 1, 64),
        ("job-slots", network.job_slots, 1, 65_536),
        ("heartbeat-bytes", network.heartbeat_bytes, 64 << 10, 64 << 20),
        ("slice-link-bytes", network.slice_link_bytes, 4 << 10, 64 << 20),
    ] {
        if !(least..=most).contains(&value) {
            return Err(ConfigProblem::Network { key, value, least, most });
        }
    }
    Ok(())
}
