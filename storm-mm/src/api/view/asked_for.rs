//! The resources that a job requests, in words.

use storm_rm::{Memory, Resources};
use storm_sched::MemorySize;

/// "4 processes of 2 PEs each on 2 nodes, 16 GiB a node, no other job on its nodes".
pub fn asked_for(procs: u32, nodes: Option<u32>, asked: &Resources) -> String {
    let count = |number: u32, one: &str, many: &str| {
        format!("{number} {}", if number == 1 { one } else { many })
    };
    let mut first = count(procs, "process", "processes");
    if asked.cpus_per_task != 1 {
        first += &format!(" of {} each", count(asked.cpus_per_task, "PE", "PEs"));
    }
    if let Some(nodes) = nodes {
        first += &format!(" on {}", count(nodes, "node", "nodes"));
    }
    let memory = match asked.memory {
        Memory::Unstated => None,
        Memory::PerNode(bytes) => Some(format!("{} a node", MemorySize(bytes))),
        Memory::PerCpu(bytes) => Some(format!("{} a PE", MemorySize(bytes))),
        Memory::WholeNode => Some("all memory of its nodes".to_owned()),
    };
    let constraint = asked.constraint.as_ref();
    let others = [
        asked.tasks_per_node.map(|most| format!("at most {most} on a node")),
        constraint.map(|constraint| format!("nodes with {constraint}")),
        asked.required_nodes.as_ref().map(|nodes| format!("{nodes} among them")),
        asked.excluded_nodes.as_ref().map(|nodes| format!("not on {nodes}")),
        memory,
        asked.exclusive.then(|| "no other job on its nodes".to_owned()),
    ];
    let parts: Vec<String> = std::iter::once(first).chain(others.into_iter().flatten()).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_asked_for_is_said_and_nothing_else() {
        assert_eq!(asked_for(1, None, &Resources::default()), "1 process");
        let asked = Resources {
            cpus_per_task: 2,
            tasks_per_node: Some(2),
            memory: Memory::PerNode(16 << 30),
            exclusive: true,
            constraint: Some("gpu&fast".to_owned()),
            nodes_max: None,
            required_nodes: Some("n[1,7]".to_owned()),
            excluded_nodes: Some("n3".to_owned()),
        };
        assert_eq!(
            asked_for(4, Some(2), &asked),
            "4 processes of 2 PEs each on 2 nodes, at most 2 on a node, nodes with gpu&fast, \
             n[1,7] among them, not on n3, 16 GiB a node, no other job on its nodes"
        );
    }
}
