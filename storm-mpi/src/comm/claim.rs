//! How members agree on a context while they do other things (`MPI_Comm_idup`).
//!
//! Two agreements that are under way at once, in another order at another member, could come to the same id. So members
//! first look which are free at all, and then each tells whether the one that they mean still is; it is kept from all
//! others until all have told. Where somebody has lost it meanwhile all look again, from somewhere else on. None waits for
//! another agreement, so in whatever order members begin them, all come to an end.

use super::context::InBoth;
use super::{ContextId, ContextPool};
use crate::collective::{Party, Span, now};
use crate::error::CommError;
use std::cell::RefCell;

/// How often members look for an id. Two that want one of the few ids left may both lose it, time after time;
/// with more than a few left it does not come to a third.
pub const ATTEMPTS: usize = 64;
/// Between the places from which agreements look, of neighbouring parents and of one parent one after the other: prime.
const STRIDES: [usize; 2] = [61, 7];

/// Agrees with all members of a communicator on an id for another one of them, and takes it from the pool; all call it,
/// each with its own pool. `None`: there is none that is free at all of them.
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

/// Keeps an id that two groups mean to use from all others, if it still is free at all of them; whether it is. All call it,
/// each with its group, and the leaders with what they are for each other: where it was free only at some, it is again.
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
