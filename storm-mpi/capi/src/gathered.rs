//! An exchange of bytes that the library itself needs.

use crate::fault::Outcome;
use storm_mpi::collective::{BlocksMut, Party, now};

/// The data of all members, one after the other; all have the same length.
pub(crate) fn gathered(party: Party<'_>, mine: &[u8]) -> Outcome<Vec<u8>> {
    let places: Vec<_> =
        (0..party.size()).map(|at| at * mine.len()..(at + 1) * mine.len()).collect();
    let mut all = vec![0; party.size() * mine.len()];
    now(party.allgather(Some(mine), &mut BlocksMut::new(&mut all, &places)?))?;
    Ok(all)
}
