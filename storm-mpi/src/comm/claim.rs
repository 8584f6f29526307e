//! How members agree on a context while they communicate otherwise (`MPI_Comm_idup`).
//!
//! Two agreements that are under way at the same time, in different orders at different members,
//! could choose the same id. So members first find the ids that are free at all of them. Then each
//! member reports whether the chosen id is still free for it, and reserves the id until all have
//! reported. If a member has lost the id meanwhile, all search again, from another place on. No
//! agreement waits for another, so all end, in any order in which members begin them.

use super::context::InBoth;
use super::{ContextId, ContextPool};
use crate::collective::{Party, Span, now};
use crate::error::CommError;
use std::cell::RefCell;

/// Limit of searches for an id. Two agreements that want one of the few remaining ids may both lose
/// it, time after time. With more than a few left, there is no third search.
pub const ATTEMPTS: usize = 64;
/// Distances between the places from which agreements search, for neighbouring parents and for
/// successive agreements of one parent. Both are prime.
const STRIDES: [usize; 2] = [61, 7];

/// Agrees with all members of a communicator on an id for a new communicator of theirs, and takes
/// the id from the pool. All members call it, each with its own pool. `None` means that no id is
/// free at all of them.
///
/// # Errors
/// [`CommError`].
pub async fn claim(
    pool: &RefCell<ContextPool>,
    members: Party<'_>,
) -> Result<Option<ContextId>, CommError> {
    let (parent, turn) = members.place_and_turn();
    let place = STRIDES[0] * parent + STRIDES[1] * turn;
    for attempt in 0..ATTEMPTS {
        let mine = Span::of(pool.borrow().claimable());
        let free = members.allreduce(mine, &mut InBoth).await?;
        let start = place.wrapping_mul(2 * attempt + 1);
        let Some(id) = ContextId::claimable(free.as_ref(), start) else { return Ok(None) };
        let have = pool.borrow_mut().take_if_free(id);
        let all_have = members.allreduce(Span::of(&[u8::from(have)]), &mut InBoth).await?;
        if all_have.as_ref() == [1] {
            return Ok(Some(id));
        }
        if have {
            pool.borrow_mut().give_back(id);
        }
    }
    Ok(None)
}

/// Reserves an id for two groups, if it is still free at all their members. Returns whether it is.
/// All members call it with their group; the leaders also pass the party of the leaders. If the id
/// was free only at some members, it is free there again.
///
/// # Errors
/// [`CommError`].
pub fn keep_between(
    pool: &RefCell<ContextPool>,
    id: ContextId,
    (group, leader): (Party<'_>, usize),
    leaders: Option<Party<'_>>,
) -> Result<bool, CommError> {
    let have = pool.borrow_mut().take_if_free(id);
    let mut all_have = [u8::from(have)];
    for party in [Some(group), leaders].into_iter().flatten() {
        let told = now(party.allreduce(Span::of(&all_have), &mut InBoth))?;
        all_have.copy_from_slice(told.as_ref());
    }
    now(group.bcast(&mut all_have, leader))?;
    if have && all_have == [0] {
        pool.borrow_mut().give_back(id);
    }
    Ok(all_have == [1])
}

impl ContextPool {
    /// Agrees with all members of `parent` on an id for a new communicator of some of them. All
    /// members call it. `None` means that no id is free at all of them.
    ///
    /// Background work also uses the pool meanwhile. The caller then [takes](ContextPool::take) the
    /// id, or [gives it back](ContextPool::give_back) if this process is not in the new
    /// communicator.
    ///
    /// # Errors
    /// [`CommError`].
    pub fn agree(pool: &RefCell<Self>, parent: Party<'_>) -> Result<Option<ContextId>, CommError> {
        if parent.has_threads()? {
            // Other threads may agree at the same time, in another order at other members.
            return now(claim(pool, parent));
        }
        Ok(Self::free_at_all(pool, parent)?.lowest())
    }
}
