//! The serialized forms of what ranks have posted, for the next Node Manager of a node ([decision
//! 0153](../../../docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md)). The types
//! of `storm-mpi` have none of their own, because programs are linked with them.

use crate::{BcsError, Collective, Completion, Group, GroupId, JobKey, Member, Outcome};
use crate::{Post, RequestId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storm_mpi::collective::Reduction;
use storm_mpi::{Address, Context, Pattern, Rank, Source, Status, Tag, TagPattern};

/// The saved state of a job cannot be read, or does not fit the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the former Node Manager left of its messages cannot be read")]
pub struct Unsaved;

/// A post of a rank of the job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SavedRequest {
    rank: u32,
    request: u64,
}

impl SavedRequest {
    pub(crate) fn of(member: Member, request: RequestId) -> SavedRequest {
        SavedRequest { rank: member.rank.0, request: request.0 }
    }

    pub(crate) fn in_job(self, job: JobKey) -> (Member, RequestId) {
        (Member { job, rank: Rank(self.rank) }, RequestId(self.request))
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SavedPattern {
    context: u16,
    source: Option<u32>,
    tag: Option<i32>,
}

impl From<Pattern> for SavedPattern {
    fn from(pattern: Pattern) -> SavedPattern {
        let source = match pattern.source {
            Source::Any => None,
            Source::Rank(rank) => Some(rank.0),
        };
        let tag = match pattern.tag {
            TagPattern::Any => None,
            TagPattern::Tag(tag) => Some(tag.0),
        };
        SavedPattern { context: pattern.context.0, source, tag }
    }
}

impl From<SavedPattern> for Pattern {
    fn from(saved: SavedPattern) -> Pattern {
        Pattern {
            context: Context(saved.context),
            source: saved.source.map_or(Source::Any, |rank| Source::Rank(Rank(rank))),
            tag: saved.tag.map_or(TagPattern::Any, |tag| TagPattern::Tag(Tag(tag))),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedGroup {
    id: GroupId,
    members: Vec<u32>,
}

impl From<&Group> for SavedGroup {
    fn from(group: &Group) -> SavedGroup {
        SavedGroup { id: group.id, members: group.members.iter().map(|rank| rank.0).collect() }
    }
}

impl From<SavedGroup> for Group {
    fn from(saved: SavedGroup) -> Group {
        Group { id: saved.id, members: saved.members.into_iter().map(Rank).collect() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SavedCollective {
    Barrier,
    Broadcast { root: u64, data: Bytes },
    Reduce { data: Bytes, reduction: u32, root: Option<u64> },
}

impl From<&Collective> for SavedCollective {
    fn from(call: &Collective) -> SavedCollective {
        match call {
            Collective::Barrier => SavedCollective::Barrier,
            Collective::Broadcast { root, data } => {
                SavedCollective::Broadcast { root: *root as u64, data: data.clone() }
            }
            Collective::Reduce { data, reduction, root } => SavedCollective::Reduce {
                data: data.clone(),
                reduction: reduction.code(),
                root: root.map(|root| root as u64),
            },
        }
    }
}

impl TryFrom<SavedCollective> for Collective {
    type Error = Unsaved;

    fn try_from(saved: SavedCollective) -> Result<Collective, Unsaved> {
        let member = |root: u64| usize::try_from(root).map_err(|_| Unsaved);
        Ok(match saved {
            SavedCollective::Barrier => Collective::Barrier,
            SavedCollective::Broadcast { root, data } => {
                Collective::Broadcast { root: member(root)?, data }
            }
            SavedCollective::Reduce { data, reduction, root } => Collective::Reduce {
                data,
                reduction: Reduction::from_code(reduction).ok_or(Unsaved)?,
                root: root.map(member).transpose()?,
            },
        })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SavedPost {
    Send { to: u32, context: u16, tag: i32, data: Bytes },
    Recv { pattern: SavedPattern, bytes: u64 },
    Collective { group: SavedGroup, call: SavedCollective },
}

impl From<&Post> for SavedPost {
    fn from(post: &Post) -> SavedPost {
        match post {
            Post::Send { address: Address { to, context, tag }, data } => {
                SavedPost::Send { to: to.0, context: context.0, tag: tag.0, data: data.clone() }
            }
            Post::Recv { pattern, bytes } => {
                SavedPost::Recv { pattern: (*pattern).into(), bytes: *bytes as u64 }
            }
            Post::Collective { group, call } => {
                SavedPost::Collective { group: group.into(), call: call.into() }
            }
        }
    }
}

impl TryFrom<SavedPost> for Post {
    type Error = Unsaved;

    fn try_from(saved: SavedPost) -> Result<Post, Unsaved> {
        Ok(match saved {
            SavedPost::Send { to, context, tag, data } => {
                let (to, context, tag) = (Rank(to), Context(context), Tag(tag));
                Post::Send { address: Address { to, context, tag }, data }
            }
            SavedPost::Recv { pattern, bytes } => Post::Recv {
                pattern: pattern.into(),
                bytes: usize::try_from(bytes).map_err(|_| Unsaved)?,
            },
            SavedPost::Collective { group, call } => {
                Post::Collective { group: group.into(), call: call.try_into()? }
            }
        })
    }
}

/// An outcome that no rank has received. Every error but a refusal ends the job, so no other is
/// saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SavedOutcome {
    Done,
    Received { from: u32, tag: i32, bytes: u64, data: Vec<u8> },
    Data(Vec<u8>),
    Refused { members: u64 },
}

impl SavedOutcome {
    /// The outcome of a completion; `None` if the job is about to end.
    pub(crate) fn of(completion: &Completion) -> Option<SavedOutcome> {
        Some(match &completion.outcome {
            Ok(Outcome::Done) => SavedOutcome::Done,
            Ok(Outcome::Data(data)) => SavedOutcome::Data(data.clone()),
            Ok(Outcome::Received { status, data }) => SavedOutcome::Received {
                from: status.source.0,
                tag: status.tag.0,
                bytes: status.bytes as u64,
                data: data.clone(),
            },
            Err(BcsError::GroupRefused { members, .. }) => {
                SavedOutcome::Refused { members: *members as u64 }
            }
            Err(_) => return None,
        })
    }

    pub(crate) fn of_job(self, job: JobKey, request: SavedRequest) -> Result<Completion, Unsaved> {
        let number = |bytes: u64| usize::try_from(bytes).map_err(|_| Unsaved);
        let (member, request) = request.in_job(job);
        let outcome = match self {
            SavedOutcome::Done => Ok(Outcome::Done),
            SavedOutcome::Data(data) => Ok(Outcome::Data(data)),
            SavedOutcome::Received { from, tag, bytes, data } => {
                let status = Status { source: Rank(from), tag: Tag(tag), bytes: number(bytes)? };
                Ok(Outcome::Received { status, data })
            }
            SavedOutcome::Refused { members } => Err(BcsError::GroupRefused {
                members: number(members)?,
                why: "the node's former Node Manager refused it",
            }),
        };
        Ok(Completion { member, request, outcome })
    }
}
