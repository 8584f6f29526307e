//! The thread that boosts. The thread takes the lock only to read the list of jobs. The thread
//! finds out what ranks do, and puts the ranks whose turn it is ([`BoostTurns`]) before the others.
//!
//! An inspection of a rank's descriptor, or the close of the copy, may block for ever. The
//! descriptor may belong to a file system that the rank's user serves. Only this thread therefore
//! inspects descriptors, and only while no rank is boosted.

use super::{Shared, Watched};
use crate::JobKey;
use crate::boost_turns::{BoostTurns, Doing};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use storm_mpi::page::{RankSays, monotonic_now};
use storm_pl::boost::{self, Process};
use storm_pl::realtime;

/// A rank here: its job, and its place among those of this node.
type Seat = (JobKey, usize);
type Seats = BTreeMap<Seat, Arc<Process>>;

/// Stands for all ranks of a job that report nothing: no rank of a node has this place.
const SILENT: usize = usize::MAX;

/// The state that the thread keeps from period to period.
#[derive(Debug, Default)]
struct Boosts {
    turns: BoostTurns<Seat>,
    boosted: Seats,
    news: BTreeMap<Seat, News>,
    /// Whether the missing permission was reported, which happens once.
    refused: bool,
}

/// A rank's descriptor that becomes readable when a message arrives.
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
    let mut boosts = Boosts::default();
    while let Some(jobs) = shared.boosted_jobs() {
        boosts.forget_others(&jobs);
        if jobs.is_empty() {
            shared.wait_for_jobs();
            continue;
        }
        let doing = boosts.doing(&jobs);
        boosts.give(&jobs, &doing, at_once);
        shared.pause(period);
        boosts.take_back();
    }
}

impl Boosts {
    /// Closes the descriptors of ranks that are not among these jobs.
    fn forget_others(&mut self, jobs: &BTreeMap<JobKey, Watched>) {
        let here = |(job, place): &Seat| {
            jobs.get(job).is_some_and(|watched| watched.ranks.contains_key(place))
        };
        self.news.retain(|seat, _| here(seat));
    }

    /// The activities of ranks that report any. Silent ranks of a job count together as one that
    /// computes.
    fn doing(&mut self, jobs: &BTreeMap<JobKey, Watched>) -> BTreeMap<Seat, Doing> {
        let now = monotonic_now().unwrap_or_default();
        let mut doing = BTreeMap::new();
        for (job, watched) in jobs {
            // An unreadable page counts as an empty one.
            let said = watched.page.read().unwrap_or_default();
            for (place, rank) in &watched.ranks {
                let seat = (*job, *place);
                let says = said.get(*place).filter(|says| rank.pid().0 as u32 == says.pid);
                match says {
                    Some(says) => doing.insert(seat, self.does(seat, rank, says, now)),
                    None => doing.insert((*job, SILENT), Doing::Computes),
                };
            }
        }
        doing
    }

    fn does(&mut self, seat: Seat, rank: &Arc<Process>, says: &RankSays, now: Duration) -> Doing {
        if !says.waiting {
            Doing::Computes
        } else if self.has_news(seat, rank, says) {
            Doing::HasNews
        } else {
            Doing::Waits(says.waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since)))
        }
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

    /// Boosts the ranks whose turn it is. In the turn of the silent ranks no rank is boosted, so
    /// the silent ones run as ordinary processes.
    fn give(
        &mut self,
        jobs: &BTreeMap<JobKey, Watched>,
        doing: &BTreeMap<Seat, Doing>,
        at_once: usize,
    ) {
        for seat in self.turns.next(doing, at_once) {
            let (job, place) = seat;
            let rank = jobs.get(&job).and_then(|watched| watched.ranks.get(&place));
            let Some(process) = rank.cloned() else { continue };
            if self.tell(process.set_boosted(true)) {
                self.boosted.insert(seat, process);
            }
        }
    }

    /// Nobody is boosted any more.
    fn take_back(&mut self) {
        for process in std::mem::take(&mut self.boosted).into_values() {
            self.tell(process.set_boosted(false));
        }
    }

    /// Whether the change was made. Reports a missing permission once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use storm_mpi::page::RankPage;
    use storm_pl::ProcessId;
    use storm_rm::{JobId, JobIncarnation, StepRef};

    const JOB: JobKey = JobKey { step: StepRef::program(JobId(1)), incarnation: JobIncarnation(1) };

    #[test]
    fn only_a_process_of_this_node_is_believed_to_wait_for_what_has_come() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        let page = Arc::new(RankPage::create(&path, 2).unwrap());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let rank = Arc::new(Process::of(ProcessId(child.id() as i32)).unwrap());
        let watched = Watched { page, boosts: true, ranks: BTreeMap::from([(0, rank)]) };
        let jobs = BTreeMap::from([(JOB, watched)]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // A rank writes its process, its descriptor, and whether it waits and has unread messages.
        let say = |place: u64, said: [u32; 4]| {
            let bytes: Vec<u8> = said.iter().flat_map(|word| word.to_ne_bytes()).collect();
            file.write_all_at(&bytes, 64 * (place + 1)).unwrap();
        };
        let mut boosts = Boosts::default();
        let mut doing = || boosts.doing(&jobs).into_iter().collect::<Vec<_>>();
        let silent = [((JOB, SILENT), Doing::Computes)];
        say(1, [std::process::id(), 1, 1, 1]);
        assert_eq!(doing(), silent, "no rank of this node");
        say(0, [child.id(), 0, 1, 0]);
        assert!(matches!(doing()[..], [((JOB, 0), Doing::Waits(_))]), "nothing has come");
        say(0, [child.id(), 0, 1, 1]);
        assert_eq!(doing(), [((JOB, 0), Doing::HasNews)]);
        say(0, [child.id(), 10_000, 1, 0]);
        assert!(matches!(doing()[..], [((JOB, 0), Doing::Waits(_))]), "no such descriptor");
        say(0, [child.id(), 0, 0, 1]);
        assert_eq!(doing(), [((JOB, 0), Doing::Computes)]);
        say(0, [std::process::id(), 0, 1, 1]);
        assert_eq!(doing(), silent, "another process than that rank");
        assert_eq!(boosts.turns.next(&BTreeMap::from(silent), 1), [], "nobody is concerned");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
