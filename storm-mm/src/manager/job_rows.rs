//! Jobs that run in other rows than they were placed in. The policy decides these rows: alternative
//! scheduling and unification.
//!
//! The order of messages makes the changes of rows sound. Rows and launches wait for the journal
//! and reach the nodes in the order of their decisions. A job has therefore lost a row on a node
//! before another job is launched into that row there. Strobes do not wait, so they may reach nodes
//! before the rows. All nodes take the heartbeats in one order, so each strobe finds the same rows
//! on all nodes of a job: the old ones or the new ones.

use super::Core;
use crate::job::{JobEventKind, Phase};
use storm_primitives::Instant;
use storm_rm::{JobId, Row, RowSet};

impl Core {
    /// Sets the rows in which a job runs. A new home row is journaled, since the next manager
    /// searches for the job there.
    pub(super) fn set_rows(&mut self, now: Instant, job: JobId, home: Row, alternates: &[Row]) {
        let all_rows = alternates.iter().chain([&home]);
        let rows = all_rows.fold(RowSet::NONE, |rows, row| rows.with(*row));
        if let Some(awaiting) = self.live.awaiting_job(job) {
            let all = self.partitions[awaiting.partition()].runs_all();
            let rows = if all { RowSet::ALL } else { rows };
            return self.live.set_awaiting_rows(job, home, rows);
        }
        let Some(live) = self.live.get(job) else { return };
        let (partition, is_on_nodes) = (live.partition(), live.is_on_nodes());
        let all = self.partitions[partition].runs_all();
        let rows = if all { RowSet::ALL } else { rows };
        let Some(moved) = self.live.set_rows(job, home, rows) else { return };
        self.partitions.rows_change(partition);
        if is_on_nodes {
            self.live.count_time_of(now, job, self.partitions[partition].active());
        }
        self.tell_rows(job);
        let placed = self.jobs.get(&job).is_some_and(|record| {
            matches!(record.phase, Phase::Starting | Phase::Running | Phase::Ending(_))
        });
        if moved && placed {
            self.append(now, job, JobEventKind::Moved { row: home });
        }
    }
}
