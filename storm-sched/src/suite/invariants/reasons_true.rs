//! Each waiting job has a true reason: the head has its shortage, the others have the job ahead.
//! The numbers are counted again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Invariant, Violation};
use crate::suite::{Step, World, oracle};
use crate::{JobId, JobRequest, PendingReason, Room, SchedTime, Shortage, Shortfall};

/// Every waiting job has a true reason.
#[derive(Debug)]
pub struct ReasonsTrue;

#[derive(Debug, thiserror::Error)]
enum Untrue {
    #[error("job {0} waits for no reason")]
    NoReason(JobId),
    #[error("job {0} runs and has a reason to wait")]
    Runs(JobId),
    #[error("job {job} has {place} jobs ahead and this reason: {reason}")]
    Ahead { job: JobId, place: usize, reason: Box<PendingReason> },
    #[error("job {job}: {why}: there are {actual} in truth")]
    Count { job: JobId, why: Shortage, actual: u32 },
    #[error("job {job}: {why}, which is not a shortage")]
    Enough { job: JobId, why: Shortage },
    #[error("the reason of job {0} is that there is room for it, but there is none")]
    NoRoom(JobId),
    #[error("job {job} waits for a reservation, and there is no such one: {reason}")]
    Reservation { job: JobId, reason: Box<PendingReason> },
    #[error("the reasons of all and the reasons of each differ")]
    Differ,
    #[error("the estimates of all and the estimates of each differ")]
    EstimatesDiffer,
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
        let estimate = |job: JobId| Some((job, step.policy.estimate(step.now, job)?));
        let one_by_one: BTreeMap<JobId, SchedTime> =
            each.iter().filter_map(|(job, _)| estimate(*job)).collect();
        if one_by_one != step.policy.estimate_all(step.now).into_iter().collect() {
            return Err(Untrue::EstimatesDiffer.into());
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
    if step.after.reserved(step.now).next().is_some() {
        return check_among_reservations(step, job, reason);
    }
    match reason {
        PendingReason::Resources(why) if place == 0 || is_shortest(step, job) => {
            check_shortage(step, job, why)
        }
        PendingReason::WouldDelay { ahead }
            if place == ahead.map_or(0, |ahead| ahead.others + 1) =>
        {
            check_room(step, job)
        }
        PendingReason::Shorter { ahead, shortage } if ahead.others < step.after.queue.len() => {
            if !is_shortest(step, ahead.first) {
                return Err(Untrue::Ahead { job, place, reason: Box::new(reason.clone()) });
            }
            shortage
                .as_ref()
                .map_or_else(|| check_room(step, job), |why| check_shortage(step, job, why))
        }
        PendingReason::Priority { ahead, shortage } if place == ahead.others + 1 => {
            if step.after.queue.first().map(|head| head.id) != Some(ahead.first) {
                return Err(Untrue::Ahead { job, place, reason: Box::new(reason.clone()) });
            }
            shortage.as_ref().map_or(Ok(()), |why| check_shortage(step, job, why))
        }
        _ if names_preempted(step, reason) => Ok(()),
        _ => Err(Untrue::Ahead { job, place, reason: Box::new(reason.clone()) }),
    }
}

/// Whether the jobs that a reason names as suspended, or as being ended, are in that state.
fn names_preempted(step: &Step<'_>, reason: &PendingReason) -> bool {
    let World { suspended, ending, .. } = step.after;
    match reason {
        PendingReason::Kept { first, others, .. } => {
            suspended.contains_key(first) && *others < suspended.len()
        }
        PendingReason::MakingRoom { first, others } => {
            ending.contains(first) && *others < ending.len()
        }
        _ => false,
    }
}

/// Checks that the named jobs and nodes exist. The job ahead and the free room differ from job to
/// job.
fn check_among_reservations(
    step: &Step<'_>,
    job: JobId,
    reason: &PendingReason,
) -> Result<(), Untrue> {
    let own = step.after.queue.iter().find(|request| request.id == job);
    let own = own.and_then(|request| request.reservation);
    let is_there = match reason {
        PendingReason::Kept { .. } | PendingReason::MakingRoom { .. } => {
            names_preempted(step, reason)
        }
        PendingReason::NotBegun { reservation, start } => {
            let mut known = step.after.reserved(step.now);
            own == Some(*reservation)
                && *start > step.now
                && known.any(|known| (known.id, known.start) == (*reservation, *start))
        }
        PendingReason::Reserved { reservation, start, end } => {
            let window = (*reservation, *start, *end);
            let mut known = step.after.reserved(step.now);
            own != Some(*reservation)
                && known.any(|known| (known.id, known.start, known.end) == window)
        }
        PendingReason::Resources(_)
        | PendingReason::Priority { .. }
        | PendingReason::WouldDelay { .. }
        | PendingReason::Shorter { .. } => true,
        // No job that waits to start is suspended.
        PendingReason::Suspended { .. } => false,
    };
    let reason = || Box::new(reason.clone());
    if is_there { Ok(()) } else { Err(Untrue::Reservation { job, reason: reason() }) }
}

/// Whether no waiting job has a shorter time limit.
fn is_shortest(step: &Step<'_>, job: JobId) -> bool {
    let limit = |request: &JobRequest| request.time_limit.unwrap_or(Duration::MAX);
    let queue = &step.after.queue;
    let own = queue.iter().find(|request| request.id == job).map(limit);
    own == queue.iter().map(limit).min()
}

/// Checks that there is room on PEs that no job holds.
fn check_room(step: &Step<'_>, job: JobId) -> Result<(), Untrue> {
    let machine = &step.after.machine;
    let running = step.after.running.values();
    let free = oracle::free_pes(machine, running.flat_map(|job| oracle::held_pes(machine, job)));
    let memory = oracle::held_bytes(step.after);
    let fits = |request: &JobRequest| oracle::fits_beside(machine, &free, &memory, request);
    let request = step.after.queue.iter().find(|request| request.id == job);
    if request.is_some_and(fits) { Ok(()) } else { Err(Untrue::NoRoom(job)) }
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
            let row = rows.iter().find(|row| row.number == *closest);
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
