//! The real ranks of one node. The bytes that they write into their shared memory become posts of
//! the engine. The engine's completions are written there, too.
//!
//! Ranks see byte streams, one to each rank of their job. The bytes that a rank has sent since the
//! last slice go to the receiver's node as messages of at most [`CHUNK_BYTES`]. The receiver's node
//! keeps as many receives posted as it has room for. The ranks do MPI's own matching, above the
//! streams (`docs/decisions/0093`). So a rank that receives nothing delays only its senders.
//!
//! The memory for a rank is bounded:
//! - A node keeps at most [`KEPT_BYTES`] for the rank.
//! - A node keeps at most [`WAITING_BYTES`] from the rank, in addition to the contents of its ring.
//! - At most [`WINDOW_BYTES`](storm_mpi::segment::WINDOW_BYTES) from the rank are for the same
//!   peer.
//!
//! The engine itself carries out collectives of whole communicators (`calls`); a rank has one at a
//! time.
//!
//! Data from ranks is not trusted: frames, ranks and lengths are checked. A rank that breaks the
//! rules ends its own job ([`BcsError::BadRank`]).

mod bad_rank;
mod calls;
mod handover;
mod link;

use crate::{BcsError, Completion, Engine, JobKey, Member, Post, RequestId};
use link::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use storm_mpi::segment::NodeEnd;
use storm_mpi::{ANY_SOURCE, ANY_TAG, Context, Pattern, Rank};
use storm_primitives::NodeId;

/// The longest message into which a stream is cut. Many of them fit the link of a slice, so streams
/// share it.
pub const CHUNK_BYTES: usize = 16 << 10;
/// Limit of bytes that a node keeps for a rank that has not taken them. Receives under way count in
/// full.
pub const KEPT_BYTES: usize = 1 << 20;

/// Limit of a rank's bytes that have not left its node. Only a rank that sends to many others that
/// do not receive reaches it. Until fewer bytes remain, the node takes no more from the rank.
pub const WAITING_BYTES: usize = 8 << 20;

/// The purpose of an engine's request.
#[derive(Clone, Copy, Debug)]
enum UnderWay {
    Send { member: Member, to: Rank, bytes: usize },
    Receive { member: Member },
    Collective { member: Member },
}

/// The ranks of one node.
#[derive(Debug, Default)]
pub struct Ranks {
    links: BTreeMap<Member, Link>,
    under_way: BTreeMap<RequestId, UnderWay>,
    /// Jobs whose communication is over, until they are closed.
    over: BTreeSet<JobKey>,
    failures: Vec<(JobKey, BcsError)>,
}

impl Ranks {
    /// Makes the segments of a job's ranks on this node, and opens the job in the engine. The call
    /// must come before any of the ranks runs.
    ///
    /// # Errors
    /// The system has no memory for the segments. In this case, the job is not opened here.
    pub fn open(
        &mut self,
        engine: &mut Engine,
        job: JobKey,
        placement: Rc<[NodeId]>,
        here: NodeId,
    ) -> io::Result<()> {
        let size = placement.len() as u32;
        let mut links = BTreeMap::new();
        for (rank, node) in placement.iter().enumerate() {
            if *node == here {
                let member = Member { job, rank: Rank::from_index(rank) };
                links.insert(member, Link::new(member.rank, size)?);
            }
        }
        self.links.append(&mut links);
        engine.open_job(job, placement);
        Ok(())
    }

    /// The segment of a rank, to be handed to it.
    pub fn segment(&self, member: Member) -> Option<&NodeEnd> {
        self.links.get(&member).map(|link| &link.end)
    }

    /// Forgets a job.
    pub fn close(&mut self, engine: &mut Engine, job: JobKey) {
        self.links.retain(|member, _| member.job != job);
        self.over.remove(&job);
        engine.close_job(job);
    }

    /// Ends the communication of a job here. Its ranks get the reason at once.
    pub fn end(&mut self, job: JobKey, reason: &str) {
        for (_, link) in self.links.iter_mut().filter(|(member, _)| member.job == job) {
            link.end_with(reason);
        }
        self.over.insert(job);
    }

    /// The jobs with ranks here.
    pub fn jobs(&self) -> BTreeSet<JobKey> {
        self.links.keys().map(|member| member.job).collect()
    }

    /// Whether every rank of a job here waits for its messages.
    pub fn all_wait(&self, job: JobKey) -> bool {
        let first = Member { job, rank: Rank(0) };
        let last = Member { job, rank: Rank(u32::MAX) };
        self.links.range(first..=last).all(|(_, link)| link.gone || link.end.waits())
    }

