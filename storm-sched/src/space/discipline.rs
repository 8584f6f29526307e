//! The part of a space-sharing policy that differs between policies.

use crate::pending_queue::Order;
use crate::space::Space;
use crate::{InvariantViolation, JobId, SchedTime};

/// The latest start that is reported: ten years from now. Later starts depend on jobs without a
/// time limit ([`crate::space::UNLIMITED_ESTIMATE`]).
const HORIZON: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 3600);

/// Decides which job starts when. A space-sharing policy is defined by its discipline.
///
/// The same events lead to the same decisions: a discipline uses no clock and no random number.
pub trait Discipline: Send {
    /// The policy's name in the registry.
    fn name(&self) -> &'static str;

    /// The order in which jobs are to start.
    fn order(&self) -> Order {
        Order::Queue
    }

    /// Whether the policy uses [`Order::ShortestFirst`], so that the queue must keep that order.
    fn keeps_estimates(&self) -> bool {
        self.order() == Order::ShortestFirst
    }

    /// The rule by which jobs pass each other. Pending reasons explain it to users.
    fn passing(&self) -> Passing;

    /// Decides which jobs start, with [`Space::offer`] and [`Space::start`]. The news are one
    /// event, or all events of an instant when the driver asks for one decision.
    fn decide(&mut self, space: &mut Space, news: &[News]);

    /// Decides on the jobs of an active reservation, which are a queue of their own. In this call,
    /// [`Space`] shows only these jobs, with the nodes of the reservation. A discipline that
    /// remembers its promises must decide here without them.
    fn decide_apart(&mut self, space: &mut Space, news: &[News]) {
        self.decide(space, news);
    }

    /// When a waiting job will start by the estimates, if it is known. By default, only the start
    /// of the first job in [`Discipline::order`] is known.
    fn start_of(&self, space: &Space, job: JobId) -> Option<SchedTime> {
        let head = space.head(self.order()).filter(|head| head.job() == job)?;
        if head.fits() { Some(space.now()) } else { head.shadow().map(|shadow| shadow.at()) }
    }

    /// [`Discipline::start_of`] for all jobs whose start is known, at a cost linear in the queue. A
    /// discipline that knows more than the first job's start must override this method too.
    fn starts(&self, space: &Space) -> Vec<(JobId, SchedTime)> {
        let head = space.head(self.order()).map(|head| head.job());
        head.and_then(|head| Some((head, self.start_of(space, head)?))).into_iter().collect()
    }

    /// Checks the discipline's own state; slow, for tests.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self, space: &Space) -> Result<(), InvariantViolation> {
        let _ = space;
        Ok(())
    }
}

/// Which jobs pass which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// No job passes: the first job of the queue starts next.
    Never,
    /// Any job that fits, if it delays no protected job ahead of it.
    Harmless,
    /// The job with the shortest estimate starts next.
    Shortest,
}

/// The decision on a waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start it, if it fits.
    Start,
    /// Leave it waiting and consider the next job.
    Wait,
    /// Leave it and all later jobs waiting.
    Stop,
}

/// An event since the last decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A job was submitted.
    Submitted(JobId),
    /// A job gave its PEs back.
    Finished {
        /// The job.
        job: JobId,
    },
    /// A waiting job was withdrawn.
    Withdrawn(JobId),
    /// A running job was taken over.
    Restored,
    /// A job's place in the queue changed.
    Reordered,
    /// Nodes take work again, or take none any more.
    MachineChanged,
    /// Reservations came, began, ended or were taken back.
    ReservationsChanged,
    /// Due jobs did not get their PEs in the instant of the decision. They wait again, and their
    /// starts are decided again.
    Late,
}

/// The start, if it is near enough to be reported.
pub(crate) fn nameable(now: SchedTime, start: SchedTime) -> Option<SchedTime> {
    (start.since(now) <= HORIZON).then_some(start.max(now))
}
