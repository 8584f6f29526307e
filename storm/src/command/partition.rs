//! `partition`: lists partitions and changes them.

use super::misunderstood::misunderstood;
use super::{connect, print};
use crate::cli::{ClusterOptions, PartitionCommand};
use crate::failure::Failure;
use crate::output::Output;
use std::time::Duration;
use storm_mm::api::{ManagerRequest, PartitionView, Reply};

pub(super) async fn run(command: PartitionCommand, output: &dyn Output) -> Result<u8, Failure> {
    match command {
        PartitionCommand::List { cluster } => {
            let partitions = ask(&cluster, ManagerRequest::Partitions).await?;
            print(&output.partitions(&partitions))?;
        }
        PartitionCommand::Show { name, cluster } => {
            let partitions = ask(&cluster, ManagerRequest::Partitions).await?;
            let found = partitions.iter().find(|partition| partition.name == name);
            let partition = found.ok_or_else(|| no_such_partition(&name, &partitions))?;
            print(&output.partition(partition))?;
        }
        PartitionCommand::SetSched { name: partition, sched, reset, cluster } => {
            let request = match reset {
                true => ManagerRequest::ResetPartition { partition, sched: true, quantum: false },
                false => ManagerRequest::SetPartition { partition, sched, quantum_us: None },
            };
            change(&cluster, request, output).await?;
        }
        PartitionCommand::SetQuantum { name: partition, quantum, reset, cluster } => {
            let us = |quantum: Duration| u64::try_from(quantum.as_micros()).unwrap_or(u64::MAX);
            let request = match reset {
                true => ManagerRequest::ResetPartition { partition, sched: false, quantum: true },
                false => {
                    let quantum_us = quantum.map(us);
                    ManagerRequest::SetPartition { partition, sched: None, quantum_us }
                }
            };
            change(&cluster, request, output).await?;
        }
    }
    Ok(0)
}

async fn change(
    cluster: &ClusterOptions,
    request: ManagerRequest,
    output: &dyn Output,
) -> Result<(), Failure> {
    let changed = ask(cluster, request).await?;
    changed.iter().try_for_each(|partition| print(&output.partition(partition)))
}

async fn ask(
    cluster: &ClusterOptions,
    request: ManagerRequest,
) -> Result<Vec<PartitionView>, Failure> {
    match connect(cluster).await?.call(request).await? {
        Reply::Partitions { partitions } => Ok(partitions),
        other => Err(misunderstood(&other)),
    }
}

fn no_such_partition(name: &str, partitions: &[PartitionView]) -> Failure {
    let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
    Failure::new("no-such-partition", format!("there is no partition {name:?}"))
        .hint(format!("there are: {}", names.join(", ")))
}
