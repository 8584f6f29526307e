//! Jobs that wait for something other than processing elements: the transitions of the table of
//! needs.

use super::{JobTable, Notice, Unmet};
use std::collections::{BTreeMap, BTreeSet};
use storm_rm::JobId;

impl JobTable {
    /// A job waits for something other than elements.
    pub(in crate::manager) fn wait(&mut self, job: JobId) {
        self.needs.wait(job);
    }

    /// A job waits for something other than elements no longer. Returns whether it did.
    pub(in crate::manager) fn stop_waiting(&mut self, job: JobId) -> bool {
        self.needs.stop_waiting(job)
    }

    /// The configuration cannot meet exactly these needs.
    pub(in crate::manager) fn set_unmet(&mut self, unmet: BTreeMap<JobId, Unmet>) {
        self.needs.set_unmet(unmet);
    }

    /// The configuration cannot meet a need of a job.
    pub(in crate::manager) fn lack(&mut self, job: JobId, lack: Unmet) {
        self.needs.lack(job, lack);
    }

    /// A job lacks files, unless it lacks something else already.
    pub(in crate::manager) fn lack_files(&mut self, job: JobId) {
        self.needs.lack_files(job);
    }

    /// The need of a job is met.
    pub(in crate::manager) fn meet(&mut self, job: JobId) {
        self.needs.meet(job);
    }

    /// A job waits for the begin of a unit.
    pub(in crate::manager) fn await_begin(&mut self, job: JobId, on: JobId) {
        self.needs.await_begin(job, on);
    }

    /// A job waits for the end of a unit.
    pub(in crate::manager) fn await_end(&mut self, job: JobId, on: JobId) {
        self.needs.await_end(job, on);
    }

    /// An event that a job waited for has arrived; `failed` if a condition cannot be met any more.
    /// Returns whether the job must be checked again; `None` for a job that waits for nothing.
    pub(in crate::manager) fn told(&mut self, job: JobId, failed: bool) -> Option<bool> {
        self.needs.told(job, failed)
    }

    /// Waiting jobs are to be notified. Returns whether they are being notified already.
    pub(in crate::manager) fn begin_settling(&mut self) -> bool {
        self.needs.set_settling(true)
    }

    /// The next news for waiting jobs.
    pub(in crate::manager) fn next_news(&mut self) -> Option<Notice> {
        self.needs.next_news()
    }

    /// Waiting jobs have been notified of all news.
    pub(in crate::manager) fn end_settling(&mut self) {
        self.needs.set_settling(false);
    }

    /// Waiting jobs need not be notified of the ends up to now.
    pub(in crate::manager) fn forget_ends(&mut self) {
        self.needs.forget_ends();
    }

    /// Waiting jobs need not be notified of the begins up to now.
    pub(in crate::manager) fn forget_begins(&mut self) {
        self.needs.forget_begins();
    }

    /// An action on many jobs begins. Returns whether one is already under way.
    pub(in crate::manager) fn begin_together(&mut self) -> bool {
        self.needs.begin_together()
    }

    /// The action on many jobs is done. Returns the arrays that are to be filled.
    pub(in crate::manager) fn end_together(&mut self) -> BTreeSet<JobId> {
        self.needs.end_together()
    }

    /// An array is to be filled. Returns whether the filling is put off until the action on many
    /// jobs is done.
    pub(in crate::manager) fn fill_later(&mut self, unit: JobId) -> bool {
        self.needs.fill_later(unit)
    }
}
