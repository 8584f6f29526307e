//! Reserved nodes are for the jobs of the reservation. No other job starts there if, by its time
//! limit, it would still run at the start of the reservation. The jobs of a reservation start on
//! its nodes while it is active. The policy asks to be woken at the start and at the end.

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, JobId, NodeIndex, ReservationId, SchedTime};

/// Reservations are kept.
#[derive(Debug)]
pub struct ReservationsKept;

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("job {job} starts on node {node}, and would be there when {reservation} has it")]
    Intruder { job: JobId, node: NodeIndex, reservation: ReservationId },
    #[error("job {job} of {reservation} starts before that begins")]
    Early { job: JobId, reservation: ReservationId },
    #[error("job {job} starts on node {node}, which is not of {reservation}")]
    Elsewhere { job: JobId, node: NodeIndex, reservation: ReservationId },
    #[error("the policy wants to be woken at {asked:?}, and something begins or ends at {turn:?}")]
    Wake { asked: Option<SchedTime>, turn: Option<SchedTime> },
}

impl Invariant for ReservationsKept {
    fn name(&self) -> &'static str {
        "reservations are kept"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        for action in step.actions {
            if let Action::Start { job, .. } = action {
                check_start(step, *job)?;
            }
        }
        let (asked, turn) = (step.policy.wake_at(), step.after.next_turn(step.now));
        if asked == turn { Ok(()) } else { Err(Broken::Wake { asked, turn }.into()) }
    }
}

fn check_start(step: &Step<'_>, job: JobId) -> Result<(), Broken> {
    let (now, world) = (step.now, step.after);
    let Some(running) = world.running.get(&job) else { return Ok(()) };
    let limit = running.request.time_limit;
    let until = limit.map_or(SchedTime::from_nanos(u64::MAX), |limit| now + limit);
    for node in running.placement.nodes() {
        for window in world.reserved(now) {
            let (own, has) =
                (running.request.reservation == Some(window.id), window.nodes.contains(&node));
            let reservation = window.id;
            match (own, has) {
                (false, true) if window.meets(now, until) => {
                    return Err(Broken::Intruder { job, node, reservation });
                }
                (true, _) if window.start > now => return Err(Broken::Early { job, reservation }),
                (true, false) => return Err(Broken::Elsewhere { job, node, reservation }),
                (false, _) | (true, true) => {}
            }
        }
    }
    Ok(())
}
