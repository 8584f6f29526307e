//! Clients that followed jobs under a former manager, and have not returned. Nodes hold the output
//! of such a job, also of a run that begins under this manager. Output that arrives before its
//! client is lost (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::{Core, Durable, JobTimer, Timer};
use crate::job::JobRecord;
use std::collections::BTreeSet;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::message::Command;
use storm_rm::{JobId, JobIncarnation, OutputSpec};

/// How long the client of a job has to return: from the start of this manager, or from the return
/// of the job's nodes. After this time, the job's output is passed on even if no client takes the
/// output.
pub(super) const CLIENT_GRACE: Duration = Duration::from_secs(2);

/// The unfinished jobs of a former manager whose clients have not returned.
#[derive(Debug, Default)]
pub(super) struct AbsentClients {
    jobs: BTreeSet<JobId>,
    /// Runs that begin later do not wait for their clients.
    until: Instant,
}

impl AbsentClients {
    /// The clients of a journal's jobs. The journal does not record which jobs were followed, so
    /// all jobs count that write to a client.
    pub(super) fn of<'a>(
        now: Instant,
        records: impl Iterator<Item = &'a JobRecord>,
    ) -> AbsentClients {
        let followed = |record: &&JobRecord| {
            record.spec.step.output == OutputSpec::Client && !record.state().is_final()
        };
        let jobs = records.filter(followed).map(|record| record.id).collect();
        AbsentClients { jobs, until: now + CLIENT_GRACE }
    }

    /// Whether the client of a job may still return.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.jobs.contains(&job)
    }

    /// Until when a run of the job that begins now waits for the client; `None` if it does not.
    pub(super) fn awaited_by_new(&self, now: Instant, job: JobId) -> Option<Instant> {
        (now < self.until && self.has(job)).then_some(self.until)
    }

    /// The client of a job is not waited for any longer. Returns whether it was.
    pub(super) fn remove(&mut self, job: JobId) -> bool {
        self.jobs.remove(&job)
    }
}

impl Core {
    /// All nodes of a job are back: its client has a limited time to return as well.
    pub(super) fn give_grace(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation) {
        if self.absent_clients.has(job) {
            self.await_client(now + CLIENT_GRACE, job, incarnation);
        }
    }

    /// The output of a run is held until then at the latest.
    pub(super) fn await_client(&mut self, at: Instant, job: JobId, incarnation: JobIncarnation) {
        let timer = Timer::Job { job, incarnation, kind: JobTimer::Output };
        self.effects.durable.push(Durable::Timer { at, timer });
    }

    /// The client of a job has returned, or its time to return is over: the job's output is passed
    /// on.
    pub fn release_output(&mut self, job: JobId) {
        if self.absent_clients.remove(job)
            && let Some(live) = self.live.get(job)
        {
            let nodes = live.holders();
            let command = Command::HoldOutput { step: self.first_step(job), hold: false };
            self.effects.durable.push(Durable::Command(nodes, command));
        }
    }
}
