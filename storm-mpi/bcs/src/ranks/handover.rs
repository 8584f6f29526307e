//! The state of a job on this node, for the next Node Manager ([decision
//! 0153](../../../../docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md)). The
//! ranks' segments are descriptors, and travel beside it.

use super::link::{Link, SavedLink};
use super::{Ranks, UnderWay};
use crate::engine::JobState;
use crate::{Engine, JobKey, Member, RequestId, Unsaved};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use storm_mpi::Rank;
use storm_mpi::segment::NodeEnd;
use storm_primitives::GlobalMemory;

/// The version of the saved state. Every change of its types raises it: a Node Manager takes no
/// state of another version.
const VERSION: u32 = 1;

/// The state of one job on one node.
#[derive(Debug, Serialize, Deserialize)]
struct SavedJob {
    size: u32,
    links: Vec<(u32, SavedLink)>,
    under_way: Vec<(u64, SavedUnderWay)>,
    engine: JobState,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum SavedUnderWay {
    Send { rank: u32, to: u32, bytes: u64 },
    Receive { rank: u32 },
    Collective { rank: u32 },
}

impl Ranks {
    /// The state of a job between two slices, for [`restore`](Self::restore) by another process of
    /// this node's. Returns `None` inside a slice, and if the job's communication ends.
    pub fn save(&self, engine: &Engine, job: JobKey) -> Option<Vec<u8>> {
        if self.over.contains(&job) {
            return None;
        }
        let here: Vec<_> = self.links.iter().filter(|(member, _)| member.job == job).collect();
        let size = here.first()?.1.size();
        let links = here.iter().map(|(member, link)| Some((member.rank.0, link.save()?)));
        let under_way = self.under_way.iter().filter(|(_, what)| what.member().job == job);
        let saved = SavedJob {
            size,
            links: links.collect::<Option<_>>()?,
            under_way: under_way.map(|(request, what)| (request.0, what.save())).collect(),
            engine: engine.save(job)?,
        };
        postcard::to_stdvec(&(VERSION, saved)).ok()
    }

    /// Continues a job with the state that another process of this node's saved, and with the
    /// segments of its ranks, before the engine has obeyed a strobe. `memory` is the node's global
    /// memory in its present life.
    ///
    /// # Errors
    /// The state has another version, is not complete, or does not fit the segments. The job is
    /// not opened here then.
    pub fn restore(
        &mut self,
        (engine, memory): (&mut Engine, &GlobalMemory),
        job: JobKey,
        saved: &[u8],
        mut segments: BTreeMap<Rank, NodeEnd>,
    ) -> Result<(), Unsaved> {
        let (version, rest) = postcard::take_from_bytes::<u32>(saved).map_err(|_| Unsaved)?;
        if version != VERSION {
            return Err(Unsaved);
        }
        let saved: SavedJob = postcard::from_bytes(rest).map_err(|_| Unsaved)?;
        let mut links = BTreeMap::new();
        for (rank, link) in saved.links {
            let rank = Rank(rank);
            let end = segments.remove(&rank).ok_or(Unsaved)?;
            let link = Link::restore((rank, saved.size), link, end)?;
            links.insert(Member { job, rank }, link);
        }
        let mut under_way = BTreeMap::new();
        for (request, what) in saved.under_way {
            let what = what.of_job(job)?;
            if !links.contains_key(&what.member()) {
                return Err(Unsaved);
            }
            under_way.insert(RequestId(request), what);
        }
        engine.restore(job, saved.engine, memory)?;
        self.links.append(&mut links);
        self.under_way.append(&mut under_way);
        Ok(())
    }

    /// The segments of a job's ranks here.
    pub fn segments(&self, job: JobKey) -> impl Iterator<Item = (Rank, &NodeEnd)> {
        let mine = self.links.iter().filter(move |(member, _)| member.job == job);
        mine.map(|(member, link)| (member.rank, &link.end))
    }
}

impl UnderWay {
    fn member(&self) -> Member {
        let (UnderWay::Send { member, .. }
        | UnderWay::Receive { member }
        | UnderWay::Collective { member }) = self;
        *member
    }

    fn save(&self) -> SavedUnderWay {
        let rank = self.member().rank.0;
        match *self {
            UnderWay::Send { to, bytes, .. } => {
                SavedUnderWay::Send { rank, to: to.0, bytes: bytes as u64 }
            }
            UnderWay::Receive { .. } => SavedUnderWay::Receive { rank },
            UnderWay::Collective { .. } => SavedUnderWay::Collective { rank },
        }
    }
}

impl SavedUnderWay {
    fn of_job(self, job: JobKey) -> Result<UnderWay, Unsaved> {
        let member = |rank| Member { job, rank: Rank(rank) };
        Ok(match self {
            SavedUnderWay::Send { rank, to, bytes } => UnderWay::Send {
                member: member(rank),
                to: Rank(to),
                bytes: usize::try_from(bytes).map_err(|_| Unsaved)?,
            },
            SavedUnderWay::Receive { rank } => UnderWay::Receive { member: member(rank) },
            SavedUnderWay::Collective { rank } => UnderWay::Collective { member: member(rank) },
        })
    }
}
