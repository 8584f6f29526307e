//! Jobs outside the scheduling matrix: the configuration was edited while they ran, and no
//! partition has room for them as they are (`docs/decisions/0127-a-node-is-its-name.md`). They run
//! in all rows, and no policy has them. Their nodes take no further job until they end.

use super::Core;
use crate::job::JobEventKind;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::JobId;

impl Core {
    /// A job of a former manager continues without elements, and in all rows.
    pub(super) fn leave_matrix(&mut self, now: Instant, job: JobId) {
        let Some((time, nodes)) = self.live.leave_matrix(now, job) else { return };
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
        if self.live.over_outside_matrix(job) {
            nodes.iter().for_each(|node| self.tell_of_state(now, node));
        }
    }

    /// Why a node that is up takes no further job.
    pub(super) fn why_closed(&self, node: NodeId) -> Option<String> {
        let entry = self.nodes.get(node)?;
        let held = || {
            let job = self.jobs.name(self.live.outside_matrix_on(node)?);
            Some(format!(
                "job {job} goes on there, for which no partition has room as configured now"
            ))
        };
        entry.refused.clone().or_else(|| entry.drained.clone()).or_else(held)
    }
}
