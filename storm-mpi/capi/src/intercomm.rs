//! The program's elements in collectives between two groups. `collective.rs` does the same for one
//! group.

use crate::abi::{BufferMut, PROC_NULL, ROOT};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, Whole};
use crate::memory::Elements;
use crate::table::Handle;
use std::ffi::c_int;
use storm_mpi::collective::{Between, Blocks, BlocksMut, Root};

/// The root of a collective between groups, from its number in C.
pub(crate) fn root(comm: &Comm, root: c_int) -> Outcome<Root> {
    let place = usize::try_from(root).ok().filter(|&place| place < comm.peers.size());
    match root {
        ROOT => Ok(Root::Here),
        PROC_NULL => Ok(Root::LocalPeer),
        _ => place.map(Root::Remote).ok_or_else(|| comm.no_such(Class::Root, root)),
    }
}

/// `MPI_IN_PLACE` is only for one group.
fn in_place() -> Fault {
    Fault::new(Class::Buffer, "MPI_IN_PLACE on an inter-communicator")
}

/// Gives all members of the other group the root's elements.
pub(crate) async fn from_one(
    all: &Members,
    groups: Between<'_>,
    (buffer, count, datatype): (BufferMut, c_int, Handle),
    root: Root,
) -> Outcome {
    if root == Root::LocalPeer {
        return Ok(());
    }
    let elements = Elements::written(buffer, count, &*all.session.datatype(datatype)?)?;
    if root == Root::Here {
        return Ok(groups.bcast_from(&elements.packed()).await?);
    }
    let mut landing = elements.landing();
    groups.bcast(landing.bytes_mut(), root).await?;
    landing.finish(elements.bytes);
    Ok(())
}

/// Brings the elements of one group to the root in the other. Only the root uses the receive
/// arguments.
pub(crate) async fn all_to_root(
    all: &Members,
    groups: Between<'_>,
    mine: &Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    root: Root,
) -> Outcome {
    match root {
        Root::LocalPeer => Ok(()),
        Root::Remote(_) => {
            let mine = mine.elements(all.session)?.ok_or_else(in_place)?;
            Ok(groups.gather(&mine.packed(), None, root).await?)
        }
        Root::Here => {
            let into = into(all)?;
            let places = into.places();
            let mut landing = into.landing(false);
            let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
            groups.gather(&[], Some(&mut blocks), root).await?;
            landing.finish();
            Ok(())
        }
    }
}

/// Brings each member of one group its elements from the root in the other. Only the root uses the
/// send arguments.
pub(crate) async fn from_root(
    all: &Members,
    groups: Between<'_>,
    from: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    mine: &Whole,
    root: Root,
) -> Outcome {
    match root {
        Root::LocalPeer => Ok(()),
        Root::Remote(_) => {
            let mine = mine.elements(all.session)?.ok_or_else(in_place)?;
            let mut landing = mine.landing();
            groups.scatter(None, landing.bytes_mut(), root).await?;
            landing.finish(mine.bytes);
            Ok(())
        }
        Root::Here => {
            let from = from(all)?;
            let (packed, places) = (from.packed(), from.places());
            Ok(groups.scatter(Some(Blocks::new(&packed, &places)?), &mut [], root).await?)
        }
    }
}

/// Brings the elements of each group to all members of the other.
pub(crate) async fn gather_all(
    all: &Members,
    groups: Between<'_>,
    mine: &Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    let into = into(all)?;
    let mine = mine.elements(all.session)?.ok_or_else(in_place)?;
    let places = into.places();
    let mut landing = into.landing(false);
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    groups.allgather(&mine.packed(), &mut blocks).await?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from each member of the other group.
pub(crate) async fn all_from_all(
    all: &Members,
    groups: Between<'_>,
    from: impl FnOnce(&Members) -> Outcome<Option<MemberBlocks>>,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    let (from, into) = (from(all)?.ok_or_else(in_place)?, into(all)?);
    let (packed, places, into_places) = (from.packed(), from.places(), into.places());
    let mut landing = into.landing(false);
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &into_places)?;
    groups.alltoall(Blocks::new(&packed, &places)?, &mut blocks).await?;
    landing.finish();
    Ok(())
}
