//! The configured settings of partitions, and the settings that replaced them at run time. The
//! methods find the settings that hold after a restart, and the settings that differ
//! (`docs/decisions/0133`).

use super::{Partition, Partitions};
use crate::cluster::{PartitionConfigured, PartitionSetting};
use std::collections::BTreeMap;
use std::time::Duration;

use storm_sched::Quantum;

/// Users are warned of longer slices: a person at a terminal does not wait that long for a turn.
const LONG_SLICE: Duration = Duration::from_secs(60);

impl Partitions {
    /// Applies the settings of the journal.
    pub(in crate::manager) fn set_settings(
        &mut self,
        settings: &BTreeMap<String, PartitionSetting>,
    ) {
        self.settings.clone_from(settings);
    }

    /// Applies the configuration of the journal.
    pub(in crate::manager) fn set_configured(
        &mut self,
        configured: &BTreeMap<String, PartitionConfigured>,
    ) {
        self.configured.clone_from(configured);
    }

    #[cfg(test)]
    pub(in crate::manager) fn settings(&self) -> &BTreeMap<String, PartitionSetting> {
        &self.settings
    }

    /// The latest known configuration of each partition.
    pub(in crate::manager) fn configured(&self) -> &BTreeMap<String, PartitionConfigured> {
        &self.configured
    }

    /// The latest known configuration of the partition of this name.
    pub(in crate::manager) fn configured_of(&self, name: &str) -> Option<&PartitionConfigured> {
        self.configured.get(name)
    }

    /// The configured policy of a partition, if another was set at run time.
    pub(in crate::manager) fn unset_sched(&self, partition: &Partition) -> Option<String> {
        let configured = &self.configured.get(partition.name())?.sched;
        let present = partition.next_sched().unwrap_or(partition.policy().name());
        (present != configured).then(|| configured.clone())
    }

    /// The configured quantum of a partition in microseconds, if another was set at run time.
    pub(in crate::manager) fn unset_quantum_us(&self, partition: &Partition) -> Option<u64> {
        let configured = self.configured.get(partition.name())?.quantum_us;
        (u64::from(partition.params().quantum_us) != configured).then_some(configured)
    }

    /// The settings that differ from the configuration, if they are not yet in the journal.
    pub(in crate::manager) fn unnoted_settings(
        &self,
    ) -> Option<BTreeMap<String, PartitionSetting>> {
        let setting = |partition: &Partition| PartitionSetting {
            sched: partition.policy().name().to_owned(),
            quantum_us: partition.params().quantum_us.into(),
            next_sched: partition.next_sched().map(str::to_owned),
        };
        let differs = |partition: &&Partition| {
            self.configured.get(partition.name()).is_none_or(|configured| {
                let set = setting(partition);
                set.next_sched.is_some()
                    || set.sched != configured.sched
                    || set.quantum_us != configured.quantum_us
            })
        };
        // The settings of partitions that are not configured now are kept until those partitions
        // are configured again.
        let absent = self.settings.iter().filter(|(name, _)| self.named(name).is_none());
        let absent = absent.map(|(name, setting)| (name.clone(), setting.clone()));
        let present = self.iter().filter(differs);
        let settings: BTreeMap<String, PartitionSetting> = present
            .map(|partition| (partition.name().to_owned(), setting(partition)))
            .chain(absent)
            .collect();
        (settings != self.settings).then_some(settings)
    }

    /// Restores the settings that were in force under a former manager, from the journal. `given`
    /// is the present configuration. A setting that was edited in the configuration since then
    /// overrides the setting of the run time. An edited policy takes over like a policy set at run
    /// time, since jobs may be running.
    pub(in crate::manager) fn restore_settings(
        &mut self,
        given: &BTreeMap<String, PartitionConfigured>,
    ) {
        for name in self.settings.keys().filter(|name| !given.contains_key(*name)) {
            tracing::warn!(partition = %name, "a partition that was changed at work is no longer \
                                               configured");
        }
        for id in self.ids() {
            let name = self[id].name().to_owned();
            let set = self.settings.get(&name).cloned();
            if let Some(own) = given.get(&name) {
                let former = self.configured.get(&name).cloned();
                restore(self.get_mut(id), own, former.as_ref(), set);
            }
        }
    }

    /// Warns of the settings that differ from the configuration.
    pub(in crate::manager) fn warn_of_settings(&self) {
        for partition in self.iter() {
            let name = partition.name();
            if let Some(configured) = self.unset_sched(partition) {
                let set = partition.next_sched().unwrap_or(partition.policy().name());
                tracing::warn!(
                    partition = %name, set, %configured,
                    "its policy was set at work and differs from the configuration; `storm \
                     partition set-sched {name} --reset` restores it"
                );
            }
            if let Some(configured_us) = self.unset_quantum_us(partition) {
                let set_us = u64::from(partition.params().quantum_us);
                tracing::warn!(
                    partition = %name, set_us, configured_us,
                    "its quantum was set at work and differs from the configuration; `storm \
                     partition set-quantum {name} --reset` restores it"
                );
            }
        }
    }
}

impl Partition {
    /// The warning to users of a partition with very long slices.
    pub(in crate::manager) fn slice_warning(&self) -> Option<String> {
        let quantum = self.policy().quantum().filter(|quantum| *quantum > LONG_SLICE)?;
        let seconds = quantum.as_secs();
        let rows = self.policy().rows().len();
        let now = match rows {
            0 | 1 => "as soon as a second row holds jobs".to_owned(),
            rows => format!("of the {rows} rows that hold jobs now"),
        };
        Some(format!(
            "a slice lasts {seconds} s: {now}, the jobs of one row run for that time, and the jobs \
             of the others are stopped"
        ))
    }
}

/// `own` is the present configuration, `former` the configuration of the manager before, and `set`
/// the settings that were in force under that manager.
fn restore(
    partition: &mut Partition,
    own: &PartitionConfigured,
    former: Option<&PartitionConfigured>,
    set: Option<PartitionSetting>,
) {
    let edited = |key: fn(&PartitionConfigured) -> String| {
        former.is_some_and(|former| key(former) != key(own))
    };
    let sched_edited = edited(|configured| configured.sched.clone());
    let quantum_edited = edited(|configured| configured.quantum_us.to_string());
    let name = partition.name().to_owned();
    let set_quantum = set.as_ref().and_then(|set| Quantum::try_from(set.quantum_us).ok());
    match set_quantum {
        Some(_) if quantum_edited => tracing::warn!(
            partition = %name, quantum_us = own.quantum_us,
            "quantum was edited in the configuration: the value set at work no longer counts"
        ),
        Some(quantum) => partition.set_quantum(quantum),
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
        Ok(policy) => partition.install(policy),
        Err(error) => {
            tracing::error!(partition = %name, %error, "its configured policy remains");
        }
    }
    if partition.policy().name() == target {
        return;
    }
    match partition.fresh_policy(target) {
        Ok(_) => partition.begin_switch(target, Vec::new()),
        Err(error) => {
            tracing::error!(partition = %name, %error, "its policy cannot change");
        }
    }
}
