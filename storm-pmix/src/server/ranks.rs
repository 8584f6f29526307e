//! The ranks of this node: their processes, and their PMI connections, which only the server uses.

use super::ServeError;
use super::ended::has_ended;
use super::watch::Watcher;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use storm_mpi::pmi::PmiClient;
use storm_mpi::pmi::client::PmiError;

/// The ranks that have asked for an environment.
pub(super) struct Ranks {
    ranks: BTreeMap<u32, LocalRank>,
    expected: usize,
    size: u32,
    news: Arc<Epoll>,
}

struct LocalRank {
    /// `None` once the process has ended.
    process: Option<OwnedFd>,
    standing: Standing,
    in_barrier: bool,
    /// Number of times that the rank has joined: a rank may be a script of several programs.
    programs: u32,
}

/// The state of a rank in its PMI session with the Node Manager.
enum Standing {
    /// The rank has not joined.
    Started(UnixStream),
    Joined(PmiClient),
    /// The rank has sent `finalize`, and may join again.
    Left(UnixStream),
    /// The Node Manager no longer serves the rank.
    Lost,
}

impl Ranks {
    /// No ranks yet, of `expected` ranks here, in a job of `size`.
    ///
    /// # Errors
    /// The system has no descriptor for waiting.
    pub(super) fn new(expected: usize, size: u32) -> nix::Result<Ranks> {
        let news = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        Ok(Ranks { ranks: BTreeMap::new(), expected, size, news })
    }

    /// Becomes readable when a rank has ended or may leave its barrier.
    pub(super) fn news(&self) -> Arc<Epoll> {
        self.news.clone()
    }

    /// Records that the process at the other end of `asking` is this rank, and that `pmi` is its
    /// connection.
    pub(super) fn admit(
        &mut self,
        rank: u32,
        asking: &UnixStream,
        pmi: UnixStream,
        watcher: &Watcher,
    ) -> io::Result<()> {
        let peer = getsockopt(asking, PeerCredentials)?;
        let pid = Pid::from_raw(peer.pid()).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        watcher.see(rank, &process, &pmi);
        self.news.add(&process, readable(rank))?;
        let (process, standing) = (Some(process), Standing::Started(pmi));
        let local = LocalRank { process, standing, in_barrier: false, programs: 0 };
        let former = self.ranks.insert(rank, local);
        // The watcher has the same process open. If only this descriptor were closed, the process
        // would be reported again and again.
        match former.and_then(|former| former.process) {
            Some(process) => Ok(self.news.delete(process)?),
            None => Ok(()),
        }
    }

    /// Whether all ranks have connected and have ended.
    pub(super) fn are_over(&self) -> bool {
        let over = |rank: &LocalRank| rank.process.is_none();
        self.ranks.len() >= self.expected && self.ranks.values().all(over)
    }

    /// Processes the ends of ranks. If a rank never joined, the others wait for it in their first
    /// fence. If a rank ran one program fewer, the others wait for it in a later fence. In both
    /// cases they wait in a barrier of PMI, and the Node Manager knows that the barrier will never
    /// open.
    pub(super) fn note_ends(&mut self) -> Result<(), ServeError> {
        let joined = |rank: &&LocalRank| matches!(rank.standing, Standing::Joined(_));
        let furthest = self.ranks.values().filter(joined).map(|rank| rank.programs).max();
        let mut absent = false;
        for rank in self.ranks.values_mut() {
            if let Some(ended) = rank.process.take_if(|process| has_ended(process)) {
                self.news.delete(ended)?;
            }
            let is_behind = match rank.standing {
                Standing::Started(_) => true,
                Standing::Left(_) => furthest.is_some_and(|furthest| rank.programs < furthest),
                Standing::Joined(_) | Standing::Lost => false,
            };
            absent |= rank.process.is_none() && is_behind;
        }
        if absent {
            self.enter_barrier(Vec::new())?;
        }
        Ok(())
    }

