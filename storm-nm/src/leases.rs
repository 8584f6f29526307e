//! Leases of jobs that may be run elsewhere once this node is given up
//! (`docs/decisions/0007-no-run-twice.md`). Knows no keeper and no clock.
//!
//! A node manager that stands still cannot end jobs. Therefore it gives the keeper leases
//! beforehand: the times until which the jobs may continue. The node manager renews the leases
//! while it is allowed to. When a node manager wakes up later, a lease that has run out stays out.

use crate::JobKey;
use std::collections::BTreeMap;
use std::time::Duration;

/// The leases of jobs, by the time of the host: since its start, including time in which it was
/// suspended.
#[derive(Debug, Default)]
pub(crate) struct Leases(BTreeMap<JobKey, Duration>);

impl Leases {
    /// Lets the jobs continue until `until`. Returns those whose lease has not run out.
    pub(crate) fn renew(
        &mut self,
        (now, until): (Duration, Duration),
        jobs: &[JobKey],
    ) -> Vec<JobKey> {
        let mut renewed = jobs.to_vec();
        renewed.retain(|job| {
            let known = self.0.entry(*job).or_insert(until);
            let is_held = *known > now;
            if is_held {
                *known = until;
            }
            is_held
        });
        renewed
    }

    /// Forgets a job that is over here.
    pub(crate) fn forget(&mut self, job: JobKey) {
        self.0.remove(&job);
    }

    /// Until when the job may continue; `None` without a lease, which means for ever.
    pub(crate) fn until(&self, job: JobKey) -> Option<Duration> {
        self.0.get(&job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation, StepRef};

    fn run(job: u64) -> JobKey {
        JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(1) }
    }

    /// A lease of 5 s, with the present time.
    fn at(seconds: u64) -> (Duration, Duration) {
        (Duration::from_secs(seconds), Duration::from_secs(seconds + 5))
    }

    #[test]
    fn a_lease_is_held_for_its_term_from_when_it_was_renewed() {
        let mut leases = Leases::default();
        assert_eq!(leases.until(run(1)), None);
        assert_eq!(leases.renew(at(0), &[run(1)]), [run(1)]);
        assert_eq!(leases.until(run(1)), Some(Duration::from_secs(5)));
        assert_eq!(leases.renew(at(3), &[run(1)]), [run(1)]);
        assert_eq!(leases.until(run(1)), Some(Duration::from_secs(8)));
    }

    #[test]
    fn one_that_stood_still_for_too_long_renews_nothing() {
        let mut leases = Leases::default();
        leases.renew(at(0), &[run(1)]);
        assert_eq!(leases.renew(at(5), &[run(1)]), []);
        assert_eq!(leases.renew(at(6), &[run(1)]), [], "nor later");
        assert_eq!(leases.until(run(1)), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_job_that_begins_after_a_standstill_has_its_own_lease() {
        let mut leases = Leases::default();
        leases.renew(at(0), &[run(1)]);
        assert_eq!(leases.renew(at(100), &[run(1), run(2)]), [run(2)]);
        leases.forget(run(1));
        assert_eq!(leases.renew(at(101), &[run(2)]), [run(2)]);
    }
}
