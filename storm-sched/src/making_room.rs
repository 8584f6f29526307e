//! The order in which jobs may make other jobs give up room, and the choice of those other jobs.
//! Space sharing and gang scheduling share this part.
//!
//! The two differ in what room is. This module does not know.

use std::collections::{BTreeMap, BTreeSet};

use crate::reservation::Pool;
use crate::{JobRequest, Precedence, QosId};

/// The most running jobs that are considered to make room for a job.
pub(crate) const MAX_VICTIMS: usize = 1_024;

/// The qualities of service of the jobs ahead in the queue that lack room, by the nodes for which
/// they compete.
#[derive(Debug, Default)]
pub(crate) struct InVain(BTreeMap<Pool, BTreeSet<Option<QosId>>>);

impl InVain {
    /// Whether a job may preempt others and precedes all of these jobs.
    pub(crate) fn is_under(&self, pool: Pool, request: &JobRequest) -> bool {
        let preempts =
            |qos: &QosId| request.precedence.as_ref().is_some_and(|own| own.preempts.contains(qos));
        let over = |qos: &Option<QosId>| qos.as_ref().is_some_and(preempts);
        request.may_preempt() && self.0.get(&pool).is_none_or(|ahead| ahead.iter().all(over))
    }

    /// Adds a job that lacks room.
    pub(crate) fn add(&mut self, pool: Pool, request: &JobRequest) {
        self.0.entry(pool).or_default().insert(request.qos());
    }
}

/// The depth of each quality of service with waiting jobs that may preempt others: the length of
/// the chain of qualities that precede it. At depth zero, no quality precedes it.
pub(crate) fn depths<'a>(waiting: impl Iterator<Item = &'a JobRequest>) -> BTreeMap<QosId, usize> {
    let mut qualities: BTreeMap<QosId, &Precedence> = BTreeMap::new();
    for request in waiting.filter(|request| request.may_preempt()) {
        qualities.extend(request.precedence.as_deref().map(|own| (own.qos, own)));
    }
    let mut depths: BTreeMap<QosId, usize> = qualities.keys().map(|qos| (*qos, 0)).collect();
    // A chain is no longer than the number of qualities, unless they precede each other in a
    // circle.
    for _ in 0..qualities.len() {
        for (qos, own) in &qualities {
            let below = depths[qos] + 1;
            for lower in own.preempts.iter().filter(|lower| *lower != qos) {
                if let Some(depth) = depths.get_mut(lower) {
                    *depth = below.max(*depth).min(qualities.len());
                }
            }
        }
    }
    depths
}

/// The first candidates that are enough, without those that are not needed.
pub(crate) fn enough<V>(candidates: Vec<V>, are: impl Fn(&[V]) -> bool) -> Option<Vec<V>> {
    // A job that fits now waits only for room that was promised to others.
    if are(&[]) || !are(&candidates) {
        return None;
    }
    let mut chosen = candidates;
    let mut least = 1;
    // If some candidates are enough, more are too. A binary search finds the least number.
    let mut most = chosen.len();
    while least < most {
        let middle = (least + most) / 2;
        if are(&chosen[..middle]) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    chosen.truncate(least);
    for index in (0..chosen.len()).rev() {
        let victim = chosen.remove(index);
        if !are(&chosen) {
            chosen.insert(index, victim);
        }
    }
    Some(chosen)
}
