//! The partition and the number of nodes of a job that leaves the manager a choice.

use super::Core;
use super::admission::request_of;
use super::partitions::Partition;
use crate::api::{ApiError, ErrorCode};
use storm_rm::{JobId, JobSpec, PartitionId};
use storm_sched::JobRequest;

impl Core {
    /// The partition of a job. If the job names several, the first of them in which it could start
    /// at once, else the one with the fewest waiting jobs. The choice is final: a policy plans
    /// with the jobs that it has.
    pub(super) fn choose_partition(&self, spec: &JobSpec) -> Result<PartitionId, ApiError> {
        let offered = || {
            let list = self.partitions.iter();
            let list =
                list.map(|p| format!("{} ({} on {})", p.name(), p.policy().name(), p.node_list()));
            list.collect::<Vec<_>>().join(", ")
        };
        let policy = |name| self.config.policies.canonical(name).unwrap_or(name);
        let matches = |partition: &&Partition| {
            spec.sched.as_deref().is_none_or(|sched| partition.policy().name() == policy(sched))
                && names(spec).is_none_or(|mut names| names.any(|name| name == partition.name()))
        };
        let candidates: Vec<_> = self.partitions.iter().filter(matches).collect();
        let unknown = names(spec)
            .and_then(|mut names| names.find(|name| self.partitions.id_of(name).is_none()));
        let several = names(spec).is_some_and(|names| names.count() > 1);
        let chosen = match (several, unknown) {
            (true, Some(_)) => None,
            (true, None) => self.soonest(spec, &candidates),
            (false, _) => {
                candidates.iter().find(|partition| partition.is_default()).or(candidates.first())
            }
        };
        if let Some(id) = chosen.and_then(|partition| self.partitions.id_of(partition.name())) {
            return Ok(id);
        }
        let error = match (unknown, spec.sched.as_deref()) {
            (Some(name), _) => {
                ApiError::new(ErrorCode::NoSuchPartition, format!("there is no partition {name:?}"))
            }
            (None, Some(sched)) => {
                let place = match &spec.partition {
                    Some(name) => format!("partition {name:?} does not run"),
                    None => "no partition runs".to_owned(),
                };
                ApiError::new(ErrorCode::NoSuchPolicy, format!("{place} the policy {sched:?}"))
            }
            (None, None) => ApiError::new(ErrorCode::NoSuchPartition, "there is no partition"),
        };
        Err(error.hint(format!("there are: {}", offered())))
    }

    /// The best of these partitions for a job, in the order in which the job names them.
    fn soonest<'a, 'p>(
        &self,
        spec: &JobSpec,
        candidates: &'a [&'p Partition],
    ) -> Option<&'a &'p Partition> {
        let rank = |partition: &Partition| {
            let place = names(spec)?.position(|name| name == partition.name())?;
            let mut spec = spec.clone();
            fit_nodes(partition, &mut spec);
            let request = request_of(JobId(0), &spec);
            let possible = storm_sched::feasible(partition.policy().machine(), &request).is_ok();
            let waiting = waiting(partition);
            let now = starts_at_once(partition, &request);
            Some((!possible, !now, waiting, place))
        };
        candidates.iter().min_by_key(|partition| rank(partition))
    }

    /// Gives a job that allows several numbers of nodes the smallest on which its partition can
    /// run it. Policies see one number: the processes of each node follow from it.
    pub(super) fn choose_nodes(&self, partition: PartitionId, spec: &mut JobSpec) {
        fit_nodes(&self.partitions[partition], spec);
    }
}

/// The partitions that a job names.
fn names(spec: &JobSpec) -> Option<impl Iterator<Item = &str>> {
    Some(spec.partition.as_deref()?.split(','))
}

fn fit_nodes(partition: &Partition, spec: &mut JobSpec) {
    let (Some(least), Some(most)) = (spec.nodes, spec.resources.nodes_max) else { return };
    let machine = partition.policy().machine();
    let request = request_of(JobId(0), spec);
    let required = request.choice.as_ref().map_or(0, |choice| choice.required.len() as u32);
    let fewest = storm_sched::fewest_nodes(machine, &request, least.max(required)..=most);
    spec.nodes = fewest.or(spec.nodes);
}

/// The number of jobs that wait in a partition.
fn waiting(partition: &Partition) -> usize {
    partition.policy().pending_count() + partition.queue_of_next().len()
}

/// Whether a job would start at once in a partition.
pub(super) fn starts_at_once(partition: &Partition, request: &JobRequest) -> bool {
    waiting(partition) == 0 && has_room(partition, request)
}

/// Whether a partition without waiting jobs has elements enough for a job.
fn has_room(partition: &Partition, request: &JobRequest) -> bool {
    let policy = partition.policy();
    let (rows, pes) = (policy.rows(), request.pes());
    let new_row = (rows.len() as u32) < partition.rows_max();
    (new_row && policy.machine().usable_pes() >= pes) || rows.iter().any(|row| row.free_pes >= pes)
}
