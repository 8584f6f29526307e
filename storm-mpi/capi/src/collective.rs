//! The program's elements in collectives, at once or in the background.
//!
//! Each body is written once, as a future that owns all its data. Arguments are checked before the
//! future first yields. So in both cases, the call itself reports a mistake in them.

use crate::abi::BufferMut;
use crate::fault::Outcome;
use crate::intercomm;
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, Whole};
use crate::memory::Elements;
use crate::table::Handle;
use std::ffi::c_int;
use storm_mpi::collective::{Blocks, BlocksMut};

/// Gives all members the root's elements.
pub(crate) async fn from_one(
    all: Members,
    (buffer, count, datatype): (BufferMut, c_int, Handle),
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::from_one(&all, groups, (buffer, count, datatype), root).await;
    }
    let root = all.comm.root(root)?;
    let elements = Elements::written(buffer, count, &*all.session.datatype(datatype)?)?;
    let party = all.party();
    if all.comm.me == root {
        // The root only sends: its memory is not written, and may be read-only.
        return Ok(party.bcast_from(&elements.packed()).await?);
    }
    let mut landing = elements.landing();
    party.bcast(landing.bytes_mut(), root).await?;
    landing.finish(elements.bytes);
    Ok(())
}

/// Brings the members' elements to the root. Only the root uses the receive arguments.
pub(crate) async fn all_to_root(
    all: Members,
    mine: Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::all_to_root(&all, groups, &mine, into, root).await;
    }
    let root = all.comm.root(root)?;
    let party = all.party();
    let mine = mine.elements(all.session)?;
    let packed = mine.as_ref().map(Elements::packed);
    if all.comm.me != root {
        return Ok(party.gather(packed.as_deref(), None, root).await?);
    }
    let into = into(&all)?;
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    party.gather(packed.as_deref(), Some(&mut blocks), root).await?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from the root. Only the root uses the send arguments.
pub(crate) async fn from_root(
    all: Members,
    from: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    mine: Whole,
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::from_root(&all, groups, from, &mine, root).await;
    }
    let root = all.comm.root(root)?;
    let party = all.party();
    let mine = mine.elements(all.session)?;
    let mut landing = mine.as_ref().map(Elements::landing);
    let place = landing.as_mut().map(|landing| landing.bytes_mut());
    if all.comm.me == root {
        let from = from(&all)?;
        let (packed, places) = (from.packed(), from.places());
        party.scatter(Some(Blocks::new(&packed, &places)?), place, root).await?;
    } else {
        party.scatter(None, place, root).await?;
    }
    if let (Some(mine), Some(landing)) = (mine, landing) {
        landing.finish(mine.bytes);
    }
    Ok(())
}

/// Brings the members' elements to all.
pub(crate) async fn gather_all(
    all: Members,
    mine: Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    if let Some(groups) = all.between() {
        return intercomm::gather_all(&all, groups, &mine, into).await;
    }
    let into = into(&all)?;
    let mine = mine.elements(all.session)?;
    let packed = mine.as_ref().map(Elements::packed);
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    all.party().allgather(packed.as_deref(), &mut blocks).await?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from each member. `None` means that the elements are in the
/// buffer of the received ones.
pub(crate) async fn all_from_all(
    all: Members,
    from: impl FnOnce(&Members) -> Outcome<Option<MemberBlocks>>,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    if let Some(groups) = all.between() {
        return intercomm::all_from_all(&all, groups, from, into).await;
    }
    let (from, into) = (from(&all)?, into(&all)?);
    let (places, own);
    let packed = match &from {
        Some(from) => {
            places = from.places();
            from.packed()
        }
        None => {
            places = into.places();
            own = into.copied();
            own.into()
        }
    };
    let into_places = into.places();
    let mut landing = into.landing(false);
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &into_places)?;
    all.party().alltoall(Blocks::new(&packed, &places)?, &mut blocks).await?;
    landing.finish();
    Ok(())
}
