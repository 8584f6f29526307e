//! Walks of all queues for listings of jobs.

use super::{Partitions, sched_time};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::JobId;
use storm_sched::{PendingReason, SchedTime};

/// How long the parts of listings share one walk of the queues. The reasons and estimates in the
/// last part of a long listing are at most this old.
const WALK_LASTS: Duration = Duration::from_secs(1);

/// The policies' reasons and estimates for the jobs that wait for elements, from one walk of all
/// queues.
#[derive(Default)]
pub(in crate::manager) struct Waiting {
    pub(in crate::manager) reasons: HashMap<JobId, PendingReason>,
    /// `None`: query the policy for each job.
    pub(in crate::manager) starts: Option<HashMap<JobId, SchedTime>>,
}

/// The last walk of all queues for a listing.
#[derive(Default)]
pub(super) struct LastWalk {
    found: Option<(Instant, Arc<Waiting>)>,
    /// Something may have changed since: a listing that begins needs a walk of its own.
    outdated: bool,
}

impl Partitions {
    /// The reason and the estimated start of each job that waits for elements.
    pub(in crate::manager) fn walk(&self, now: Instant) -> Waiting {
        let time = sched_time(now);
        let reasons = self.iter().flat_map(|partition| partition.policy().explain_all(time));
        let starts = self.iter().flat_map(|partition| partition.policy().estimate_all(time));
        Waiting { reasons: reasons.collect(), starts: Some(starts.collect()) }
    }

    /// The result of the walk for an earlier part of a listing, if that walk is recent enough;
    /// otherwise of a new walk. For the first part of a listing nothing may have changed since.
    pub(in crate::manager) fn last_walk(&mut self, now: Instant, is_first: bool) -> Arc<Waiting> {
        if let Some((at, waiting)) = &self.last_walk.found
            && now.saturating_since(*at) <= WALK_LASTS
            && !(is_first && self.last_walk.outdated)
        {
            return waiting.clone();
        }
        let waiting = Arc::new(self.walk(now));
        self.last_walk = LastWalk { found: Some((now, waiting.clone())), outdated: false };
        waiting
    }

    /// Something may have changed since the last walk.
    pub(in crate::manager) fn outdate_walk(&mut self) {
        self.last_walk.outdated = true;
    }
}
