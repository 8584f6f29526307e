//! The holders of the processing elements that a job waits for.

use super::Core;
use super::partitions::sched_time;
use crate::api::Holder;
use crate::job::{JobRecord, Phase};
use jiff::Timestamp;
use storm_primitives::Instant;
use storm_rm::JobId;
use storm_sched::{PendingReason, Shortage};

/// The number of holders that are named: a job waits for those that end first.
const NAMED_MAX: usize = 8;

impl Core {
    /// The jobs that hold the elements which a job waits for, and how many more there are; none if
    /// it waits for something else.
    pub(super) fn element_holders(&self, now: Instant, record: &JobRecord) -> (Vec<Holder>, usize) {
        let Some(partition) = self.partitions.id_of(&record.partition) else {
            return Default::default();
        };
        let entry = &self.partitions[partition];
        let reason = match record.phase {
            Phase::Pending => entry.policy().explain(sched_time(now), record.id),
            Phase::Starting | Phase::Running | Phase::Ending(_) | Phase::Ended(_) => None,
        };
        if !reason.as_ref().is_some_and(waits_for_others) {
            return Default::default();
        }
        let request = super::admission::request_of(record.id, &record.spec);
        let machine = entry.policy().machine();
        let may_have = |node| {
            let node = entry.index_of(node).and_then(|index| machine.node(index));
            node.is_some_and(|node| request.may_have(node))
        };
        let here = self.live.of(partition);
        let here = here.filter(|(job, live)| !live.is_released() && !self.is_suspended(*job));
        let mut holders: Vec<Holder> = here
            .filter(|(_, live)| live.place_nodes().iter().any(may_have))
            .filter_map(|(job, _)| self.holder(now, job, record.spec.owner.uid))
            .collect();
        holders.sort_by_key(|holder| (holder.until.unwrap_or(Timestamp::MAX), holder.job));
        let more = holders.len().saturating_sub(NAMED_MAX);
        holders.truncate(NAMED_MAX);
        (holders, more)
    }

    fn holder(&self, now: Instant, job: JobId, of_uid: u32) -> Option<Holder> {
        let (record, live) = (self.jobs.get(&job)?, self.live.get(job)?);
        let partition = &self.partitions[live.partition()];
        // The share of time that a row among several will get is unknown.
        let limit = record.spec.time_limit.filter(|_| partition.runs_all());
        let until = limit.map(|limit| self.wall(now + limit.saturating_sub(live.run_time(now))));
        Some(Holder {
            job,
            array: record.task,
            same_user: record.spec.owner.uid == of_uid,
            state: record.state(),
            pes: live.placement().map_or(0, |placement| placement.pes().len() as u32),
            until,
        })
    }
}

/// The holders in words, a line each.
pub(super) fn lines(holders: &[Holder], more: usize) -> Vec<String> {
    let name = |holder: &Holder| match holder.array {
        Some(task) => task.to_string(),
        None => holder.job.to_string(),
    };
    let line = |holder: &Holder| {
        let (name, pes) = (name(holder), holder.pes);
        let whose = if holder.same_user { "" } else { ", another user's," };
        let until = match holder.until {
            Some(until) => format!("until {} at the latest", until.strftime("%Y-%m-%dT%H:%M:%SZ")),
            None => "and nothing says until when".to_owned(),
        };
        format!("job {name}{whose} holds {pes} PEs {until}")
    };
    let and_more = (more > 0).then(|| format!("{more} more jobs hold PEs that it could have"));
    holders.iter().map(line).chain(and_more).collect()
}

/// Whether jobs on the machine hold the elements that it lacks, or will need at its turn.
fn waits_for_others(reason: &PendingReason) -> bool {
    match reason.shortage() {
        Some(Shortage::Busy { .. } | Shortage::MatrixFull { .. }) => true,
        Some(Shortage::Unavailable { .. }) | None => false,
    }
}