    /// Sends `init` for a rank. Returns false if the rank cannot join.
    pub(super) fn join(&mut self, rank: u32) -> Result<bool, ServeError> {
        let Some(local) = self.ranks.get_mut(&rank) else { return Ok(false) };
        match std::mem::replace(&mut local.standing, Standing::Lost) {
            Standing::Started(pmi) | Standing::Left(pmi) => {
                let joined = PmiClient::start(pmi, storm_mpi::Rank(rank), self.size);
                local.standing = Standing::Joined(joined.map_err(of(rank))?);
                local.programs += 1;
                Ok(true)
            }
            Standing::Joined(pmi) => {
                local.standing = Standing::Joined(pmi);
                Ok(true)
            }
            Standing::Lost => Ok(false),
        }
    }

    /// Sends `finalize` for a rank.
    pub(super) fn finalize(&mut self, rank: u32) -> Result<(), ServeError> {
        let Some(local) = self.ranks.get_mut(&rank) else { return Ok(()) };
        local.standing = match std::mem::replace(&mut local.standing, Standing::Lost) {
            Standing::Joined(mut pmi) => {
                pmi.finalize().map_err(of(rank))?;
                Standing::Left(pmi.into_stream())
            }
            other => other,
        };
        Ok(())
    }

    /// Asks for the end of the job on behalf of a rank.
    pub(super) fn abort(&mut self, rank: u32, exit_code: i32) -> Result<(), ServeError> {
        match self.ranks.get_mut(&rank).map(|local| &mut local.standing) {
            Some(Standing::Joined(pmi)) => pmi.abort(exit_code).map_err(of(rank)),
            Some(Standing::Started(_) | Standing::Left(_) | Standing::Lost) | None => Ok(()),
        }
    }

    /// Puts these pairs, and enters the barrier with all ranks that have joined.
    pub(super) fn enter_barrier(&mut self, puts: Vec<(String, String)>) -> Result<(), ServeError> {
        let mut outside: Vec<_> = Vec::new();
        for (rank, local) in &mut self.ranks {
            if let (Standing::Joined(pmi), false) = (&mut local.standing, local.in_barrier) {
                outside.push((*rank, pmi, &mut local.in_barrier));
            }
        }
        // The number of puts of one rank is limited.
        let count = outside.len();
        for (number, (key, value)) in puts.into_iter().enumerate() {
            if let Some((rank, pmi, _)) = outside.get_mut(number % count.max(1)) {
                pmi.put(&key, &value).map_err(of(*rank))?;
            }
        }
        for (rank, pmi, in_barrier) in outside {
            pmi.barrier_in().map_err(of(rank))?;
            self.news.add(pmi.as_fd(), readable(rank))?;
            *in_barrier = true;
        }
        Ok(())
    }

    /// Whether the last rank has left the barrier now.
    pub(super) fn leave_barriers(&mut self) -> Result<bool, ServeError> {
        let (mut left, mut waits) = (false, false);
        for (rank, local) in self.ranks.iter_mut().filter(|(_, local)| local.in_barrier) {
            if let Standing::Joined(pmi) = &mut local.standing
                && pmi.try_barrier_out().map_err(of(*rank))?
            {
                self.news.delete(pmi.as_fd())?;
                (left, local.in_barrier) = (true, false);
            }
            waits |= local.in_barrier;
        }
        Ok(left && !waits)
    }

    /// The value that was put under a key before the last barrier.
    pub(super) fn get(&mut self, key: &str) -> Result<Option<String>, ServeError> {
        for (rank, local) in &mut self.ranks {
            if let Standing::Joined(pmi) = &mut local.standing {
                return pmi.get(key).map_err(of(*rank));
            }
        }
        Ok(None)
    }
}

fn readable(rank: u32) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, rank.into())
}

fn of(rank: u32) -> impl Fn(PmiError) -> ServeError {
    move |source| ServeError::Pmi { rank, source }
}
