//! Collectives with a count and a displacement for each member, and what they share with the others.

use crate::abi::{Array, Buffer, BufferMut};
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::memory::Elements;
use crate::session::{Session, on};
use crate::spread::Spread;
use crate::table::Handle;
use std::ffi::c_int;
use storm_mpi::collective::{Blocks, BlocksMut};

/// A member's own elements, which the arguments describe and `MPI_IN_PLACE` may stand for.
pub(super) struct Whole {
    pub(super) buffer: Buffer,
    pub(super) count: c_int,
    pub(super) datatype: Handle,
}

impl Whole {
    /// `None`: they are in their place in the other buffer.
    fn elements(&self, session: &Session) -> Outcome<Option<Elements>> {
        if self.buffer.is_in_place() {
            return Ok(None);
        }
        Elements::read(self.buffer, self.count, &*session.datatype(self.datatype)?).map(Some)
    }
}

/// A buffer's blocks, for so many members; looked at by the root only.
type Described<'a> = &'a dyn Fn(usize) -> Outcome<Spread>;

/// Brings the members' elements to the root.
pub(super) fn all_to_root(
    session: &Session,
    comm: &Comm,
    mine: Whole,
    into: Described<'_>,
    root: c_int,
) -> Outcome {
    let root = comm.root(root)?;
    let party = comm.party(&session.process);
    let mine = mine.elements(session)?;
    let packed = mine.as_ref().map(Elements::packed);
    if comm.me != root {
        return Ok(party.gather(packed.as_deref(), None, root)?);
    }
    let into = into(comm.size())?;
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    party.gather(packed.as_deref(), Some(&mut blocks), root)?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from the root.
pub(super) fn from_root(
    session: &Session,
    comm: &Comm,
    from: Described<'_>,
    mine: Whole,
    root: c_int,
) -> Outcome {
    let root = comm.root(root)?;
    let party = comm.party(&session.process);
    let mine = mine.elements(session)?;
    let mut landing = mine.as_ref().map(Elements::landing);
    let place = landing.as_mut().map(|landing| landing.bytes_mut());
    if comm.me == root {
        let from = from(comm.size())?;
        let (packed, places) = (from.packed(), from.places());
        party.scatter(Some(Blocks::new(&packed, &places)?), place, root)?;
    } else {
        party.scatter(None, place, root)?;
    }
    if let (Some(mine), Some(landing)) = (mine, landing) {
        landing.finish(mine.bytes);
    }
    Ok(())
}

/// Brings the members' elements to all.
pub(super) fn gather_all(session: &Session, comm: &Comm, mine: Whole, into: &Spread) -> Outcome {
    let mine = mine.elements(session)?;
    let packed = mine.as_ref().map(Elements::packed);
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    comm.party(&session.process).allgather(packed.as_deref(), &mut blocks)?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from each; `None`: they are where the received ones will be.
pub(super) fn all_from_all(
    session: &Session,
    comm: &Comm,
    from: Option<&Spread>,
    into: &Spread,
) -> Outcome {
    let (places, own);
    let packed = match from {
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
    comm.party(&session.process).alltoall(Blocks::new(&packed, &places)?, &mut blocks)?;
    landing.finish();
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Gatherv(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    displs: Array<c_int>,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Gatherv", |session, comm| {
        let into = |members| {
            let (counts, displs) = (recvcounts.get(members)?, displs.get(members)?);
            Spread::uneven(recvbuf.read(), counts, displs, &*session.datatype(recvtype)?)
        };
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        all_to_root(session, comm, mine, &into, root)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scatterv(
    sendbuf: Buffer,
    sendcounts: Array<c_int>,
    displs: Array<c_int>,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Scatterv", |session, comm| {
        let from = |members| {
            let (counts, displs) = (sendcounts.get(members)?, displs.get(members)?);
            Spread::uneven(sendbuf, counts, displs, &*session.datatype(sendtype)?)
        };
        let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
        from_root(session, comm, &from, mine, root)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allgatherv(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    displs: Array<c_int>,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Allgatherv", |session, comm| {
        let (counts, displs) = (recvcounts.get(comm.size())?, displs.get(comm.size())?);
        let datatype = session.datatype(recvtype)?;
        let into = Spread::uneven(recvbuf.read(), counts, displs, &datatype)?;
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        gather_all(session, comm, mine, &into)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoallv(
    sendbuf: Buffer,
    sendcounts: Array<c_int>,
    sdispls: Array<c_int>,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    rdispls: Array<c_int>,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Alltoallv", |session, comm| {
        let members = comm.size();
        let (counts, displs) = (recvcounts.get(members)?, rdispls.get(members)?);
        let datatype = session.datatype(recvtype)?;
        let into = Spread::uneven(recvbuf.read(), counts, displs, &datatype)?;
        let from = match sendbuf.is_in_place() {
            true => None,
            false => {
                let (counts, displs) = (sendcounts.get(members)?, sdispls.get(members)?);
                Some(Spread::uneven(sendbuf, counts, displs, &*session.datatype(sendtype)?)?)
            }
        };
        all_from_all(session, comm, from.as_ref(), &into)
    })
}
