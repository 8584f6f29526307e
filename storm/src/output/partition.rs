//! Partitions, for users.

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
        marked(policy(partition), partition.configured_sched.is_some()),
        quantum(partition).map_or_else(
            || "-".to_owned(),
            |quantum| marked(quantum, partition.configured_quantum_us.is_some()),
        ),
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

/// Everything about a partition.
pub(super) fn details(partition: &PartitionView) -> String {
    let draining = partition.next_sched.as_ref().map(|next| {
        format!(
            "to {next}: no job starts until its jobs have ended or, except from and to bcs, their \
             rows fit"
        )
    });
    pairs(&[
        ("Partition", partition.name.clone()),
        ("Policy", format!("{}{}", partition.sched, unset_sched(partition))),
        ("Changes", draining.unwrap_or_default()),
        ("Quantum", quantum(partition).map_or_else(String::new, |q| q + &unset_quantum(partition))),
        ("Warning", partition.warning.clone().unwrap_or_default()),
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
    partition.quantum_us.map(time)
}

fn time(us: u64) -> String {
    match us {
        _ if us >= 10_000_000 && us.is_multiple_of(1_000_000) => format!("{} s", us / 1_000_000),
        _ if us.is_multiple_of(1_000) => format!("{} ms", us / 1_000),
        _ => format!("{us} us"),
    }
}

/// Marks a value that was set at work instead of by the configuration.
fn marked(value: String, is_set: bool) -> String {
    if is_set { format!("{value} (set)") } else { value }
}

fn unset_sched(partition: &PartitionView) -> String {
    let told = |configured: &String| {
        let name = &partition.name;
        // The policy that was set may still wait for its turn.
        let set = match &partition.next_sched {
            Some(next) => format!("{next} set at work, waits for running jobs"),
            None => "set at work".to_owned(),
        };
        format!(" ({set}; configured: {configured}; storm partition set-sched {name} --reset)")
    };
    partition.configured_sched.as_ref().map_or_else(String::new, told)
}

fn unset_quantum(partition: &PartitionView) -> String {
    let told = |us: u64| {
        let (name, configured) = (&partition.name, time(us));
        format!(
            " (set at work; configured: {configured}; storm partition set-quantum {name} --reset)"
        )
    };
    partition.configured_quantum_us.map_or_else(String::new, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a policy that waited for jobs was shown as if the former one had been set.
    #[test]
    fn a_policy_that_was_set_and_waits_is_named() {
        let json = serde_json::json!({
            "name": "main", "sched": "gang", "next_sched": "fcfs", "configured_sched": "gang",
            "default": true, "node_list": "n1", "nodes": 1, "nodes_up": 1, "pes": 4,
            "quantum_us": null, "rows_used": 2, "rows_max": 4, "jobs_running": 2,
            "jobs_pending": 0,
        });
        let mut partition: PartitionView = serde_json::from_value(json).expect("a partition");
        assert_eq!(
            unset_sched(&partition),
            " (fcfs set at work, waits for running jobs; configured: gang; storm partition \
             set-sched main --reset)"
        );
        (partition.sched, partition.next_sched) = ("fcfs".to_owned(), None);
        assert!(unset_sched(&partition).starts_with(" (set at work; configured: gang;"));
    }
}
