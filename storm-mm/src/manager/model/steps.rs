//! Steps of a model's history that are several events each.

use super::invariants::check_all;
use super::world::World;
use storm_rm::JobId;
use storm_rm::message::ExitStatus;

impl World {
    /// All parts of a job end with this status.
    pub(super) fn end_job(&mut self, job: JobId, code: u8) {
        while self.end_part(job, code) {
            check_all(self);
        }
    }

    /// Like [`World::end_job`], but without comparing with a journal that has forgotten jobs.
    pub(super) fn end_job_unchecked(&mut self, job: JobId, code: u8) {
        while self.end_part(job, code) {}
    }

    /// Ends the first part of a job. Returns whether the job had a part.
    fn end_part(&mut self, job: JobId, code: u8) -> bool {
        let part = self.parts.keys().find(|(_, of, _)| *of == job).copied();
        part.inspect(|part| self.part_over(*part, ExitStatus::Code(code))).is_some()
    }

    /// All ranks of the placed jobs execute. The ranks of jobs that start as a result execute too.
    pub(super) fn begin_all(&mut self) {
        while !self.starts.is_empty() {
            self.started(0);
        }
        check_all(self);
    }

    /// The jobs that have been placed at least once.
    pub(super) fn started_jobs(&self) -> Vec<u64> {
        let started = self.core.jobs.values().filter(|record| record.runs > 0);
        started.map(|record| record.id.0).collect()
    }
}
