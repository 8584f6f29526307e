//! Partitions whose jobs communicate in slices ([decision
//! 0093](../../../docs/decisions/0093-ranks-under-buffered-coscheduling.md)). All nodes of a
//! partition begin each slice together. The methods find these nodes, and end the jobs when there
//! can be no more slices.

use super::Core;
use crate::job::{EndCause, JobRecord};
use std::time::Duration;
use storm_primitives::{Instant, NodeSet};
use storm_rm::{JobId, PartitionId};

impl Core {
    /// Whether the jobs of a partition communicate in slices.
    pub fn is_coscheduled(&self, partition: PartitionId) -> bool {
        self.partitions[partition].policy().communication_slice().is_some()
    }

    /// The nodes that have ranks of a coscheduled partition, and the length of its slices; `None`
    /// while no job could communicate.
    pub fn coscheduled(&self, partition: PartitionId) -> Option<(NodeSet, Duration)> {
        let slice = self.partitions[partition].policy().communication_slice()?;
        let launched = self.live.of(partition).filter(|(_, live)| live.is_launched());
        // Nodes whose part of a job is over take part too: others may wait for their messages of
        // the job.
        let nodes = launched.fold(NodeSet::new(), |nodes, (_, live)| nodes.union(live.nodes()));
        let nodes = self.up(&nodes);
        (!nodes.is_empty()).then_some((nodes, slice))
    }

    /// How the ranks of a job communicate, in words, where its partition is coscheduled. Only a
    /// job's nodes know which library its program is linked with.
    pub(super) fn communication_of(&self, record: &JobRecord) -> Option<String> {
        let partition = self.partitions.named(&record.partition)?;
        let slice_us = partition.policy().communication_slice()?.as_micros();
        Some(format!(
            "in slices of {slice_us} us if it is linked with storm-mpi; else (MPICH, Open MPI) by \
             itself at any time, and its row keeps the processors while it waits"
        ))
    }

    /// A slice has ended with nothing on the way: the nodes' memories hold the whole state of the
    /// partition's jobs.
    pub fn slice_ended(&mut self, partition: PartitionId, slice: u64) {
        self.partitions.set_checkpoint(partition, slice);
    }

    /// There can be no more slices: the jobs that communicate in them end.
    pub fn coscheduling_failed(&mut self, now: Instant, partition: PartitionId, reason: &str) {
        let launched = self.live.of(partition).filter(|(_, live)| live.is_launched());
        let jobs: Vec<JobId> = launched.map(|(job, _)| job).collect();
        for job in jobs {
            let reason = format!("buffered coscheduling has stopped: {reason}");
            self.end_job(now, job, EndCause::Unserviceable { reason });
        }
    }
}
