//! Whoever waits is told why, and it is true: the head for what it lacks, the
//! others for who is ahead, with numbers that can be counted.

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{JobId, PendingReason, Room, Shortage, Shortfall};

/// Every job that waits has a true reason.
#[derive(Debug)]
pub struct ReasonsTrue;

#[derive(Debug, thiserror::Error)]
enum Untrue {
    #[error("job {0} waits for no reason")]
    NoReason(JobId),
    #[error("job {0} runs and has a reason to wait")]
    Runs(JobId),
    #[error("job {job} has {place} jobs ahead and this reason: {reason}")]
    Ahead { job: JobId, place: usize, reason: PendingReason },
    #[error("job {job}: {why}: there are {actual} in truth")]
    Count { job: JobId, why: Shortage, actual: u32 },
    #[error("job {job}: {why}: that is no shortage")]
    Enough { job: JobId, why: Shortage },
    #[error("the reasons of all and the reasons of each differ")]
    Differ,
}

impl Invariant for ReasonsTrue {
    fn name(&self) -> &'static str {
        "every job that waits has a true reason"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut each = Vec::new();
        for (place, request) in step.after.queue.iter().enumerate() {
            let job = request.id;
            let reason = step.policy.explain(step.now, job).ok_or(Untrue::NoReason(job))?;
            check_reason(step, job, place, &reason)?;
            each.push((job, reason));
        }
        if each != step.policy.explain_all(step.now) {
            return Err(Untrue::Differ.into());
        }
        let runs = |job: &&JobId| step.policy.explain(step.now, **job).is_some();
        match step.after.running.keys().find(runs) {
            Some(job) => Err(Untrue::Runs(*job).into()),
            None => Ok(()),
        }
    }
}

fn check_reason(
    step: &Step<'_>,
    job: JobId,
    place: usize,
    reason: &PendingReason,
) -> Result<(), Untrue> {
    match reason {
        PendingReason::Resources(why) if place == 0 => check_shortage(step, job, why),
        PendingReason::Priority { ahead, shortage } if place == ahead.others + 1 => {
            if step.after.queue.first().map(|head| head.id) != Some(ahead.first) {
                return Err(Untrue::Ahead { job, place, reason: reason.clone() });
            }
            shortage.as_ref().map_or(Ok(()), |why| check_shortage(step, job, why))
        }
        _ => Err(Untrue::Ahead { job, place, reason: reason.clone() }),
    }
}

fn check_shortage(step: &Step<'_>, job: JobId, why: &Shortage) -> Result<(), Untrue> {
    let usable = step.after.usable();
    let usable = usable.into_iter().filter(|usable| *usable).count() as u32;
    let rows = step.policy.rows();
    let (shortfall, actual) = match why {
        Shortage::Unavailable { shortfall, .. } => (shortfall, Some(usable)),
        Shortage::Busy { shortfall, .. } => {
            (shortfall, Some(rows.first().map_or(usable, |row| row.free_pes)))
        }
        Shortage::MatrixFull { shortfall, closest, .. } => {
            let row = rows.iter().find(|row| row.slot == *closest);
            (shortfall, row.map(|row| row.free_pes))
        }
    };
    let Shortfall { unit, needed, have } = *shortfall;
    if have >= needed {
        return Err(Untrue::Enough { job, why: why.clone() });
    }
    match actual {
        Some(actual) if unit == Room::Pes && actual != have => {
            Err(Untrue::Count { job, why: why.clone(), actual })
        }
        _ => Ok(()),
    }
}
