//! No job loses PEs without need, or to a job that may not take them.

use super::{Invariant, Violation};
use crate::suite::{Running, Step, World, oracle};
use crate::{Action, Event, JobId, JobRequest, NodeIndex, Pe, PreemptMode, SchedTime};

/// A job is preempted only for a job that may preempt its quality of service, in its own mode, and
/// no victim could have been spared.
#[derive(Debug)]
pub struct PreemptionLawful;

#[derive(Debug, thiserror::Error)]
enum Unlawful {
    #[error("job {victim} is preempted and does not run")]
    NotRunning { victim: JobId },
    #[error("job {victim} is preempted for job {by}, which did not wait")]
    NotWaiting { victim: JobId, by: JobId },
    #[error("job {victim} is preempted for job {by}, which may not do so")]
    NotOver { victim: JobId, by: JobId },
    #[error("job {victim} is preempted by mode {mode}, which is not its own")]
    OtherMode { victim: JobId, mode: PreemptMode },
    #[error("job {by} could have started without the end of job {victim}")]
    NoNeed { victim: JobId, by: JobId },
    #[error("job {0} waits without a reason")]
    NoReason(JobId),
}

impl Invariant for PreemptionLawful {
    fn name(&self) -> &'static str {
        "only permitted jobs preempt others, and only if they need to"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut before = step.before.clone();
        before.apply(step.event, &[]);
        for action in step.actions {
            if let Action::Preempt { job, mode, by } = action {
                check_one(step, &before, *job, *mode, *by)?;
            }
        }
        let silent = |request: &&JobRequest| step.policy.explain(step.now, request.id).is_none();
        match step.after.queue.iter().find(silent) {
            Some(request) => Err(Unlawful::NoReason(request.id).into()),
            None => Ok(()),
        }
    }
}

fn check_one(
    step: &Step<'_>,
    before: &World,
    victim: JobId,
    mode: PreemptMode,
    by: JobId,
) -> Result<(), Unlawful> {
    let running = before.running.get(&victim).filter(|_| !before.ending.contains(&victim));
    let running = running.map(|running| &running.request);
    // A job that starts may have had to make room in the same instant.
    let started = before.queue.iter().find(|request| request.id == victim);
    let started = started.filter(|_| step.actions.iter().any(|action| is_start(action, victim)));
    let stops = running.or(started).ok_or(Unlawful::NotRunning { victim })?;
    let waits = before.queue.iter().find(|request| request.id == by);
    let request = waits.ok_or(Unlawful::NotWaiting { victim, by })?;
    if !request.is_over(stops) {
        return Err(Unlawful::NotOver { victim, by });
    }
    let own = stops.precedence.as_ref().and_then(|precedence| precedence.mode);
    if own != Some(mode) {
        return Err(Unlawful::OtherMode { victim, mode });
    }
    // Only steps are judged in which no room is promised or given to other jobs.
    let urgent = before.queue.iter().filter(|request| request.may_preempt()).count();
    let alone = urgent == 1
        && started.is_none()
        && before.ending.is_empty()
        && step.actions.iter().all(|action| match action {
            Action::Start { job, .. } => *job == by,
            Action::Preempt { by: other, .. } => *other == by,
            Action::Resume { .. } => false,
            _ => true,
        });
    // Among rows, [`super::NobodySpared`] checks the same.
    let one_row = step.policy.quantum().is_none();
    if !alone || !one_row || !request.is_plain() || matches!(step.event, Event::SetQuantum(_)) {
        return Ok(());
    }
    let of_step = |job: JobId| {
        step.actions
            .iter()
            .any(|action| matches!(action, Action::Preempt { job: j, .. } if *j == job))
    };
    let keeps = |(job, running): &(&JobId, &Running)| {
        let stopped = before.suspended.contains_key(*job);
        let yields = if stopped { request.is_over(&running.request) } else { of_step(**job) };
        **job == victim || !yields
    };
    let others = before.running.iter().chain(&before.suspended).filter(keeps);
    let kept = others.flat_map(|(_, running)| oracle::held_pes(&before.machine, running));
    let closed = reserved_pes(before, step.now, request);
    let free = oracle::free_pes(&before.machine, kept.chain(closed));
    let spared = free.into_iter().filter(|free| *free).count() as u32;
    if spared >= request.procs {
        return Err(Unlawful::NoNeed { victim, by });
    }
    Ok(())
}

/// The PEs that reservations keep from a job that starts now.
fn reserved_pes(world: &World, now: SchedTime, request: &JobRequest) -> Vec<Pe> {
    let until = request.time_limit.map_or(SchedTime::from_nanos(u64::MAX), |limit| now + limit);
    let closed = |node: NodeIndex| {
        world.reserved(now).any(|window| {
            let inside = window.nodes.contains(&node);
            if request.reservation == Some(window.id) {
                window.start > now || !inside
            } else {
                inside && window.meets(now, until.max(SchedTime::from_nanos(now.as_nanos() + 1)))
            }
        })
    };
    let pes = (0..world.machine.pes()).map(Pe);
    pes.filter(|pe| world.machine.node_of(*pe).is_some_and(closed)).collect()
}

fn is_start(action: &Action, started: JobId) -> bool {
    matches!(action, Action::Start { job, .. } if *job == started)
}
