//! Jobs outside the scheduling matrix: the configuration was edited while they ran, and no
//! partition has room for them as they are (`docs/decisions/0127-a-node-is-its-name.md`). They run
//! in all rows, and no policy knows of them. Their nodes take no further job until they end.

use super::Core;
use crate::job::{JobEventKind, JobRecord};
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::{JobId, PartitionId, RowSet};

impl Core {
    /// The partition that has all nodes of a job: its own, or another if the partition was renamed.
    pub(super) fn partition_of_nodes(&self, record: &JobRecord) -> Option<PartitionId> {
        let has_all = |id: &PartitionId| {
            let members = &self.partitions[usize::from(id.0)].nodes;
            record.ranks.iter().all(|share| members.contains(share.node))
        };
        let own = self.partition_named(&record.partition).filter(has_all);
        own.or_else(|| (0..self.partition_count()).map(PartitionId).find(has_all))
    }

    /// The partition with which a job is counted if no partition has all of its nodes.
    pub(super) fn counted_partition(&self, record: &JobRecord) -> PartitionId {
        let nodes: NodeSet = record.ranks.iter().map(|share| share.node).collect();
        let meets = |id: &PartitionId| self.partitions[usize::from(id.0)].nodes.intersects(&nodes);
        let own = self.partition_named(&record.partition);
        let any = || (0..self.partition_count()).map(PartitionId).find(meets);
        own.or_else(any).unwrap_or(PartitionId(0))
    }

    /// A job of a former manager goes on without elements, and in all rows.
    pub(super) fn leave_matrix(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        (live.released, live.placement, live.rows) = (true, None, RowSet::ALL);
        live.set_active(now, true);
        let (time, nodes) = (live.run_time(now), live.nodes.clone());
        self.outside_matrix.insert(job);
        if self.is_suspended(job) {
            self.append(now, job, JobEventKind::Resumed { time });
        }
        let nodes = self.nodes.fold(&nodes);
        tracing::warn!(
            %job, %nodes,
            "no partition has room for this job as it is configured now: it goes on, and its nodes take \
             no further job until it ends"
        );
    }

    /// A job is over: if it was outside the matrix, its nodes take jobs again.
    pub(super) fn ended_outside_matrix(&mut self, now: Instant, job: JobId, nodes: &NodeSet) {
        if self.outside_matrix.remove(&job) {
            nodes.iter().for_each(|node| self.tell_of_state(now, node));
        }
    }

    /// The first job outside the matrix on a node.
    pub(super) fn outside_matrix_on(&self, node: NodeId) -> Option<JobId> {
        let is_there =
            |job: &&JobId| self.live.get(job).is_some_and(|live| live.nodes.contains(node));
        self.outside_matrix.iter().find(is_there).copied()
    }

    /// Why a node that is up takes no further job.
    pub(super) fn why_closed(&self, node: NodeId) -> Option<String> {
        let entry = self.nodes.get(node)?;
        let held = || {
            let job = self.job_name(self.outside_matrix_on(node)?);
            Some(format!(
                "job {job} goes on there, for which no partition has room as configured now"
            ))
        };
        entry.refused.clone().or_else(|| entry.drained.clone()).or_else(held)
    }
}
