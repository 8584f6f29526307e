//! The part in which one space-sharing policy differs from another.

use crate::space::Space;
use crate::{InvariantViolation, JobId, SchedTime};

/// The latest start that is named: ten years from now. Later ones rest on jobs without a time limit
/// ([`crate::space::UNLIMITED_ESTIMATE`]).
const HORIZON: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 3600);

/// Which job starts when: the heart of a space-sharing policy.
///
/// Same events, same decisions: no clock and no random number.
pub trait Discipline: Send {
    /// The name that the registry knows the policy by.
    fn name(&self) -> &'static str;

    /// The order whose first job is the next to start.
    fn order(&self) -> Order {
        Order::Queue
    }

    /// Whether [`Order::ShortestFirst`] is used, so that it must be kept.
    fn keeps_estimates(&self) -> bool {
        self.order() == Order::ShortestFirst
    }

    /// Which jobs pass which, for the reasons that users read.
    fn passing(&self) -> Passing;

    /// Decides, with [`Space::offer`] and [`Space::start`], on what has
    /// happened: one event, or all of one instant when the driver asks for one
    /// decision.
    fn decide(&mut self, space: &mut Space, news: &[News]);

    /// Decides on the jobs of an active reservation, which are a queue of their own: [`Space`]
    /// shows these jobs only, and they have the nodes of the reservation. A discipline that
    /// remembers its promises decides here without them.
    fn decide_apart(&mut self, space: &mut Space, news: &[News]) {
        self.decide(space, news);
    }

    /// When a job that waits is to start by the estimates, where that is
    /// known. By default it is known of the first in [`Discipline::order`].
    fn start_of(&self, space: &Space, job: JobId) -> Option<SchedTime> {
        let head = space.head(self.order()).filter(|head| head.job() == job)?;
        if head.fits() { Some(space.now()) } else { head.shadow().map(|shadow| shadow.at()) }
    }

    /// [`Discipline::start_of`] for all jobs whose start is known, at a cost linear in the queue. A
    /// discipline that knows more than the first job's start overrides this as well.
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

/// An order of the jobs that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The order of the queue: by priority, then by submission.
    Queue,
    /// The shortest estimate first, among equals that of the queue.
    ShortestFirst,
}

/// Which jobs pass which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// None: the first of the queue is the next to start.
    Never,
    /// Any job that fits and delays no protected job ahead of it.
    Harmless,
    /// The shortest estimate is the next to start.
    Shortest,
}

/// The decision on a waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start it, if it fits.
    Start,
    /// Let it wait and look at the next one.
    Wait,
    /// Let it wait and all that come after it.
    Stop,
}

/// An event since the last decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A job has come.
    Submitted(JobId),
    /// A job gave its PEs back.
    Finished {
        /// The job.
        job: JobId,
    },
    /// A job that waited was withdrawn.
    Withdrawn(JobId),
    /// A running job was taken over.
    Restored,
    /// A job has another place in the queue.
    Reordered,
    /// Nodes take work that did not, or the other way round.
    MachineChanged,
    /// Reservations came, began, ended or were taken back.
    ReservationsChanged,
    /// Jobs that were due did not get their PEs in the instant of the decision:
    /// they wait again, to be decided on anew.
    Late,
}

/// A start that is near enough to be named.
pub(crate) fn nameable(now: SchedTime, start: SchedTime) -> Option<SchedTime> {
    (start.since(now) <= HORIZON).then_some(start.max(now))
}
