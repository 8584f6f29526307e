//! Clients that followed jobs under a former manager, and have not come back. Nodes hold the output
//! of such a job, also of a run that begins under this manager: output that comes before its client
//! is lost (`docs/decisions/0006-jobs-survive-the-manager.md`).

use super::{Core, Durable, JobTimer, Timer};
use crate::job::JobRecord;
use std::collections::BTreeSet;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::message::Command;
use storm_rm::{JobId, JobIncarnation, OutputSpec};

/// How long the client of a job has to come back, from the moment when the job's ranks may write.
/// After that, the job's output is passed on even if no client takes it.
const CLIENT_GRACE: Duration = Duration::from_secs(2);

/// The unfinished jobs of a former manager whose clients have not come back.
#[derive(Debug, Default)]
pub(super) struct AbsentClients(BTreeSet<JobId>);

impl AbsentClients {
    /// The clients of a journal's jobs. The journal does not know which jobs were followed, so all
    /// jobs count that write to a client.
    pub(super) fn of<'a>(records: impl Iterator<Item = &'a JobRecord>) -> AbsentClients {
        let followed = |record: &&JobRecord| {
            record.spec.output == OutputSpec::Client && !record.state().is_final()
        };
        AbsentClients(records.filter(followed).map(|record| record.id).collect())
    }

    /// Whether the client of a job may still come back.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.0.contains(&job)
    }

    /// The client of a job is not waited for any longer. Returns whether it was.
    pub(super) fn remove(&mut self, job: JobId) -> bool {
        self.0.remove(&job)
    }
}

impl Core {
    /// The ranks of a job may write: its client has a limited time to come back.
    pub(super) fn give_grace(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation) {
        if self.absent_clients.has(job) {
            let timer = Timer::Job { job, incarnation, kind: JobTimer::Output };
            self.effects.durable.push(Durable::Timer { at: now + CLIENT_GRACE, timer });
        }
    }

    /// The client of a job has come back, or has had its time to: the job's output is passed on.
    pub fn release_output(&mut self, job: JobId) {
        if self.absent_clients.remove(job)
            && let Some(live) = self.live.get(job)
        {
            let nodes = live.holders();
            let command = Command::HoldOutput { job, hold: false };
            self.effects.durable.push(Durable::Command(nodes, command));
        }
    }
}