    /// Prepares for a rest of slices. Ranks ring when they have news for a slice, and, if other
    /// ranks could then run, when they fall asleep. Returns whether a rank has news already.
    pub fn rest(&mut self, sleep_matters: bool) -> bool {
        let over = &self.over;
        let links = self.links.iter().filter(|(member, _)| !over.contains(&member.job));
        // Prepares every rank, even if the first has news.
        links.fold(false, |news, (_, link)| link.rest(sleep_matters) || news)
    }

    /// The next slice follows at once: no rank needs to ring.
    pub fn goes_on(&mut self) {
        self.links.values().for_each(Link::goes_on);
    }

    /// Records that a rank has ended. No other rank waits for it to run.
    pub fn gone(&mut self, member: Member) {
        if let Some(link) = self.links.get_mut(&member) {
            link.gone = true;
        }
    }

    /// Takes the jobs that cannot continue, with the reasons. Each is returned once.
    pub fn take_failures(&mut self) -> Vec<(JobKey, BcsError)> {
        std::mem::take(&mut self.failures)
    }

    /// Posts the bytes that the ranks have sent, and receives for which there is room. Call it
    /// before the descriptors are exchanged.
    pub fn gather(&mut self, engine: &mut Engine) {
        let mut failed = Vec::new();
        for (member, link) in &mut self.links {
            if self.over.contains(&member.job) {
                continue;
            }
            if let Err(error) = gather_one(*member, link, engine, &mut self.under_way) {
                failed.push((member.job, error));
            }
        }
        failed.into_iter().for_each(|(job, error)| self.fail(job, error));
    }

    /// Begins a slice: the ranks get the bytes of the previous slice, and wake.
    pub fn tell(&mut self, completions: Vec<Completion>) {
        for Completion { request, outcome, .. } in completions {
            let Some(what) = self.under_way.remove(&request) else { continue };
            let (UnderWay::Send { member, .. }
            | UnderWay::Receive { member }
            | UnderWay::Collective { member }) = what;
            let Some(link) = self.links.get_mut(&member) else { continue };
            let bad = BcsError::BadRank { rank: member.rank };
            let told = match (what, outcome) {
                (UnderWay::Collective { .. }, Err(BcsError::GroupRefused { .. })) => {
                    link.calls.is_refused();
                    Ok(())
                }
                (_, Err(error)) => Err(error),
                (UnderWay::Send { to, bytes, .. }, Ok(_)) => {
                    link.has_left(to, bytes).map_err(|_| bad)
                }
                (UnderWay::Receive { .. }, Ok(outcome)) => link.has_come(outcome),
                (UnderWay::Collective { .. }, Ok(outcome)) => {
                    link.calls.is_over(outcome);
                    Ok(())
                }
            };
            if let Err(error) = told {
                self.fail(member.job, error);
            }
        }
        let mut failed = Vec::new();
        for (member, link) in &mut self.links {
            if link.hand_on().is_err() {
                failed.push((member.job, BcsError::BadRank { rank: member.rank }));
            }
        }
        failed.into_iter().for_each(|(job, error)| self.fail(job, error));
    }

    fn fail(&mut self, job: JobKey, error: BcsError) {
        if !self.over.contains(&job) {
            self.end(job, &error.to_string());
            self.failures.push((job, error));
        }
    }
}

fn gather_one(
    member: Member,
    link: &mut Link,
    engine: &mut Engine,
    under_way: &mut BTreeMap<RequestId, UnderWay>,
) -> Result<(), BcsError> {
    let bad = BcsError::BadRank { rank: member.rank };
    link.take().map_err(|_| bad)?;
    for (address, data) in link.chunks() {
        let (to, bytes) = (address.to, data.len());
        let request = engine.post(member, Post::Send { address, data })?;
        under_way.insert(request, UnderWay::Send { member, to, bytes });
    }
    for group in link.calls.take_left() {
        engine.leave_group(member, group);
    }
    if let Some((group, call)) = link.calls.take_call() {
        let request = engine.post(member, Post::Collective { group, call })?;
        under_way.insert(request, UnderWay::Collective { member });
    }
    let pattern = Pattern { context: Context(0), source: ANY_SOURCE, tag: ANY_TAG };
    while link.has_room() {
        let request = engine.post(member, Post::Recv { pattern, bytes: CHUNK_BYTES })?;
        under_way.insert(request, UnderWay::Receive { member });
        link.receives += 1;
    }
    Ok(())
}
