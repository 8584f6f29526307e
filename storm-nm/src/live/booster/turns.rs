//! Whose turn it is to be boosted: what the thread that boosts does, without a lock but to learn
//! of the jobs.
//!
//! To look at a descriptor of a rank, or to close the copy of one, may take for ever: it may belong
//! to a file system that the rank's user serves. So only this thread does so, and only while nobody
//! is boosted.

use super::{Shared, Watched};
use crate::JobKey;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use storm_mpi::page::RankSays;
use storm_pl::boost::{self, Process};
use storm_pl::realtime;

/// A rank here: its job, and its place among those of this node.
type Seat = (JobKey, usize);
type Seats = BTreeMap<Seat, Arc<Process>>;

/// What the thread keeps from period to period.
#[derive(Debug, Default)]
struct Turns {
    boosted: Seats,
    /// Whose turn was in the period before: not again in this one.
    rest: BTreeSet<Seat>,
    last: Option<Seat>,
    news: BTreeMap<Seat, News>,
    /// That it is not permitted was told, which is done once.
    refused: bool,
}

/// The descriptor of a rank that tells of news.
#[derive(Debug)]
struct News {
    process: Arc<Process>,
    fd: RawFd,
    copy: Option<OwnedFd>,
}

/// Boosts until the end.
pub(super) fn boost(shared: &Shared, period: Duration, at_once: usize) {
    if let Err(error) = realtime::become_realtime(realtime::DEFAULT_PRIORITY) {
        tracing::warn!(%error, "the thread that boosts others has to wait for them itself");
    }
    let mut turns = Turns::default();
    while let Some(jobs) = shared.boosted_jobs() {
        turns.forget_others(&jobs);
        if jobs.is_empty() {
            shared.wait_for_jobs();
            continue;
        }
        let waiting = turns.waiting(&jobs);
        turns.give(waiting, at_once);
        shared.pause(period);
        turns.take_back();
    }
}

impl Turns {
    /// Closes what was known of ranks that are no longer among these.
    fn forget_others(&mut self, jobs: &BTreeMap<JobKey, Watched>) {
        let here = |(job, place): &Seat| {
            jobs.get(job).is_some_and(|watched| watched.ranks.contains_key(place))
        };
        self.news.retain(|seat, _| here(seat));
    }

    /// The ranks that wait for a message that has come.
    fn waiting(&mut self, jobs: &BTreeMap<JobKey, Watched>) -> Seats {
        let mut waiting = BTreeMap::new();
        for (job, watched) in jobs {
            // What cannot be read says nothing.
            let said = watched.page.read().unwrap_or_default();
            for (place, says) in said.into_iter().enumerate() {
                let seat = (*job, place);
                let rank = watched.ranks.get(&place);
                let Some(rank) = rank.filter(|rank| rank.pid().0 as u32 == says.pid) else {
                    continue;
                };
                if says.waiting && self.has_news(seat, rank, &says) {
                    waiting.insert(seat, rank.clone());
                }
            }
        }
        waiting
    }

    fn has_news(&mut self, seat: Seat, rank: &Arc<Process>, says: &RankSays) -> bool {
        if says.unread {
            return true;
        }
        let Some(fd) = says.news_fd else { return false };
        let known = self.news.get(&seat);
        if known.is_none_or(|known| known.fd != fd || !Arc::ptr_eq(&known.process, rank)) {
            let copy = rank.descriptor(fd).ok();
            self.news.insert(seat, News { process: rank.clone(), fd, copy });
        }
        let copy = self.news.get(&seat).and_then(|news| news.copy.as_ref());
        copy.is_some_and(|copy| boost::is_readable(copy).unwrap_or(false))
    }

    /// Boosts those whose turn it is of those who wait.
    fn give(&mut self, mut waiting: Seats, at_once: usize) {
        for seat in self.choose(waiting.keys().copied().collect(), at_once) {
            let Some(process) = waiting.remove(&seat) else { continue };
            if self.tell(process.set_boosted(true)) {
                self.boosted.insert(seat, process);
            }
        }
    }

    /// Whose turn it is of those who wait.
    fn choose(&mut self, mut waiting: Vec<Seat>, at_once: usize) -> Vec<Seat> {
        let rest = std::mem::take(&mut self.rest);
        waiting.retain(|seat| !rest.contains(seat));
        let chosen = in_turn(&waiting, self.last, at_once);
        self.last = chosen.last().copied().or(self.last);
        self.rest = chosen.iter().copied().collect();
        chosen
    }

