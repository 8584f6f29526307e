//! `sinfo --json`.

use super::{Asked, Fields, document, fields, limit, minutes, number, text};
use crate::view::sinfo::SinfoLine;
use crate::view::{NodeBase, NodeFacts, PartitionFacts, Show};
use serde_json::{Value, json};

/// The document about these groups of nodes.
pub fn grouped(lines: &[SinfoLine], asked: &Asked, show: &Show) -> String {
    let list = lines.iter().map(|line| Value::Object(record(line, show))).collect();
    document("sinfo", list, Fields::new(), asked, show)
}

fn record(line: &SinfoLine, show: &Show) -> Fields {
    let nodes = &line.nodes;
    let count = |is: &dyn Fn(&NodeFacts) -> bool| nodes.iter().filter(|node| is(node)).count();
    let is_other =
        |node: &NodeFacts| node.drained || matches!(node.base, NodeBase::Unknown | NodeBase::Down);
    let is_used = |node: &NodeFacts| matches!(node.base, NodeBase::Allocated | NodeBase::Mixed);
    let used = count(&|node| !is_other(node) && is_used(node));
    let other = count(&is_other);
    let first = nodes.first();
    let state = first.map_or_else(Vec::new, |node| node.states());
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let hosts: Vec<&str> =
        nodes.iter().map(|node| node.hostname.as_deref().unwrap_or(&node.name)).collect();
    let addresses: Vec<&str> =
        nodes.iter().map(|node| node.address.as_deref().unwrap_or(&node.name)).collect();
    let features = first.map(|node| node.features.join(",")).unwrap_or_default();
    let by = first.and_then(|node| node.reason_by.as_ref());
    fields([
        ("port", 0.into()),
        ("node", json!({ "state": state })),
        (
            "nodes",
            json!({
                "allocated": used,
                "idle": nodes.len() - used - other,
                "other": other,
                "total": nodes.len(),
                "hostnames": hosts,
                "addresses": addresses,
                "nodes": names,
            }),
        ),
        ("cpus", cpus(line, &is_other)),
        ("sockets", range(line, |node| node.cpus.into())),
        ("cores", range(line, |_| 1)),
        ("threads", range(line, |_| 1)),
        ("disk", range(line, |_| 0)),
        ("memory", memory(line)),
        ("weight", range(line, |_| 1)),
        ("features", json!({ "total": features, "active": features })),
        (
            "gres",
            json!({ "total": first.map_or_else(|| "".into(), |n| text(&n.gres)), "used": "" }),
        ),
        (
            "reason",
            json!({
                "description": first.map_or_else(|| "".into(), |node| text(&node.reason)),
                "time": number(Some(by.map_or(0, |(.., at)| super::seconds(Some(*at))))),
                "user": by.map_or_else(|| "root".to_owned(), |(user, ..)| user.clone()),
            }),
        ),
        ("cluster", show.cluster.clone().into()),
        ("comment", "".into()),
        ("extra", "".into()),
        ("reservation", "".into()),
        ("partition", Value::Object(partition(&line.partition, show))),
    ])
}

fn range(line: &SinfoLine, fact: impl Fn(&NodeFacts) -> u64) -> Value {
    let facts = || line.nodes.iter().map(|node| fact(node));
    json!({ "minimum": facts().min().unwrap_or(0), "maximum": facts().max().unwrap_or(0) })
}

fn cpus(line: &SinfoLine, is_other: &dyn Fn(&NodeFacts) -> bool) -> Value {
    let (mut used, mut other, mut total) = (0_u64, 0_u64, 0_u64);
    for node in &line.nodes {
        used += u64::from(node.cpus_used);
        total += u64::from(node.cpus);
        if is_other(node) {
            other += u64::from(node.cpus.saturating_sub(node.cpus_used));
        }
    }
    let facts = || line.nodes.iter().map(|node| node.cpus);
    let loads = || line.nodes.iter().filter_map(|node| node.load_percent);
    json!({
        "allocated": used,
        "idle": total.saturating_sub(used).saturating_sub(other),
        "other": other,
        "total": total,
        "minimum": facts().min().unwrap_or(0),
        "maximum": facts().max().unwrap_or(0),
        "load": { "minimum": number(loads().min().map(u64::from)),
                  "maximum": number(loads().max().map(u64::from)) },
        "per_node": { "max": limit(None) },
    })
}

fn memory(line: &SinfoLine) -> Value {
    let facts = || line.nodes.iter().map(|node| node.memory_mib.unwrap_or(0));
    let free = || line.nodes.iter().filter_map(|node| node.free_mib);
    let held: u64 = line.nodes.iter().map(|node| node.memory_held_mib).sum();
    json!({
        "minimum": facts().min().unwrap_or(0),
        "maximum": facts().max().unwrap_or(0),
        "free": { "minimum": number(free().min()), "maximum": number(free().max()) },
        "allocated": held,
    })
}

fn partition(partition: &PartitionFacts, show: &Show) -> Fields {
    let (least, most) = partition.job_nodes;
    let (cpus, nodes) = (partition.cpus, partition.nodes);
    let configured = format!("cpu={cpus},node={nodes},billing={cpus}");
    let names = |list: &[String]| Value::from(list.join(","));
    fields([
        (
            "nodes",
            json!({
                "allowed_allocation": "",
                "configured": partition.node_list,
                "total": partition.nodes,
            }),
        ),
        ("accounts", json!({ "allowed": names(&partition.accounts), "deny": "" })),
        ("groups", json!({ "allowed": names(&partition.groups) })),
        ("qos", json!({ "allowed": "", "deny": "", "assigned": "" })),
        ("alternate", "".into()),
        (
            "tres",
            json!({
                "billing_weights": "",
                "configured": configured,
            }),
        ),
        ("cluster", show.cluster.clone().into()),
        ("select_type", json!([])),
        ("cpus", json!({ "task_binding": 0, "total": partition.cpus })),
        (
            "defaults",
            json!({
                "memory_per_cpu": 0,
                "partition_memory_per_cpu": number(None),
                "partition_memory_per_node": number(None),
                "time": number(minutes(partition.default_time_s)),
                "job": "",
            }),
        ),
        ("grace_time", 0.into()),
        (
            "maximums",
            json!({
                "cpus_per_node": limit(None),
                "cpus_per_socket": limit(None),
                "memory_per_cpu": 0,
                "partition_memory_per_cpu": number(None),
                "partition_memory_per_node": number(None),
                "nodes": limit(most.map(u64::from)),
                "shares": partition.rows.max(1),
                "oversubscribe": { "jobs": partition.rows.max(1), "flags": [] },
                "time": limit(minutes(partition.max_time_s)),
                "over_time_limit": number(None),
            }),
        ),
        ("minimums", json!({ "nodes": least })),
        ("name", partition.name.clone().into()),
        ("node_sets", "".into()),
        ("priority", json!({ "job_factor": 1, "tier": 1 })),
        ("timeouts", json!({ "resume": number(None), "suspend": number(None) })),
        ("topology", "".into()),
        ("partition", json!({ "state": [if partition.up { "UP" } else { "DOWN" }] })),
        ("suspend_time", number(None)),
    ])
}
