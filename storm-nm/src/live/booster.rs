//! Periodic boost (Nagar et al., SPAA 1999; A6 of the policy reference): again and again, processes
//! that wait for a message which has come are put before the others of their processor, in turn.
//!
//! On a thread of its own, in real time where that is permitted. Which processes these are, ranks
//! of our own message-passing library say in a page; of what they say, only a process that this
//! node has started is ever boosted, and a descriptor of one only looked at. A rank that lies can
//! have what any could: its turn of a period.

use crate::JobKey;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storm_mpi::page::{RankPage, RankSays};
use storm_pl::{ProcessId, boost, realtime};

/// A rank here: its job, and its place among those of this node.
type Seat = (JobKey, usize);

/// What boosts, from the first job that asks for it.
#[derive(Debug)]
pub(super) struct Booster {
    shared: Arc<Shared>,
    period: Duration,
    /// So many may be boosted at once: one for each core.
    at_once: usize,
    started: std::cell::Cell<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobKey, Watched>,
    over: bool,
}

/// A job and what is known of its ranks.
#[derive(Debug)]
struct Watched {
    page: RankPage,
    boosts: bool,
    ranks: BTreeMap<usize, Rank>,
}

#[derive(Debug)]
struct Rank {
    pid: ProcessId,
    /// Its descriptor that tells of news, once it was asked for.
    news: Option<(RawFd, Option<OwnedFd>)>,
}

impl Booster {
    pub(super) fn new(period: Duration, at_once: usize) -> Booster {
        Booster {
            shared: Arc::default(),
            period,
            at_once: at_once.max(1),
            started: std::cell::Cell::new(false),
        }
    }

    /// The ranks of a job say there what they do.
    pub(super) fn watch(&self, job: JobKey, page: RankPage, boosts: bool) {
        let watched = Watched { page, boosts, ranks: BTreeMap::new() };
        self.shared.lock().jobs.insert(job, watched);
        self.wake(boosts);
    }

