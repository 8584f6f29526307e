//! The metrics of each user's jobs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{JobOutcome, Service};

/// The metrics of one user's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UserService {
    /// The user's number in the log; -1 for jobs of unknown users.
    pub user: i64,
    /// Jobs.
    pub jobs: u64,
    /// Processors times seconds.
    pub work_pe_s: f64,
    /// The mean wait in seconds.
    pub avg_wait_s: f64,
    /// The mean response time in seconds.
    pub avg_response_s: f64,
    /// The mean bounded slowdown.
    pub avg_bounded_slowdown: f64,
}

/// The users of these jobs; the user with the most work comes first.
#[must_use]
pub fn by_user<'a>(jobs: impl IntoIterator<Item = (i64, &'a JobOutcome)>) -> Vec<UserService> {
    let mut users: BTreeMap<i64, Service> = BTreeMap::new();
    for (user, job) in jobs {
        users.entry(user).or_default().add(job);
    }
    let mut users: Vec<(i64, Service)> = users.into_iter().collect();
    users.sort_by_key(|(_, service)| std::cmp::Reverse(service.work_pe_ns()));
    let told = |(user, service): (i64, Service)| UserService {
        user,
        jobs: service.jobs(),
        work_pe_s: service.work_pe_s(),
        avg_wait_s: service.avg_wait_s(),
        avg_response_s: service.avg_response_s(),
        avg_bounded_slowdown: service.avg_bounded_slowdown(),
    };
    users.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SchedTime;

    #[test]
    fn users_are_separate_and_the_busiest_comes_first() {
        let job = |run_s| JobOutcome {
            submit: SchedTime::ZERO,
            start: SchedTime::ZERO,
            end: SchedTime::from_secs(run_s),
            run: Duration::from_secs(run_s),
            procs: 2,
        };
        let jobs = [(7, job(10)), (-1, job(100)), (7, job(20))];
        let users = by_user(jobs.iter().map(|(user, job)| (*user, job)));
        let told: Vec<_> =
            users.iter().map(|user| (user.user, user.jobs, user.work_pe_s)).collect();
        assert_eq!(told, [(-1, 1, 200.0), (7, 2, 60.0)]);
    }
}