    /// Nobody is boosted any more.
    fn take_back(&mut self) {
        for process in std::mem::take(&mut self.boosted).into_values() {
            self.tell(process.set_boosted(false));
        }
    }

    /// Whether it was done; says once that it is not permitted.
    fn tell(&mut self, done: io::Result<()>) -> bool {
        if let Err(error) = &done
            && error.kind() == io::ErrorKind::PermissionDenied
            && !std::mem::replace(&mut self.refused, true)
        {
            tracing::warn!(%error, "ranks cannot be boosted: this needs root or CAP_SYS_NICE");
        }
        done.is_ok()
    }
}

/// So many of those who wait, beginning after the last of those whose turn it was.
fn in_turn(waiting: &[Seat], last: Option<Seat>, at_once: usize) -> Vec<Seat> {
    let after = waiting.partition_point(|seat| last.is_some_and(|last| *seat <= last));
    waiting[after..].iter().chain(&waiting[..after]).take(at_once).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use storm_mpi::page::RankPage;
    use storm_pl::ProcessId;
    use storm_rm::{JobId, JobIncarnation};

    const JOB: JobKey = JobKey { job: JobId(1), incarnation: JobIncarnation(1) };

    fn seats(places: &[usize]) -> Vec<Seat> {
        places.iter().map(|place| (JOB, *place)).collect()
    }

    #[test]
    fn who_waits_is_boosted_in_turn() {
        let waiting = seats(&[0, 2, 3, 5]);
        let chosen = |last: Option<usize>, at_once| {
            in_turn(&waiting, last.map(|place| (JOB, place)), at_once)
        };
        assert_eq!(chosen(None, 2), seats(&[0, 2]));
        assert_eq!(chosen(Some(2), 2), seats(&[3, 5]));
        assert_eq!(chosen(Some(4), 2), seats(&[5, 0]));
        assert_eq!(chosen(Some(5), 9), seats(&[0, 2, 3, 5]));
        assert_eq!(in_turn(&[], None, 2), []);
    }

    #[test]
    fn who_says_always_that_it_waits_is_boosted_every_other_period() {
        let mut turns = Turns::default();
        let mut period = |waiting: &[usize]| turns.choose(seats(waiting), 2);
        assert_eq!(period(&[0]), seats(&[0]));
        assert_eq!(period(&[0]), []);
        assert_eq!(period(&[0]), seats(&[0]));
        assert_eq!(period(&[0, 1, 2]), seats(&[1, 2]));
        assert_eq!(period(&[0, 1, 2]), seats(&[0]));
        assert_eq!(period(&[0, 1, 2]), seats(&[1, 2]));
    }

    #[test]
    fn only_a_process_of_this_node_that_waits_for_what_has_come_is_boosted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        let page = Arc::new(RankPage::create(&path, 2).unwrap());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let rank = Arc::new(Process::of(ProcessId(child.id() as i32)).unwrap());
        let watched = Watched { page, boosts: true, ranks: BTreeMap::from([(0, rank)]) };
        let jobs = BTreeMap::from([(JOB, watched)]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // As a rank says it: its process, its descriptor, that it waits, that it has unread.
        let say = |place: u64, said: [u32; 4]| {
            let bytes: Vec<u8> = said.iter().flat_map(|word| word.to_ne_bytes()).collect();
            file.write_all_at(&bytes, 64 * (place + 1)).unwrap();
        };
        let mut turns = Turns::default();
        let mut waiting = || turns.waiting(&jobs).into_keys().collect::<Vec<_>>();
        say(1, [std::process::id(), 1, 1, 1]);
        assert_eq!(waiting(), [], "no rank of this node");
        say(0, [child.id(), 0, 1, 0]);
        assert_eq!(waiting(), [], "nothing has come");
        say(0, [child.id(), 0, 1, 1]);
        assert_eq!(waiting(), [(JOB, 0)]);
        say(0, [child.id(), 10_000, 1, 0]);
        assert_eq!(waiting(), [], "no such descriptor");
        say(0, [std::process::id(), 0, 1, 1]);
        assert_eq!(waiting(), [], "another process than that rank");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
