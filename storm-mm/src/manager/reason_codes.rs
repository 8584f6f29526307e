//! Slurm's one-word reasons for jobs that wait, which scripts compare.

use super::Core;
use super::eligibility::Obstacle;
use super::jobs::Unmet;
use super::partitions::{Waiting, sched_time};
use crate::job::{Hold, JobRecord, Phase};
use storm_primitives::Instant;

impl Core {
    /// Why a job waits, in one word; `None` if it does not wait.
    pub(super) fn reason_code(
        &self,
        now: Instant,
        record: &JobRecord,
        waiting: &Waiting,
    ) -> Option<&'static str> {
        if record.phase != Phase::Pending {
            return None;
        }
        if self.is_fenced(record.id) {
            return Some("Cleaning");
        }
        if self.jobs.needs().is_waiting(record.id)
            && let Some(obstacle) = self.obstacle(now, record.id)
        {
            return Some(obstacle.code());
        }
        if self.live.awaiting_job(record.id).is_some() {
            return Some("Resources");
        }
        let Some(partition) = self.partitions.named(&record.partition) else {
            return Some("PartitionConfig");
        };
        if partition.next_sched().is_some() {
            return Some("PartitionInactive");
        }
        let known = waiting.reasons.get(&record.id).map(|reason| reason.code());
        let asked = || partition.policy().explain(sched_time(now), record.id).map(|r| r.code());
        Some(known.or_else(asked).unwrap_or("None"))
    }
}

impl Obstacle {
    /// The obstacle in Slurm's word.
    fn code(&self) -> &'static str {
        match self {
            Obstacle::Held(Hold::User) => "JobHeldUser",
            Obstacle::Held(Hold::Admin) => "JobHeldAdmin",
            Obstacle::Begin(_) => "BeginTime",
            Obstacle::Dependency { .. } => "Dependency",
            Obstacle::NeverSatisfied(_) => "DependencyNeverSatisfied",
            Obstacle::ArrayLimit(_) => "JobArrayTaskLimit",
            Obstacle::Unmet(Unmet::Partition(_)) => "PartitionConfig",
            Obstacle::Unmet(Unmet::Nodes { .. } | Unmet::Room { .. }) => "BadConstraints",
            Obstacle::Unmet(Unmet::Account(_) | Unmet::AccountUsers { .. }) => "InvalidAccount",
            Obstacle::Unmet(Unmet::Qos(_) | Unmet::QosUsers { .. }) => "InvalidQOS",
            Obstacle::Unmet(Unmet::Files) => "MissingFiles",
            Obstacle::Places => "Resources",
            Obstacle::GoingDown => "SystemFailure",
        }
    }
}
