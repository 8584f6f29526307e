//! One rank's collectives: the collective that it has called and waits for, and the communicators
//! that its calls name.

use super::bad_rank::BadRank;
use crate::saved::{SavedCollective, SavedGroup};
use crate::{Collective, Group, GroupId, Outcome, Unsaved};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use storm_mpi::segment::{CONTEXTS_MAX, Call, CallDescriptor, CorruptSegment, Frame, NodeEnd};
use storm_mpi::{Context, Rank};

/// A rank's collectives.
#[derive(Debug)]
pub(super) struct Calls {
    me: Rank,
    /// Number of ranks in the job.
    size: u32,
    /// Communicators that the rank has named, by context: as many as there are contexts of
    /// collectives.
    groups: BTreeMap<u16, Group>,
    state: State,
    /// Communicators that the rank has replaced by others.
    left: Vec<GroupId>,
}

/// The progress of the rank's collective. It has one at a time.
#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    /// The call was taken out of the segment.
    Called(Group, Collective),
    /// The call was posted to the engine.
    Posted,
    /// The collective is over, with this result for the rank.
    Over(Result<Vec<u8>, Refused>),
}

/// The nodes do not carry out the collective.
#[derive(Clone, Copy, Debug)]
struct Refused;

impl Calls {
    /// No collective, for rank `me` of a job of `size` ranks.
    pub(super) fn new(me: Rank, size: u32) -> Calls {
        Calls { me, size, groups: BTreeMap::new(), state: State::None, left: Vec::new() }
    }

    /// Takes the rank's call.
    pub(super) fn take(&mut self, context: Context, descriptor: &[u8]) -> Result<(), BadRank> {
        let State::None = self.state else { return Err(BadRank) };
        // Collectives have the odd contexts, and messages the even ones (`ContextId::collective`).
        if context.0 >= CONTEXTS_MAX || context.0.is_multiple_of(2) {
            return Err(BadRank);
        }
        let CallDescriptor { members, call } = CallDescriptor::decode(descriptor)?;
        if !members.is_empty() {
            self.name(context, members)?;
        }
        let group = self.groups.get(&context.0).ok_or(BadRank)?;
        let member = |root: u32| {
            let root = root as usize;
            if root < group.members.len() { Ok(root) } else { Err(BadRank) }
        };
        let call = match call {
            Call::Barrier => Collective::Barrier,
            Call::Broadcast { root, data } => {
                let data = Bytes::copy_from_slice(data);
                Collective::Broadcast { root: member(root)?, data }
            }
            Call::Reduce { reduction, root, data } => {
                let data = Bytes::copy_from_slice(data);
                Collective::Reduce { data, reduction, root: root.map(member).transpose()? }
            }
        };
        self.state = State::Called(group.clone(), call);
        Ok(())
    }

    /// Records a communicator that the rank names to its node for the first time.
    fn name(&mut self, context: Context, members: Vec<Rank>) -> Result<(), BadRank> {
        let exist = members.iter().all(|rank| rank.0 < self.size);
        if !exist || !members.contains(&self.me) {
            return Err(BadRank);
        }
        let id = members.first().and_then(|first| GroupId::new(context, *first)).ok_or(BadRank)?;
        let group = Group { id, members: members.into() };
        if let Some(before) = self.groups.insert(context.0, group)
            && before.id != id
        {
            self.left.push(before.id);
        }
        Ok(())
    }

    /// Takes the communicators that the rank will not use any more.
    pub(super) fn take_left(&mut self) -> Vec<GroupId> {
        std::mem::take(&mut self.left)
    }

    /// Takes the collective that is to be posted, once.
    pub(super) fn take_call(&mut self) -> Option<(Group, Collective)> {
        match std::mem::take(&mut self.state) {
            State::Called(group, call) => {
                self.state = State::Posted;
                Some((group, call))
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Records that the collective is over.
    pub(super) fn is_over(&mut self, outcome: Outcome) {
        let data = match outcome {
            Outcome::Done => Vec::new(),
            Outcome::Data(data) | Outcome::Received { data, .. } => data,
        };
        self.state = State::Over(Ok(data));
    }

    /// Records that the nodes do not carry out the collective.
    pub(super) fn is_refused(&mut self) {
        self.state = State::Over(Err(Refused));
    }

    /// Whether there is a result that the rank has not received.
    pub(super) fn has_result(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Gives the rank its result, if there is one and room for it. Returns whether it did.
    pub(super) fn hand_on(&mut self, end: &NodeEnd) -> Result<bool, CorruptSegment> {
        let State::Over(result) = &self.state else { return Ok(false) };
        let frame = match result {
            Ok(data) => Frame::Result { data },
            Err(Refused) => Frame::Refused,
        };
        let given = end.give(frame)?;
        if given {
            self.state = State::None;
        }
        Ok(given)
    }

    /// The state, for the next Node Manager.
    pub(super) fn save(&self) -> SavedCalls {
        let state = match &self.state {
            State::None => SavedState::None,
            State::Called(group, call) => SavedState::Called(group.into(), call.into()),
            State::Posted => SavedState::Posted,
            State::Over(result) => SavedState::Over(result.as_ref().ok().cloned()),
        };
        let groups = self.groups.iter().map(|(context, group)| (*context, group.into()));
        SavedCalls { groups: groups.collect(), state, left: self.left.clone() }
    }

    /// Continues with a saved state.
    pub(super) fn restore((me, size): (Rank, u32), saved: SavedCalls) -> Result<Calls, Unsaved> {
        let state = match saved.state {
            SavedState::None => State::None,
            SavedState::Called(group, call) => State::Called(group.into(), call.try_into()?),
            SavedState::Posted => State::Posted,
            SavedState::Over(result) => State::Over(result.ok_or(Refused)),
        };
        let groups = saved.groups.into_iter().map(|(context, group)| (context, group.into()));
        Ok(Calls { me, size, groups: groups.collect(), state, left: saved.left })
    }
}

/// A rank's collectives, for the next Node Manager.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedCalls {
    groups: Vec<(u16, SavedGroup)>,
    state: SavedState,
    left: Vec<GroupId>,
}

#[derive(Debug, Serialize, Deserialize)]
enum SavedState {
    None,
    Called(SavedGroup, SavedCollective),
    Posted,
    /// The result, or the refusal.
    Over(Option<Vec<u8>>),
}
