//! Partitions, for people.

use super::table_form::{pairs, table};
use storm_mm::api::PartitionView;

/// A line for each.
pub(super) fn listing(partitions: &[PartitionView]) -> String {
    let columns = [
        "PARTITION",
        "SCHED",
        ">QUANTUM",
        ">NODES",
        ">UP",
        ">DRAINED",
        ">PES",
        ">ROWS",
        ">RUNNING",
        ">PENDING",
        "NODE LIST",
    ];
    table(&columns, partitions.iter().map(row))
}

fn row(partition: &PartitionView) -> Vec<String> {
    let default = if partition.default { "*" } else { "" };
    vec![
        format!("{}{default}", partition.name),
        policy(partition),
        quantum(partition).unwrap_or_else(|| "-".to_owned()),
        partition.nodes.to_string(),
        partition.nodes_up.to_string(),
        partition.nodes_drained.to_string(),
        partition.pes.to_string(),
        format!("{}/{}", partition.rows_used, partition.rows_max),
        partition.jobs_running.to_string(),
        partition.jobs_pending.to_string(),
        partition.node_list.clone(),
    ]
}

/// All of one.
pub(super) fn details(partition: &PartitionView) -> String {
    let draining = partition.next_sched.as_ref().map(|next| {
        format!(
            "to {next}: nothing new starts until its jobs have ended or, but from and to bcs, their rows fit"
        )
    });
    pairs(&[
        ("Partition", partition.name.clone()),
        ("Policy", partition.sched.clone()),
        ("Changes", draining.unwrap_or_default()),
        ("Quantum", quantum(partition).unwrap_or_default()),
        ("Slices", slices(partition).unwrap_or_default()),
        ("Default", if partition.default { "yes".to_owned() } else { String::new() }),
        (
            "Nodes",
            format!("{} of {} up: {}", partition.nodes_up, partition.nodes, partition.node_list),
        ),
        (
            "Drained",
            Some(partition.nodes_drained)
                .filter(|count| *count > 0)
                .map(|count| count.to_string())
                .unwrap_or_default(),
        ),
        ("PEs", partition.pes.to_string()),
        ("Rows", format!("{} of {}", partition.rows_used, partition.rows_max)),
        ("Running", partition.jobs_running.to_string()),
        ("Pending", partition.jobs_pending.to_string()),
    ])
}

fn policy(partition: &PartitionView) -> String {
    match &partition.next_sched {
        Some(next) => format!("{} -> {next}", partition.sched),
        None => partition.sched.clone(),
    }
}

fn slices(partition: &PartitionView) -> Option<String> {
    let us = partition.slice_us?;
    Some(match partition.checkpoint {
        Some(slice) => {
            format!("{us} us; slice {slice} was the last to end, with nothing on the way")
        }
        None => format!("{us} us"),
    })
}

fn quantum(partition: &PartitionView) -> Option<String> {
    let us = partition.quantum_us?;
    Some(match us % 1_000 {
        0 => format!("{} ms", us / 1_000),
        _ => format!("{us} us"),
    })
}
