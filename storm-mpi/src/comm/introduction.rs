//! Introduction of two groups (MPI-4.1, section 7.6.2). Their leaders, which reach each other
//! through some communicator, exchange their members and free contexts. Each leader then informs
//! its own group.
//!
//! Both leaders reach the same result without a further message. A leader that has failed, but
//! knows the other, reports it. Both groups then learn of the failure from their leaders instead of
//! waiting for ever.

use super::{ContextId, FreeContexts, Group};
use crate::collective::{BlocksMut, Party, now};
use crate::error::CommError;
use crate::rank::Rank;

const WORD_BYTES: usize = 4;
/// A leader's first message to the other: the code of a refusal, or none; the number of members;
/// the free contexts.
const OFFER_BYTES: usize = 2 * WORD_BYTES + FreeContexts::BYTES;
/// A leader's first message to its own group: the code of a refusal, or none; the context; the
/// number of the others.
const HEAD_BYTES: usize = 3 * WORD_BYTES;
/// The code that stands for no refusal.
const ACCEPTED: u32 = u32::MAX;

/// A group's knowledge of another group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The context of messages between the groups, free at all members of both.
    pub context: ContextId,
    /// The other group.
    pub others: Group,
}

/// The reason why there is no introduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This group's leader has failed. The code is the caller's.
    Leader(u16),
    /// The other group's leader has failed.
    OtherLeader(u16),
    /// Some process is in both groups.
    CommonMember,
    /// No context is free at all members.
    NoContext,
}

impl Refusal {
    fn to_word(self) -> u32 {
        match self {
            Refusal::Leader(why) => u32::from(why),
            Refusal::OtherLeader(why) => 1 << 16 | u32::from(why),
            Refusal::CommonMember => 2 << 16,
            Refusal::NoContext => 3 << 16,
        }
    }

    fn from_word(word: u32) -> Refusal {
        match word >> 16 {
            // The value is cut to the code's 16 bits.
            0 => Refusal::Leader(word as u16),
            1 => Refusal::OtherLeader(word as u16),
            2 => Refusal::CommonMember,
            _ => Refusal::NoContext,
        }
    }
}

impl Introduction {
    /// Exchanges what the leaders know and returns the result. Both leaders call it, with their
    /// group, the contexts that are free there, and the number from which both search for one. A
    /// leader that has failed passes its reason instead.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn of_leaders(
        leaders: Party<'_>,
        group: &Group,
        (mut free, start): (FreeContexts, usize),
        failed: Option<u16>,
    ) -> Result<Result<Introduction, Refusal>, CommError> {
        let code = failed.map_or(ACCEPTED, |why| Refusal::OtherLeader(why).to_word());
        let mut offer = [code, group.size() as u32].map(u32::to_le_bytes).as_flattened().to_vec();
        offer.extend_from_slice(free.as_bytes());
        let theirs = exchanged(leaders, &offer, OFFER_BYTES)?;
        if let Some(why) = failed {
            return Ok(Err(Refusal::Leader(why)));
        }
        let (head, their_free) = theirs.split_at(2 * WORD_BYTES);
        let [their_code, their_size] = [0, 1].map(|at| word(&head[at * WORD_BYTES..]));
        if their_code != ACCEPTED {
            return Ok(Err(Refusal::from_word(their_code)));
        }
        let their_size = their_size as usize;
        free.keep_those_of(their_free);
        let theirs = exchanged(leaders, &bytes(group), their_size.saturating_mul(WORD_BYTES))?;
        let others = Group::new(ranks(&theirs));
        Ok(match free.first_from(start) {
            _ if group.intersection(&others).size() > 0 => Err(Refusal::CommonMember),
            None => Err(Refusal::NoContext),
            Some(context) => Ok(Introduction { context, others }),
        })
    }

    /// Sends the result of a group's leader to all members of the group. All members call it; the
    /// leader passes the result.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn share(
        members: Party<'_>,
        leader: usize,
        came: Option<Result<Introduction, Refusal>>,
    ) -> Result<Result<Introduction, Refusal>, CommError> {
        let (mut head, mut told) = ([0; HEAD_BYTES], Vec::new());
        if let Some(came) = &came {
            let (code, context, size) = match came {
                Ok(Introduction { context, others }) => {
                    told = bytes(others);
                    (ACCEPTED, context.to_word(), others.size() as u32)
                }
                Err(refusal) => (refusal.to_word(), 0, 0),
            };
            for (place, word) in head.chunks_mut(WORD_BYTES).zip([code, context, size]) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        now(members.bcast(&mut head, leader))?;
        let [code, context, size] = [0, 1, 2].map(|at| word(&head[at * WORD_BYTES..]));
        if code != ACCEPTED {
            return Ok(Err(Refusal::from_word(code)));
        }
        told.resize(size as usize * WORD_BYTES, 0);
        now(members.bcast(&mut told, leader))?;
        let context = ContextId::from_word(context).ok_or(CommError::NoContext)?;
        Ok(Ok(Introduction { context, others: Group::new(ranks(&told)) }))
    }
}

/// Sends `mine` to the other leader, and returns the `bytes` that it sent.
fn exchanged(leaders: Party<'_>, mine: &[u8], bytes: usize) -> Result<Vec<u8>, CommError> {
    let lengths = if leaders.me() == 0 { [mine.len(), bytes] } else { [bytes, mine.len()] };
    let places = [0..lengths[0], lengths[0]..lengths[0] + lengths[1]];
    let mut both = vec![0; lengths[0] + lengths[1]];
    now(leaders.allgather(Some(mine), &mut BlocksMut::new(&mut both, &places)?))?;
    let other = if leaders.me() == 0 { 1 } else { 0 };
    Ok(both[places[other].clone()].to_vec())
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |&word| u32::from_le_bytes(word))
}

/// The members of a group as they are sent; [`ranks`] reads them.
fn bytes(group: &Group) -> Vec<u8> {
    group.members().iter().flat_map(|rank| rank.0.to_le_bytes()).collect()
}

fn ranks(bytes: &[u8]) -> impl Iterator<Item = Rank> + '_ {
    bytes.chunks_exact(WORD_BYTES).map(|rank| Rank(word(rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_as_they_are() {
        for refusal in [
            Refusal::Leader(0),
            Refusal::Leader(u16::MAX),
            Refusal::OtherLeader(0),
            Refusal::OtherLeader(u16::MAX),
            Refusal::CommonMember,
            Refusal::NoContext,
        ] {
            assert_ne!(refusal.to_word(), ACCEPTED);
            assert_eq!(Refusal::from_word(refusal.to_word()), refusal);
        }
    }
}
