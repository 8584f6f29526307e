//! Chooses which ended jobs are remembered when there is no room for all.
//!
//! The newest few jobs of each user are protected, so a user that ends many jobs cannot push out
//! the last jobs of others. Among unprotected jobs the oldest is forgotten first, whichever user
//! owns it. Where all jobs are protected, the user with the most jobs loses its oldest.
//!
//! More exactly, each job has a rank: 1 for the newest job of its user, 2 for the job before, and
//! so on. All unprotected jobs share the last rank. The remembered jobs are the first in the order
//! of their ranks, the newer first among equals. The result is the same whether jobs are forgotten
//! one by one or many at once. It does not depend on which forgotten jobs are still in the journal.
//! Therefore the journal, and a manager that begins on it, forget the same jobs as the manager
//! before (`docs/decisions/0126-the-history-is-fair.md`).
//!
//! The records of the jobs are not kept here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use storm_rm::JobId;

/// The number of protected jobs per user, at least one, is the limit divided by this number. A
/// thousand users can have all of theirs protected; with 500 users, half of the history is left for
/// recent jobs. The number must not depend on anything that changes while jobs end: jobs forgotten
/// under one number would be missing under another.
const PROTECTED_USERS: usize = 1000;

/// The remembered jobs. A job is found by its place in the order in which jobs ended.
#[derive(Debug)]
pub(crate) struct History {
    limit: usize,
    ended: BTreeMap<u64, JobId>,
    /// The places of each user's jobs.
    of_users: BTreeSet<(u32, u64)>,
    shares: BTreeMap<u32, Share>,
    /// The shares in order: the user of the last one loses a job next.
    order: BTreeSet<(Share, u32)>,
    next: u64,
}

/// The remembered jobs of a user. The user with the greater share loses its oldest job first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    /// The rank of the oldest job. All unprotected jobs have the same rank.
    rank: usize,
    oldest: Reverse<u64>,
    jobs: usize,
}

impl History {
    /// Remembers `limit` jobs.
    pub(crate) fn new(limit: usize) -> History {
        History {
            limit,
            ended: BTreeMap::new(),
            of_users: BTreeSet::new(),
            shares: BTreeMap::new(),
            order: BTreeSet::new(),
            next: 0,
        }
    }

    /// A job of `user` has ended. Returns the job that is forgotten in its place. With room for at
    /// least one job, that is another job.
    pub(crate) fn note(&mut self, job: JobId, user: u32) -> Option<JobId> {
        let place = self.next;
        self.next += 1;
        self.ended.insert(place, job);
        self.of_users.insert((user, place));
        let former = self.shares.get(&user);
        let (jobs, oldest) = former.map_or((0, place), |share| (share.jobs, share.oldest.0));
        self.set_share(user, Some((jobs + 1, oldest)));
        if self.ended.len() > self.limit { self.forget_next() } else { None }
    }

    fn forget_next(&mut self) -> Option<JobId> {
        let (share, user) = *self.order.last()?;
        let Reverse(oldest) = share.oldest;
        self.of_users.remove(&(user, oldest));
        let next = self.of_users.range((user, oldest)..=(user, u64::MAX)).next();
        let left = next.map(|(_, place)| (share.jobs - 1, *place));
        self.set_share(user, left);
        self.ended.remove(&oldest)
    }

    /// The jobs and their places, the latest first. With `before`, only those that ended before
    /// that place, whose own job may be forgotten.
    pub(crate) fn latest(&self, before: Option<u64>) -> impl Iterator<Item = (u64, JobId)> {
        let ended = self.ended.range(..before.unwrap_or(u64::MAX)).rev();
        ended.map(|(place, job)| (*place, *job))
    }

