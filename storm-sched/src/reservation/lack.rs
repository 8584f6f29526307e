//! Why a job waits among reservations.

use crate::reservation::{Book, Pool};
use crate::{JobRequest, Matrix, PendingReason, SchedTime, Shortage};

/// The reason for a job's wait.
#[derive(Debug)]
pub(crate) enum Lack {
    /// The job waits because of reservations.
    Reserved(PendingReason),
    /// The job lacks room, or, if `None`, only its turn.
    Room(Option<Shortage>),
}

impl Lack {
    /// The lack of a job that would start at `now` and end by `until`. The `shortage` of the job is
    /// looked up in the matrix `trial`, whose nodes may be closed meanwhile.
    pub(crate) fn of(
        request: &JobRequest,
        book: &Book,
        trial: &mut Matrix,
        (now, until): (SchedTime, SchedTime),
        shortage: impl Fn(&Matrix, &JobRequest) -> Option<Shortage>,
    ) -> Self {
        let pool = book.pool_of(request);
        if let (Pool::Before(reservation), Some(own)) = (pool, book.own(request)) {
            let start = own.start;
            return Self::Reserved(PendingReason::NotBegun { reservation, start });
        }
        trial.close_only(&[]);
        let whole = shortage(trial, request);
        if whole.is_some() {
            return Self::Room(whole);
        }
        trial.close_only(&book.closed(trial.machine(), request, now, until));
        let within = shortage(trial, request);
        trial.close_only(&[]);
        match (within, pool, book.in_the_way(request, now, until)) {
            (None, ..) => Self::Room(None),
            (Some(_), Pool::Common | Pool::Of(_), Some(other)) => {
                let (start, end) = (other.start, other.end);
                Self::Reserved(PendingReason::Reserved { reservation: other.id, start, end })
            }
            // A job of a reservation never gets other nodes, so the reason leaves them out.
            (Some(Shortage::Unavailable { shortfall, .. }), ..) => {
                let machine = trial.machine();
                Self::Room(Some(Shortage::unavailable(machine, request, shortfall)))
            }
            (within, ..) => Self::Room(within),
        }
    }
}
