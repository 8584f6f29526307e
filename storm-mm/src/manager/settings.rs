//! The configured settings of partitions, and those that were set at run time instead: which of
//! them hold after a restart, which of them listings mark, and the way back
//! (`docs/decisions/0133`).
//!
//! The change of a policy itself is in [`super::switching`].

use super::Core;
use super::partition::{Partition, Switching};
use crate::PartitionConfig;
use crate::api::{ApiError, ErrorCode, PartitionView, Peer};
use crate::cluster::{ClusterEventKind, PartitionConfigured, PartitionSetting};
use crate::job::{JobEventKind, JobRecord, Phase};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{JobId, PartitionId};
use storm_sched::Quantum;

/// Users are warned of slices longer than this: a person at a terminal does not wait that long for
/// a turn.
const LONG_SLICE: Duration = Duration::from_secs(60);

impl Core {
    /// The policy of a job: its partition's, or the policy under which it ended.
    pub(super) fn policy_of(&self, record: &JobRecord) -> String {
        let now = || {
            // A running job may by now be in another partition than it was submitted to.
            let live = self.live.get(&record.id).map(|live| live.partition);
            let id = live.or_else(|| self.partition_named(&record.partition))?;
            Some(self.partitions[usize::from(id.0)].policy.name().to_owned())
        };
        let configured = || self.configured.get(&record.partition).map(|own| own.sched.clone());
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
        let configured = self.configured.get(&record.partition)?;
        (configured.sched != present).then_some(present)
    }

    fn configuration_of(&self, given: &PartitionConfig) -> PartitionConfigured {
        let sched = self.config.policies.canonical(&given.sched).unwrap_or(&given.sched);
        let quantum_us = given.params.quantum_us.into();
        PartitionConfigured { sched: sched.to_owned(), quantum_us }
    }

