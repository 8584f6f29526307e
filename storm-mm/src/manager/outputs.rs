//! Output of ranks on its way to the clients of their job.
//!
//! A cut launch is done again, and its ranks write again
//! (`docs/decisions/0141-cut-launches-are-done-again.md`). Output that arrives while a job starts
//! therefore waits until the run counts as begun. Output of a cut launch is dropped.

use super::live::Piece;
use super::{Core, Durable, Notice};
use crate::api::Reply;
use crate::job::Phase;
use storm_rm::{JobId, JobIncarnation};

impl Core {
    /// Output of a rank has arrived, of which a part may have arrived before. A node that stood
    /// still may send output of an earlier run, which is dropped.
    pub(super) fn output(&mut self, (job, run): (JobId, JobIncarnation), piece: Piece) {
        if self.is_launched_again(job) {
            return;
        }
        let starts = self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Starting);
        let pieces = self.live.output((job, run), piece, starts);
        self.pass_on(job, pieces);
    }

    /// A run counts as begun, or ends without being done again.
    pub(super) fn pass_on_early(&mut self, job: JobId) {
        let early = self.live.take_early(job);
        self.pass_on(job, early);
    }

    pub(super) fn pass_on(&mut self, job: JobId, pieces: Vec<Piece>) {
        let Some(run) = self.jobs.get(&job).map(|record| record.incarnation) else { return };
        for Piece { rank, stream, offset, data } in pieces {
            let reply = Reply::Output { job, run, rank, stream, offset, data };
            self.effects.durable.push(Durable::Notify(job, Notice::Output(reply)));
        }
    }
}
