//! The reasons why jobs wait under space sharing.

use std::collections::HashMap;

use crate::shape::Shape;
use crate::space::{Passing, ROW, Space};
use crate::{Ahead, JobId, JobRequest, Matrix, PendingReason, Shortage};

impl Space {
    /// Why a job waits; `None` when it does not wait.
    pub(crate) fn explain(&self, passing: Passing, job: JobId) -> Option<PendingReason> {
        if self.has_reservations() {
            return self.explain_among(passing, job);
        }
        let request = self.queue().get(job)?;
        let shortage = self.shortage(request);
        let ahead = match passing {
            Passing::Never | Passing::Harmless => self.queue().ahead_of(job),
            Passing::Shortest => {
                let mut shorter = self.queue().iter_shortest_first().map(|request| request.id);
                let first = shorter.next().filter(|first| *first != job);
                let others =
                    |first| Ahead { first, others: shorter.take_while(|j| *j != job).count() };
                first.map(others)
            }
        };
        let reason = reason(passing, ahead, shortage)?;
        Some(self.with_preemption(request, reason, self.without_kept().as_ref()))
    }

    /// Why each job waits, in queue order.
    pub(crate) fn explain_all(&self, passing: Passing) -> Vec<(JobId, PendingReason)> {
        if self.has_reservations() {
            return self.explain_all_among(passing);
        }
        let ids = |request: &JobRequest| request.id;
        let order: Vec<JobId> = match passing {
            Passing::Never | Passing::Harmless => self.queue().iter().map(ids).collect(),
            Passing::Shortest => self.queue().iter_shortest_first().map(ids).collect(),
        };
        let trial = self.without_kept();
        let place: HashMap<JobId, usize> = order.iter().copied().zip(0..).collect();
        let reason = |request: &JobRequest| {
            let others = place.get(&request.id)?.checked_sub(1);
            let ahead = others.map(|others| Ahead { first: order[0], others });
            let reason = reason(passing, ahead, self.shortage(request))?;
            Some((request.id, self.with_preemption(request, reason, trial.as_ref())))
        };
        self.queue().iter().filter_map(reason).collect()
    }

    /// The reason of a job. If preemption causes the wait, the reason tells so: jobs are being
    /// ended for this job, or idle PEs that it lacks are withheld for suspended jobs. A matrix in
    /// which nothing is withheld reveals the second case.
    fn with_preemption(
        &self,
        request: &JobRequest,
        reason: PendingReason,
        without_kept: Option<&Matrix>,
    ) -> PendingReason {
        let mut ending = self.ending_for(request.id);
        if let Some(first) = ending.next() {
            return PendingReason::MakingRoom { first, others: ending.count() };
        }
        let lacks = match &reason {
            PendingReason::Resources(shortage @ Shortage::Busy { .. }) => Some(shortage),
            _ => None,
        };
        let mut kept = self.kept_for(request);
        match (lacks, kept.next()) {
            (Some(shortage), Some(first))
                if without_kept.is_some_and(|matrix| self::shortage(matrix, request).is_none()) =>
            {
                let shortage = shortage.clone();
                PendingReason::Kept { shortage, first, others: kept.count() }
            }
            _ => reason,
        }
    }

    /// The shortage that keeps a job from starting at this moment.
    fn shortage(&self, request: &JobRequest) -> Option<Shortage> {
        // PEs promised to other jobs count as held.
        shortage(&self.partition().matrix, request).or_else(|| self.promised(request))
    }

    /// The shortage of a job because of PEs that are promised to others or kept for them.
    pub(super) fn promised(&self, request: &JobRequest) -> Option<Shortage> {
        if !self.is_preempting() && !self.queue().may_preempt() {
            return None;
        }
        let counts = request.is_plain() && !self.is_due(request.id) && !self.has_reservations();
        let free = if counts { self.idle_pes() } else { 0 };
        let shortfall = Shape::shortfall_of_pes(request.pes(), free)?;
        Some(Shortage::Busy { shortfall, up_pes: self.machine().usable_pes() })
    }
}

pub(super) fn shortage(matrix: &Matrix, request: &JobRequest) -> Option<Shortage> {
    if let Some(unavailable) = matrix.unavailable(request) {
        return Some(unavailable);
    }
    let shortfall = matrix.row_shortfall(ROW, Shape::of(request))?;
    Some(Shortage::Busy { shortfall, up_pes: matrix.machine().usable_pes() })
}

pub(super) fn reason(
    passing: Passing,
    ahead: Option<Ahead>,
    shortage: Option<Shortage>,
) -> Option<PendingReason> {
    match (passing, ahead, shortage) {
        (_, None, Some(shortage)) => Some(PendingReason::Resources(shortage)),
        (Passing::Never, Some(ahead), shortage) => {
            Some(PendingReason::Priority { ahead, shortage })
        }
        (Passing::Shortest, Some(ahead), shortage) => {
            Some(PendingReason::Shorter { ahead, shortage })
        }
        (Passing::Harmless, Some(ahead), Some(shortage)) => {
            Some(PendingReason::Priority { ahead, shortage: Some(shortage) })
        }
        (Passing::Harmless, ahead, None) => Some(PendingReason::WouldDelay { ahead }),
        // Without a shortage, such a head would have been started.
        (Passing::Never | Passing::Shortest, None, None) => None,
    }
}