    /// A rank of it has started, as this process.
    pub(super) fn started(&self, job: JobKey, place: usize, pid: ProcessId) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.insert(place, Rank { pid, news: None });
        }
    }

    /// A rank of it has ended: nobody else is to be taken for it.
    pub(super) fn ended(&self, job: JobKey, place: usize) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.ranks.remove(&place);
        }
    }

    /// Its ranks are boosted from now on, or no longer.
    pub(super) fn set_boosts(&self, job: JobKey, boosts: bool) {
        if let Some(watched) = self.shared.lock().jobs.get_mut(&job) {
            watched.boosts = boosts;
        }
        self.wake(boosts);
    }

    /// The job is over.
    pub(super) fn forget(&self, job: JobKey) {
        self.shared.lock().jobs.remove(&job);
    }

    fn wake(&self, boosts: bool) {
        if boosts && !self.started.replace(true) {
            let (shared, period, at_once) = (self.shared.clone(), self.period, self.at_once);
            let named = std::thread::Builder::new().name("storm-boost".to_owned());
            if let Err(error) = named.spawn(move || boost_for_ever(&shared, period, at_once)) {
                tracing::error!(%error, "nothing is boosted on this node");
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Booster {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one insertion or removal: it is whole whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn boost_for_ever(shared: &Shared, period: Duration, at_once: usize) {
    if let Err(error) = realtime::become_realtime(realtime::DEFAULT_PRIORITY) {
        tracing::warn!(%error, "the thread that boosts others has to wait for them itself");
    }
    let mut boosted: BTreeMap<Seat, ProcessId> = BTreeMap::new();
    let (mut refused, mut last) = (false, None);
    loop {
        let mut state = shared.lock();
        let idle = |state: &State| !state.over && !state.jobs.values().any(|job| job.boosts);
        while boosted.is_empty() && idle(&state) {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let over = state.over;
        let waiting = if over { BTreeMap::new() } else { state.waiting() };
        let seats: Vec<Seat> = waiting.keys().copied().collect();
        let chosen = in_turn(&seats, last, at_once);
        last = chosen.last().copied().or(last);
        for (seat, pid) in std::mem::take(&mut boosted) {
            let here = state.pid(seat) == Some(pid);
            if chosen.contains(&seat) && here {
                boosted.insert(seat, pid);
            } else if here {
                tell(boost::set_boosted(pid, false), &mut refused);
            }
        }
        for seat in chosen {
            let Some(pid) = waiting.get(&seat).copied() else { continue };
            if boosted.contains_key(&seat) || tell(boost::set_boosted(pid, true), &mut refused) {
                boosted.insert(seat, pid);
            }
        }
        if over {
            return;
        }
        // A period, or the end: also of a lock that somebody else poisoned.
        drop(shared.changed.wait_timeout_while(state, period, |state| !state.over));
    }
}

/// Whether it was done; says once that it is not permitted.
fn tell(done: io::Result<()>, refused: &mut bool) -> bool {
    if let Err(error) = &done
        && error.kind() == io::ErrorKind::PermissionDenied
        && !std::mem::replace(refused, true)
    {
        tracing::warn!(%error, "ranks cannot be boosted: this needs root or CAP_SYS_NICE");
    }
    done.is_ok()
}

/// So many of those who wait, beginning after the last of those whose turn it was.
fn in_turn(waiting: &[Seat], last: Option<Seat>, at_once: usize) -> Vec<Seat> {
    let after = waiting.partition_point(|seat| last.is_some_and(|last| *seat <= last));
    waiting[after..].iter().chain(&waiting[..after]).take(at_once).copied().collect()
}

impl State {
    fn pid(&self, (job, place): Seat) -> Option<ProcessId> {
        self.jobs.get(&job)?.ranks.get(&place).map(|rank| rank.pid)
    }

    /// The ranks that wait for a message that has come.
    fn waiting(&mut self) -> BTreeMap<Seat, ProcessId> {
        let mut waiting = BTreeMap::new();
        for (job, watched) in self.jobs.iter_mut().filter(|(_, watched)| watched.boosts) {
            // What cannot be read says nothing.
            let said = watched.page.read().unwrap_or_default();
            for (place, says) in said.into_iter().enumerate() {
                let rank = watched.ranks.get_mut(&place);
                let Some(rank) = rank.filter(|rank| rank.pid.0 as u32 == says.pid) else {
                    continue;
                };
                if says.waiting && rank.has_news(&says) {
                    waiting.insert((*job, place), rank.pid);
                }
            }
        }
        waiting
    }
}

impl Rank {
    fn has_news(&mut self, says: &RankSays) -> bool {
        if says.unread {
            return true;
        }
        let Some(fd) = says.news_fd else { return false };
        if self.news.as_ref().is_none_or(|(known, _)| *known != fd) {
            self.news = Some((fd, boost::descriptor_of(self.pid, fd).ok()));
        }
        let descriptor = self.news.as_ref().and_then(|(_, descriptor)| descriptor.as_ref());
        descriptor.is_some_and(|descriptor| boost::is_readable(descriptor).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation};

    #[test]
    fn who_waits_is_boosted_in_turn() {
        let job = JobKey { job: JobId(1), incarnation: JobIncarnation(1) };
        let seats: Vec<Seat> = [0, 2, 3, 5].map(|place| (job, place)).to_vec();
        let places = |last: Option<usize>, at_once| -> Vec<usize> {
            let chosen = in_turn(&seats, last.map(|place| (job, place)), at_once);
            chosen.into_iter().map(|(_, place)| place).collect()
        };
        assert_eq!(places(None, 2), [0, 2]);
        assert_eq!(places(Some(2), 2), [3, 5]);
        assert_eq!(places(Some(4), 2), [5, 0]);
        assert_eq!(places(Some(5), 9), [0, 2, 3, 5]);
        assert_eq!(in_turn(&[], None, 2), []);
    }
}
