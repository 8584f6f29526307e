//! Pending reasons when space is shared and nodes are reserved. A job counts as behind the jobs
//! that compete for the same nodes.

use std::collections::{BTreeMap, HashMap};

use crate::reservation::{Lack, Pool};
use crate::space::reasons::{reason, shortage};
use crate::space::{Passing, Space};
use crate::{Ahead, JobId, JobRequest, Matrix, PendingReason};

impl Space {
    /// Why a job waits among reservations.
    pub(super) fn explain_among(&self, passing: Passing, job: JobId) -> Option<PendingReason> {
        let request = self.queue().get(job)?;
        let pool = self.book().pool_of(request);
        let rivals = self.in_order(passing).filter(|rival| self.book().pool_of(rival) == pool);
        let mut rivals = rivals.map(|rival| rival.id).take_while(|rival| *rival != job);
        let ahead = rivals.next().map(|first| Ahead { first, others: rivals.count() });
        self.reason_among(&mut self.partition().matrix.clone(), passing, request, ahead)
    }

    /// Why each job waits among reservations, in queue order.
    pub(super) fn explain_all_among(&self, passing: Passing) -> Vec<(JobId, PendingReason)> {
        let mut pools: BTreeMap<Pool, Ahead> = BTreeMap::new();
        let mut ahead_of: HashMap<JobId, Ahead> = HashMap::new();
        for request in self.in_order(passing) {
            let pool = self.book().pool_of(request);
            match pools.get_mut(&pool) {
                Some(ahead) => {
                    ahead_of.insert(request.id, *ahead);
                    ahead.others += 1;
                }
                None => {
                    pools.insert(pool, Ahead { first: request.id, others: 0 });
                }
            }
        }
        let mut trial = self.partition().matrix.clone();
        let mut reason = |request: &JobRequest| {
            let ahead = ahead_of.get(&request.id).copied();
            Some((request.id, self.reason_among(&mut trial, passing, request, ahead)?))
        };
        self.queue().iter().filter_map(&mut reason).collect()
    }

    fn in_order(&self, passing: Passing) -> Box<dyn Iterator<Item = &JobRequest> + '_> {
        match passing {
            Passing::Never | Passing::Harmless => Box::new(self.queue().iter()),
            Passing::Shortest => Box::new(self.queue().iter_shortest_first()),
        }
    }

    fn reason_among(
        &self,
        trial: &mut Matrix,
        passing: Passing,
        request: &JobRequest,
        ahead: Option<Ahead>,
    ) -> Option<PendingReason> {
        let run = (self.now(), self.now() + self.estimate(request));
        match Lack::of(request, self.book(), trial, run, shortage) {
            Lack::Reserved(reason) => Some(reason),
            Lack::Room(shortage) => {
                reason(passing, ahead, shortage.or_else(|| self.promised(request)))
            }
        }
    }
}
