//! No job is placed while it is held, before its time, before the jobs that it depends on, or
//! beyond the limit of its array. The check reads the journal again from its beginning.

use crate::api::JobState;
use crate::job::{JobEvent, JobEventKind, JobRecord, Phase};
use crate::journal::Entry;
use crate::manager::model::world::World;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use storm_rm::{ArrayTask, Condition, JobId};

type Records = BTreeMap<JobId, JobRecord>;

pub(super) fn check(world: &World) -> Result<(), String> {
    let mut records = Records::new();
    for (job, event) in world.journal.iter().filter_map(Entry::of_job) {
        if matches!(event.kind, JobEventKind::Placed { .. }) {
            let record = records.get(&job).ok_or("an unknown job is placed")?;
            may_start(record, event, &records)?;
        }
        match records.get_mut(&job) {
            Some(record) => record.apply(event),
            None => {
                let made = JobRecord::from_first(job, event);
                records.extend(made.into_iter().map(|record| (record.id, record)));
            }
        }
    }
    Ok(())
}

fn may_start(record: &JobRecord, event: &JobEvent, records: &Records) -> Result<(), String> {
    let (job, needs) = (record.id, &record.spec.needs);
    if record.hold.is_some() {
        return Err(format!("job {job} starts although it is held"));
    }
    if needs.begin.is_some_and(|begin| event.at < begin) {
        return Err(format!("job {job} starts before its time"));
    }
    if let Some(needed) = &needs.dependency {
        let holds = |condition: &Condition| is_met(*condition, record, event.at, records);
        let met = match needed.any {
            true => needed.conditions.iter().any(holds),
            false => needed.conditions.iter().all(holds),
        };
        if !met {
            return Err(format!("job {job} starts before {needed}"));
        }
    }
    let limit = needs.array.as_ref().and_then(|array| array.limit);
    if let (Some(task), Some(limit)) = (record.task, limit) {
        let runs = |other: &&JobRecord| {
            other.task.is_some_and(|other| other.array == task.array)
                && !matches!(other.phase, Phase::Pending | Phase::Ended(_))
        };
        if records.values().filter(runs).count() >= limit as usize {
            return Err(format!("job {job} starts beyond the limit of its array"));
        }
    }
    Ok(())
}

fn is_met(condition: Condition, record: &JobRecord, now: Timestamp, records: &Records) -> bool {
    match condition {
        Condition::After { job: on, minutes } => {
            let mut units = records.values().filter(|other| other.id == on || other.unit() == on);
            let delay = SignedDuration::from_mins(i64::from(minutes));
            units.all(|other| other.begun.or(other.ended).is_some_and(|at| at + delay <= now))
        }
        Condition::AfterCorr(array) => {
            let task = record.task.map(|task| ArrayTask { array, ..task });
            let other = records.values().find(|other| task.is_some() && other.task == task);
            other.and_then(end_of) == Some(true)
        }
        Condition::AfterOk(on) | Condition::AfterAny(on) | Condition::AfterNotOk(on) => {
            let mut ends =
                records.values().filter(|other| other.id == on || other.unit() == on).map(end_of);
            let completed = ends.try_fold(true, |all, end| end.map(|completed| all && completed));
            completed.is_some_and(|completed| condition.holds_after(completed))
        }
        Condition::Singleton => records.values().all(|other| {
            let same = other.spec.name == record.spec.name
                && other.spec.owner.uid == record.spec.owner.uid;
            !same || other.unit() >= record.unit() || end_of(other).is_some()
        }),
    }
}

/// Whether a job has ended, and then whether it is COMPLETED.
fn end_of(record: &JobRecord) -> Option<bool> {
    match &record.phase {
        Phase::Ended(outcome) => Some(outcome.state == JobState::Completed),
        _ => None,
    }
}
