//! The rows of jobs, and what depends on the active ones. The host begins slices by itself, so this
//! core knows the active rows only as far as [`Event::SliceBegins`] reported them.

use super::job::LocalJob;
use super::{Action, Event, NodeCore};
use crate::slice_order::{RowJob, RowJobs};
use storm_rm::Row;
use storm_rm::message::{Command, Strobe};

impl NodeCore {
    /// Begins a slice that an earlier strobe ordered.
    pub(super) fn begin_slice(&mut self, strobe: Strobe, actions: &mut Vec<Action>) {
        if self.active.begin_slice(&strobe) {
            self.reschedule(Some(strobe.partition), Some(strobe), actions);
        }
    }

    /// Whether the effect of an event depends on which rows are active, or which jobs stand. This
    /// core must then have received the event of every slice that has begun. The core may take any
    /// other event before the slices' events: the result is the same.
    pub fn asks_for_rows(&self, event: &Event) -> bool {
        match event {
            Event::Command(command) => self.command_asks_for_rows(command),
            // A launch that failed starts nothing.
            Event::Prepared { outcome, .. } => outcome.is_ok(),
            Event::Waiting { .. } | Event::SignalGraceOver { .. } | Event::ManagerLost => true,
            // Events of slices arrive in their order.
            Event::SliceBegins(_)
            | Event::Host(_)
            | Event::StreamEnded { .. }
            | Event::Unserviceable { .. }
            | Event::LaunchCut { .. }
            | Event::GivenUp
            | Event::Leave => false,
        }
    }

    fn command_asks_for_rows(&self, command: &Command) -> bool {
        match command {
            Command::Strobe(_)
            | Command::Slices(_)
            | Command::SetRows { .. }
            | Command::SignalJob { .. }
            | Command::SignalScript { .. }
            | Command::Resume { .. } => true,
            // Under flexible coscheduling, the host must know whether the job is in its slot.
            Command::Coschedule { .. } => true,
            // A launch into a partition that is in its own slices changes no row.
            Command::LaunchJob(launch) => {
                self.active.is_changed_by_launch(launch.partition, launch.active_row)
            }
            Command::ReceiveFile(_)
            | Command::DestroyJob { .. }
            | Command::ReleaseJob { .. }
            | Command::Input { .. }
            | Command::InputAgain { .. }
            | Command::HoldOutput { .. }
            | Command::FenceDone { .. }
            | Command::RefuseNode { .. }
            | Command::HandOver { .. }
            | Command::Shutdown => false,
        }
    }

    /// The jobs with processes here, and their rows.
    pub(crate) fn row_jobs(&self) -> RowJobs {
        let live = self.jobs.iter().filter(|(_, job)| job.is_live());
        live.map(|(key, job)| (*key, row_job(job))).collect()
    }
}

/// Whether a job runs here while this row does.
pub(super) fn runs_in(job: &LocalJob, row: Row) -> bool {
    row_job(job).runs_in(row)
}

fn row_job(job: &LocalJob) -> RowJob {
    RowJob {
        partition: job.partition,
        rows: job.rows,
        is_graced: job.graces > 0,
        is_doomed: job.doomed,
        is_stopped: job.stopped,
    }
}