    /// Gives a partition its configured policy, its configured quantum, or both back.
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
        let id = self.partition_named(name).ok_or_else(|| self.no_such_partition(name))?;
        let configured = self.configured.get(name).cloned();
        if let Some(PartitionConfigured { sched: own, quantum_us }) = configured {
            if let Some(quantum_us) = Quantum::try_from(quantum_us).ok().filter(|_| quantum) {
                self.set_quantum(now, id, quantum_us);
            }
            let partition = self.partition(id);
            let stays = partition.switching.is_none() && partition.policy.name() == own;
            if sched && !stays {
                self.begin_switch(now, id, &own);
            }
        }
        self.note_settings(now);
        Ok(self.partition_view(&self.partitions[usize::from(id.0)]))
    }

    /// The configured policy of a partition, if another was set at run time.
    pub(super) fn unset_sched(&self, partition: &Partition) -> Option<String> {
        let configured = &self.configured.get(&partition.name)?.sched;
        let present = partition.next_sched().unwrap_or(partition.policy.name());
        (present != configured).then(|| configured.clone())
    }

    /// The configured quantum of a partition in microseconds, if another was set at run time.
    pub(super) fn unset_quantum_us(&self, partition: &Partition) -> Option<u64> {
        let configured = self.configured.get(&partition.name)?.quantum_us;
        (u64::from(partition.params.quantum_us) != configured).then_some(configured)
    }

    /// The warning to users of a partition with very long slices.
    pub(super) fn slice_warning(&self, partition: &Partition) -> Option<String> {
        let quantum = partition.policy.quantum().filter(|quantum| *quantum > LONG_SLICE)?;
        let seconds = quantum.as_secs();
        let rows = partition.policy.rows().len();
        let now = match rows {
            0 | 1 => "as soon as a second row holds jobs".to_owned(),
            rows => format!("of the {rows} rows that hold jobs now"),
        };
        Some(format!(
            "a slice lasts {seconds} s: {now}, the jobs of one row run for that time, and the jobs \
             of the others are stopped"
        ))
    }

    /// Journals the settings that differ from the configuration.
    pub(super) fn note_settings(&mut self, now: Instant) {
        let setting = |partition: &Partition| PartitionSetting {
            sched: partition.policy.name().to_owned(),
            quantum_us: partition.params.quantum_us.into(),
            next_sched: partition.next_sched().map(str::to_owned),
        };
        let differs = |partition: &&Partition| {
            self.configured.get(&partition.name).is_none_or(|configured| {
                let set = setting(partition);
                set.next_sched.is_some()
                    || set.sched != configured.sched
                    || set.quantum_us != configured.quantum_us
            })
        };
        // The settings of partitions that are not configured now are kept for when they are again.
        let absent = self.settings.iter().filter(|(name, _)| self.partition_named(name).is_none());
        let absent = absent.map(|(name, setting)| (name.clone(), setting.clone()));
        let present = self.partitions.iter().filter(differs);
        let settings: BTreeMap<String, PartitionSetting> = present
            .map(|partition| (partition.name.clone(), setting(partition)))
            .chain(absent)
            .collect();
        if settings != self.settings {
            self.append_of_cluster(now, ClusterEventKind::PartitionsSet { settings });
        }
    }

    /// Gives partitions the settings that a former manager had set, by the journal. A setting that
    /// was edited in the configuration since then overrides the one set at run time. An edited
    /// policy takes over like one set at run time, since jobs may be running.
    pub(super) fn restore_settings(&mut self, now: Instant) {
        let former = self.configured.clone();
        let given = self.config.partitions.iter();
        let given: BTreeMap<String, PartitionConfigured> =
            given.map(|own| (own.name.clone(), self.configuration_of(own))).collect();
        for name in self.settings.keys().filter(|name| !given.contains_key(*name)) {
            tracing::warn!(partition = %name, "a partition that was changed at work is no longer \
                                               configured");
        }
        for id in (0..self.partition_count()).map(PartitionId) {
            let name = self.partition(id).name.clone();
            let set = self.settings.get(&name).cloned();
            if let Some(own) = given.get(&name) {
                self.restore_setting(id, own, former.get(&name), set);
            }
        }
        self.stamp_ended(now, &former, &given);
        let mut partitions = former;
        partitions.extend(given);
        if partitions != self.configured {
            self.append_of_cluster(now, ClusterEventKind::PartitionsConfigured { partitions });
        }
        for partition in &self.partitions {
            self.warn_if_set(partition);
        }
        self.note_settings(now);
    }

    /// `own` is the present configuration, `former` the configuration of the manager before, and
    /// `set` the settings that were in force under that manager.
    fn restore_setting(
        &mut self,
        id: PartitionId,
        own: &PartitionConfigured,
        former: Option<&PartitionConfigured>,
        set: Option<PartitionSetting>,
    ) {
        let edited = |key: fn(&PartitionConfigured) -> String| {
            former.is_some_and(|former| key(former) != key(own))
        };
        let sched_edited = edited(|configured| configured.sched.clone());
        let quantum_edited = edited(|configured| configured.quantum_us.to_string());
        let partition = self.partition(id);
        let name = partition.name.clone();
        let set_quantum = set.as_ref().and_then(|set| Quantum::try_from(set.quantum_us).ok());
        match set_quantum {
            Some(_) if quantum_edited => tracing::warn!(
                partition = %name, quantum_us = own.quantum_us,
                "quantum was edited in the configuration: the value set at work no longer counts"
            ),
            Some(quantum) => partition.params.quantum_us = quantum,
            None => {}
        }
        let set_sched = set.as_ref().map(|set| set.next_sched.as_ref().unwrap_or(&set.sched));
        if sched_edited && set_sched.is_some_and(|sched| *sched != own.sched) {
            tracing::warn!(
                partition = %name, sched = %own.sched,
                "sched was edited in the configuration: the policy set at work no longer counts"
            );
        }
        let target = set_sched.filter(|_| !sched_edited).unwrap_or(&own.sched);
        let in_force = set.as_ref().map(|set| &set.sched).or(former.map(|former| &former.sched));
        let in_force = in_force.unwrap_or(&own.sched);
        match partition.fresh_policy(in_force) {
            Ok(policy) => partition.policy = policy,
            Err(error) => {
                tracing::error!(partition = %name, %error, "its configured policy remains");
            }
        }
        if partition.policy.name() == target {
            return;
        }
        match partition.fresh_policy(target) {
            Ok(_) => {
                let sched = target.clone();
                partition.switching = Some(Switching { sched, queue: Vec::new() });
            }
            Err(error) => {
                tracing::error!(partition = %name, %error, "its policy cannot change");
            }
        }
    }

    /// Records in ended jobs the policy that their partition was configured with, if that was
    /// edited.
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

    fn warn_if_set(&self, partition: &Partition) {
        let name = &partition.name;
        if let Some(configured) = self.unset_sched(partition) {
            let set = partition.next_sched().unwrap_or(partition.policy.name());
            tracing::warn!(
                partition = %name, set, %configured,
                "its policy was set at work and differs from the configuration; `storm partition \
                 set-sched {name} --reset` restores it"
            );
        }
        if let Some(configured_us) = self.unset_quantum_us(partition) {
            let set_us = u64::from(partition.params.quantum_us);
            tracing::warn!(
                partition = %name, set_us, configured_us,
                "its quantum was set at work and differs from the configuration; `storm partition \
                 set-quantum {name} --reset` restores it"
            );
        }
    }
}