    /// Sets the number of a user's jobs and the place of the oldest.
    fn set_share(&mut self, user: u32, share: Option<(usize, u64)>) {
        let protected = (self.limit / PROTECTED_USERS).max(1);
        let share = share.map(|(jobs, oldest)| {
            let rank = jobs.min(protected + 1);
            Share { rank, oldest: Reverse(oldest), jobs }
        });
        let former = match share {
            Some(share) => self.shares.insert(user, share),
            None => self.shares.remove(&user),
        };
        if let Some(former) = former {
            self.order.remove(&(former, user));
        }
        self.order.extend(share.map(|share| (share, user)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The remembered jobs of these users, by their numbers, the latest first.
    fn left(ends: impl IntoIterator<Item = (u64, u32)>, limit: usize) -> Vec<u64> {
        let mut history = History::new(limit);
        for (job, user) in ends {
            let forgotten = history.note(JobId(job), user);
            assert!(limit == 0 || forgotten != Some(JobId(job)), "it has just ended");
        }
        let jobs: Vec<u64> = history.latest(None).map(|(_, job)| job.0).collect();
        assert_eq!(history.of_users.len(), jobs.len());
        assert_eq!(history.shares.values().map(|share| share.jobs).sum::<usize>(), jobs.len());
        assert_eq!(history.order.len(), history.shares.len());
        jobs
    }

    fn left_of(users: &[u32], limit: usize) -> Vec<u64> {
        left((1..).zip(users.iter().copied()), limit)
    }

    #[test]
    fn a_user_with_many_ended_jobs_pushes_out_no_other_users() {
        // Older jobs of the other users are forgotten together with those of the user.
        assert_eq!(left_of(&[1, 2, 1, 2, 7, 7, 7, 7, 7, 7], 6), [10, 9, 8, 7, 4, 3]);
        // The jobs of a single user, or of users with one job each, are forgotten in order.
        assert_eq!(left_of(&[7; 5], 3), [5, 4, 3]);
        assert_eq!(left_of(&[1, 2, 3, 4, 5], 3), [5, 4, 3]);
        assert_eq!(left_of(&[1, 2], 0), [] as [u64; 0]);
    }

    #[test]
    fn twenty_jobs_of_each_user_are_protected_among_twenty_thousand() {
        let others = (0..100).map(|n| 1 + n % 2);
        let users: Vec<u32> = others.chain(std::iter::repeat_n(7, 30_000)).collect();
        let left = left_of(&users, 20_000);
        assert_eq!(left.len(), 20_000);
        let of_others: Vec<u64> = left.into_iter().filter(|job| *job <= 100).collect();
        assert_eq!(of_others, (61..=100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn where_all_are_protected_the_oldest_of_who_has_the_most_goes() {
        // Two jobs of each are protected, and 1,001 users have more such jobs than there is room
        // for.
        let users: Vec<u32> = (0..2_000).map(|n| n / 2).chain([5_000]).collect();
        let left = left_of(&users, 2_000);
        assert_eq!((left[0], left[1_999]), (2_001, 2));
        assert!(!left.contains(&1));
        // A user with one job keeps it, though it is the oldest of all.
        let users: Vec<u32> = [5_000].into_iter().chain((0..2_000).map(|n| n / 2)).collect();
        let left = left_of(&users, 2_000);
        assert!(left.contains(&1) && !left.contains(&2));
    }

    /// The jobs that the rule keeps.
    fn ranked(ends: &[(u64, u32)], limit: usize) -> Vec<u64> {
        let protected = (limit / PROTECTED_USERS).max(1);
        let rank = |at: usize| {
            let later = ends[at..].iter().filter(|(_, user)| *user == ends[at].1);
            later.count().min(protected + 1)
        };
        let mut places: Vec<usize> = (0..ends.len()).collect();
        places.sort_by_cached_key(|at| (rank(*at), Reverse(*at)));
        places.truncate(limit);
        places.sort_unstable_by_key(|at| Reverse(*at));
        places.into_iter().map(|at| ends[at].0).collect()
    }

    fn ends(users: Vec<u32>) -> Vec<(u64, u32)> {
        (1..).zip(users).collect()
    }

    proptest! {
        #[test]
        fn the_ranks_decide_when_no_other_cause_is_left(
            users in prop::collection::vec(0..5_u32, 0..60), limit in 0..20_usize,
        ) {
            let ends = ends(users);
            prop_assert_eq!(left(ends.iter().copied(), limit), ranked(&ends, limit));
        }

        #[test]
        fn remains_of_forgotten_jobs_make_no_difference(
            users in prop::collection::vec((0..5_u32, any::<bool>()), 0..60), limit in 1..20_usize,
        ) {
            let (users, stays): (Vec<u32>, Vec<bool>) = users.into_iter().unzip();
            let ends = ends(users);
            let all = left(ends.iter().copied(), limit);
            let some = ends.iter().filter(|(job, _)| stays[*job as usize - 1] || all.contains(job));
            prop_assert_eq!(left(some.copied(), limit), all);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// With room for 2,500 jobs, two of each user are protected.
        #[test]
        fn with_room_for_more_of_each_user_it_is_what_the_ranks_say_too(
            users in prop::collection::vec(0..3_000_u32, 4_000), few in 1..3_000_u32,
        ) {
            let ends = ends(users.into_iter().map(|user| user % few).collect());
            let all = left(ends.iter().copied(), 2_500);
            prop_assert_eq!(&all, &ranked(&ends, 2_500));
            let kept: BTreeSet<u64> = all.iter().copied().collect();
            let some = ends.iter().filter(|(job, _)| job % 3 == 0 || kept.contains(job));
            prop_assert_eq!(left(some.copied(), 2_500), all);
        }
    }

    #[test]
    fn jobs_after_a_forgotten_one_are_found() {
        let mut history = History::new(4);
        let users = [1, 2, 7, 7, 7];
        let forgotten: Vec<Option<JobId>> =
            (1..).zip(users).map(|(job, user)| history.note(JobId(job), user)).collect();
        assert_eq!(forgotten, [None, None, None, None, Some(JobId(3))]);
        let behind: Vec<JobId> = history.latest(Some(2)).map(|(_, job)| job).collect();
        assert_eq!(behind, [JobId(2), JobId(1)]);
    }
}
