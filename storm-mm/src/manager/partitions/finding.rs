//! Partitions and machines that a name, a job or a reservation stands for.

use super::{Partition, Partitions};
use crate::api::{ApiError, ErrorCode};
use crate::cluster::ReservationRecord;
use crate::job::JobRecord;
use storm_rm::PartitionId;
use storm_sched::{Machine, NodeSpec};

impl Partitions {
    /// The error for a partition that is not configured.
    pub(in crate::manager) fn none_named(&self, name: &str) -> ApiError {
        let names: Vec<&str> = self.iter().map(Partition::name).collect();
        ApiError::new(ErrorCode::NoSuchPartition, format!("there is no partition {name:?}"))
            .hint(format!("there are: {}", names.join(", ")))
    }

    /// The partition that has all nodes of a job: its own, or another if the partition was renamed.
    pub(in crate::manager) fn of_nodes(&self, record: &JobRecord) -> Option<PartitionId> {
        let has_all = |id: &PartitionId| {
            let members = self[*id].nodes();
            record.ranks.iter().all(|share| members.contains(share.node))
        };
        let own = self.id_of(&record.partition).filter(has_all);
        own.or_else(|| self.ids().find(has_all))
    }

    /// The partition with which a job is counted if no partition has all of its nodes.
    pub(in crate::manager) fn counted(&self, record: &JobRecord) -> PartitionId {
        let nodes = record.nodes();
        let meets = |id: &PartitionId| self[*id].nodes().intersects(&nodes);
        let own = self.id_of(&record.partition);
        let any = || self.ids().find(meets);
        own.or_else(any).unwrap_or(PartitionId(0))
    }

    /// The nodes of a reservation as a machine of their own.
    pub(in crate::manager) fn machine_of(&self, record: &ReservationRecord) -> Option<Machine> {
        let partition = self.id_of(&record.partition)?;
        let machine = self[partition].policy().machine();
        let own = machine
            .nodes()
            .iter()
            .filter(|node| record.nodes.iter().any(|name| name == node.name()));
        let specs = own.map(|node| NodeSpec {
            name: node.name().to_owned(),
            pes: node.pes(),
            memory_bytes: node.memory_bytes(),
            features: node.features().to_vec(),
        });
        Machine::of_nodes(specs).ok()
    }
}
