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
use std::time::Duration;
use storm_mpi::pmi::PmiClient;
use storm_mpi::pmi::client::PmiError;

/// How long the Node Manager has to answer a `finalize`. libpmix's client waits for 2 s, and ranks
/// leave one after the other.
const FINALIZE_TIME: Duration = Duration::from_secs(1);
/// The same after another `finalize` had no answer.
const NO_TIME: Duration = Duration::from_millis(1);

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
    /// The rank has sent `finalize`. The Node Manager has ended, and the next one will answer.
    Leaving(PmiClient),
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
                Standing::Left(_) | Standing::Leaving(_) => {
                    furthest.is_some_and(|furthest| rank.programs < furthest)
                }
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
        let pmi = match std::mem::replace(&mut local.standing, Standing::Lost) {
            Standing::Started(pmi) | Standing::Left(pmi) => pmi,
            Standing::Leaving(mut pmi) => {
                pmi.finish_finalize().map_err(of(rank))?;
                pmi.into_stream()
            }
            Standing::Joined(pmi) => {
                local.standing = Standing::Joined(pmi);
                return Ok(true);
            }
            Standing::Lost => return Ok(false),
        };
        let joined = PmiClient::start(pmi, storm_mpi::Rank(rank), self.size);
        local.standing = Standing::Joined(joined.map_err(of(rank))?);
        local.programs += 1;
        Ok(true)
    }

    /// Sends `finalize` for a rank. A Node Manager that is away finds it when it is back: a rank
    /// that leaves meanwhile must not wait for it, nor keep the other ranks waiting.
    pub(super) fn finalize(&mut self, rank: u32) -> Result<(), ServeError> {
        let leaving = |local: &LocalRank| matches!(local.standing, Standing::Leaving(_));
        let time = if self.ranks.values().any(leaving) { NO_TIME } else { FINALIZE_TIME };
        let Some(local) = self.ranks.get_mut(&rank) else { return Ok(()) };
        local.standing = match std::mem::replace(&mut local.standing, Standing::Lost) {
            Standing::Joined(mut pmi) => match pmi.finalize_within(time).map_err(of(rank))? {
                true => Standing::Left(pmi.into_stream()),
                false => Standing::Leaving(pmi),
            },
            other => other,
        };
        Ok(())
    }

    /// Asks for the end of the job on behalf of a rank.
    pub(super) fn abort(&mut self, rank: u32, exit_code: i32) -> Result<(), ServeError> {
        match self.ranks.get_mut(&rank).map(|local| &mut local.standing) {
            Some(Standing::Joined(pmi)) => pmi.abort(exit_code).map_err(of(rank)),
            Some(
                Standing::Started(_) | Standing::Left(_) | Standing::Leaving(_) | Standing::Lost,
            )
            | None => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::thread::spawn;

    /// A rank that has joined, and the lines that the Node Manager reads of it from then on. The
    /// Node Manager answers to nothing more.
    fn joined(rank: u32) -> (LocalRank, impl Iterator<Item = String>) {
        let (server, mut node) = UnixStream::pair().expect("a pair");
        let answers = spawn(move || {
            let mut lines = BufReader::new(node.try_clone().expect("a copy")).lines();
            for answer in [
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                "cmd=my_kvsname kvsname=kvs\n",
            ] {
                lines.next();
                node.write_all(answer.as_bytes()).expect("it reads");
            }
            lines
        });
        let pmi = PmiClient::start(server, storm_mpi::Rank(rank), 3).expect("joined");
        let standing = Standing::Joined(pmi);
        let local = LocalRank { process: None, standing, in_barrier: false, programs: 1 };
        let lines = answers.join().expect("it answered").map(|line| line.expect("text"));
        (local, lines)
    }

    /// Regression: libpmix's client gave up after 2 s, and the other ranks of the node exited
    /// without a word to the Node Manager.
    #[test]
    fn no_rank_waits_for_the_leave_of_another_while_the_node_manager_is_away() {
        let mut ranks = Ranks::new(3, 3).expect("descriptors");
        let mut lines = Vec::new();
        for rank in 0..3 {
            let (local, read) = joined(rank);
            ranks.ranks.insert(rank, local);
            lines.push(read);
        }
        for rank in 0..3 {
            ranks.finalize(rank).expect("sent");
            assert!(matches!(ranks.ranks[&rank].standing, Standing::Leaving(_)), "rank {rank}");
            assert_eq!(lines[rank as usize].next().as_deref(), Some("cmd=finalize"));
        }
    }
}
