//! The configured settings of partitions, and the settings that replaced them at run time. The
//! methods find the settings that hold after a restart, and the settings that listings mark. They
//! also restore the configured settings (`docs/decisions/0133`).
//!
//! The change of a policy is in [`super::switching`].

use super::Core;
use crate::PartitionConfig;
use crate::api::{ApiError, ErrorCode, PartitionView, Peer};
use crate::cluster::{ClusterEventKind, PartitionConfigured};
use crate::job::{JobEventKind, JobRecord, Phase};
use std::collections::BTreeMap;
use storm_primitives::Instant;
use storm_rm::JobId;
use storm_sched::Quantum;

impl Core {
    /// The policy of a job: its partition's, or the policy under which it ended.
    pub(super) fn policy_of(&self, record: &JobRecord) -> String {
        let now = || {
            // A running job may by now be in another partition than it was submitted to.
            let live = self.live.get(record.id).map(|live| live.partition());
            let id = live.or_else(|| self.partitions.id_of(&record.partition))?;
            Some(self.partitions[id].policy().name().to_owned())
        };
        let configured =
            || self.partitions.configured_of(&record.partition).map(|own| own.sched.clone());
        let known = match &record.phase {
            Phase::Ended(_) => record.sched.clone().or_else(configured).or_else(now),
            Phase::Pending | Phase::Starting | Phase::Running | Phase::Ending(_) => {
                now().or_else(configured)
            }
        };
        known.unwrap_or_default()
    }

    /// The policy that a job runs under, if its partition is configured with another.
    pub(super) fn other_policy(&self, record: &JobRecord) -> Option<String> {
        let present = self.policy_of(record);
        let configured = self.partitions.configured_of(&record.partition)?;
        (configured.sched != present).then_some(present)
    }

    fn configuration_of(&self, given: &PartitionConfig) -> PartitionConfigured {
        let sched = self.config.policies.canonical(&given.sched).unwrap_or(&given.sched);
        let quantum_us = given.params.quantum_us.into();
        PartitionConfigured { sched: sched.to_owned(), quantum_us }
    }

    /// Resets a partition to its configured policy, its configured quantum, or both.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: not an administrator, no such partition.
    pub fn reset_partition(
        &mut self,
        now: Instant,
        peer: Peer,
        name: &str,
        sched: bool,
        quantum: bool,
    ) -> Result<PartitionView, ApiError> {
        if !self.is_admin(peer) {
            let message = "only an administrator may change a partition";
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        let id = self.partitions.id_of(name).ok_or_else(|| self.partitions.none_named(name))?;
        let configured = self.partitions.configured_of(name).cloned();
        if let Some(PartitionConfigured { sched: own, quantum_us }) = configured {
            if let Some(quantum_us) = Quantum::try_from(quantum_us).ok().filter(|_| quantum) {
                self.set_quantum(now, id, quantum_us);
            }
            if sched && !self.partitions[id].stays_under(&own) {
                self.begin_switch(now, id, &own);
            }
        }
        self.note_settings(now);
        Ok(self.partition_view(&self.partitions[id]))
    }

    /// Journals the settings that differ from the configuration.
    pub(super) fn note_settings(&mut self, now: Instant) {
        if let Some(settings) = self.partitions.unnoted_settings() {
            self.append_of_cluster(now, ClusterEventKind::PartitionsSet { settings });
        }
    }

    /// Restores the settings that a former manager had set, from the journal.
    pub(super) fn restore_settings(&mut self, now: Instant) {
        let former = self.partitions.configured().clone();
        let given = self.config.partitions.iter();
        let given: BTreeMap<String, PartitionConfigured> =
            given.map(|own| (own.name.clone(), self.configuration_of(own))).collect();
        self.partitions.restore_settings(&given);
        self.stamp_ended(now, &former, &given);
        let mut partitions = former;
        partitions.extend(given);
        if partitions != *self.partitions.configured() {
            self.append_of_cluster(now, ClusterEventKind::PartitionsConfigured { partitions });
        }
        self.partitions.warn_of_settings();
        self.note_settings(now);
    }

    /// Records in ended jobs the policy that their partition was configured with, if that policy
    /// was edited.
    fn stamp_ended(
        &mut self,
        now: Instant,
        former: &BTreeMap<String, PartitionConfigured>,
        given: &BTreeMap<String, PartitionConfigured>,
    ) {
        let other = |record: &JobRecord| {
            let known = former.get(&record.partition)?;
            let same = given.get(&record.partition).is_some_and(|own| own.sched == known.sched);
            let unmarked = matches!(record.phase, Phase::Ended(_)) && record.sched.is_none();
            (unmarked && !same).then(|| known.sched.clone())
        };
        let ended: Vec<(JobId, String)> =
            self.jobs.values().filter_map(|record| Some((record.id, other(record)?))).collect();
        for (job, sched) in ended {
            self.append(now, job, JobEventKind::UnderPolicy { sched });
        }
    }
}
