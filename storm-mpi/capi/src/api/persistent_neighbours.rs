//! Collectives of neighbours that a request starts repeatedly (MPI-4.1, section 8.9). Arrays are
//! copied when the request is made.

use super::neighbours::{each_to_each, even, mixed_of, neighbours, one_to_each, uneven};
use super::persistent::{Places, both, now};
use super::tables::persistent_collectives;
use crate::abi::{Array, Buffer, BufferMut, KeptArray, Out};
use crate::comm::Comm;
use crate::datatype::Type;
use crate::fault::Outcome;
use crate::kept::Kept;
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, persistent};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;

/// Number of neighbours that this process receives from, and number that it sends to.
fn edges(comm: &Comm) -> Outcome<[usize; 2]> {
    let neighbours = neighbours(comm)?;
    Ok([neighbours.sources().len(), neighbours.destinations().len()])
}

/// The blocks at these places.
fn blocks(
    places: &Rc<Places>,
    buffer: Buffer,
    datatype: Handle,
) -> impl FnOnce(&Members, usize) -> Outcome<MemberBlocks> + use<> {
    let places = Rc::clone(places);
    move |all, n| uneven(all, (buffer, places.counts.array(), places.displs.array(), datatype), n)
}

/// Blocks with a type each, for some number of neighbours.
struct Typed {
    buffer: Buffer,
    counts: KeptArray<c_int>,
    displs: KeptArray<isize>,
    types: Vec<Kept<Type>>,
}

impl Typed {
    fn of(
        session: &'static Session,
        buffer: Buffer,
        (counts, displs, types): (Array<c_int>, Array<isize>, Array<Handle>),
        n: usize,
    ) -> Outcome<Rc<Typed>> {
        let types = types.get(n)?.iter().map(|&datatype| Kept::datatype(session, datatype));
        let types = types.collect::<Outcome<_>>()?;
        Ok(Rc::new(Typed { buffer, counts: counts.kept(n), displs: displs.kept(n), types }))
    }

    fn blocks(self: &Rc<Self>) -> impl FnOnce(&Members, usize) -> Outcome<MemberBlocks> + use<> {
        let typed = Rc::clone(self);
        move |all, n| {
            let places = (typed.counts.array(), typed.displs.array());
            mixed_of(all, (typed.buffer, places.0, places.1, &now(&typed.types)), n)
        }
    }
}

persistent_collectives! {
    fn MPI_Neighbor_allgather_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        move |session, comm| {
            edges(comm)?;
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let mine = (sendbuf, sendcount, sent.handle());
                let into = (recvbuf.read(), recvcount, received.handle());
                one_to_each(all, mine, move |all, n| even(all, into, n))
            })
        }
    }

    fn MPI_Neighbor_allgatherv_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle,
    ) {
        move |session, comm| {
            let [sources, _] = edges(comm)?;
            let (sent, received) = both(session, sendtype, recvtype)?;
            let places = Places::of(sources, recvcounts, displs);
            Ok(move |all| {
                let mine = (sendbuf, sendcount, sent.handle());
                one_to_each(all, mine, blocks(&places, recvbuf.read(), received.handle()))
            })
        }
    }

    fn MPI_Neighbor_alltoall_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        move |session, comm| {
            edges(comm)?;
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let from = (sendbuf, sendcount, sent.handle());
                let into = (recvbuf.read(), recvcount, received.handle());
                each_to_each(all, move |all, n| even(all, from, n), move |all, n| even(all, into, n))
            })
        }
    }

    fn MPI_Neighbor_alltoallv_init(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>, recvtype: Handle,
    ) {
        move |session, comm| {
            let [sources, destinations] = edges(comm)?;
            let (sent, received) = both(session, sendtype, recvtype)?;
            let from = Places::of(destinations, sendcounts, sdispls);
            let into = Places::of(sources, recvcounts, rdispls);
            Ok(move |all| {
                let from = blocks(&from, sendbuf, sent.handle());
                each_to_each(all, from, blocks(&into, recvbuf.read(), received.handle()))
            })
        }
    }

    fn MPI_Neighbor_alltoallw_init(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<isize>, sendtypes: Array<Handle>,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<isize>,
        recvtypes: Array<Handle>,
    ) {
        move |session, comm| {
            let [sources, destinations] = edges(comm)?;
            let from = Typed::of(session, sendbuf, (sendcounts, sdispls, sendtypes), destinations)?;
            let into = Typed::of(session, recvbuf.read(), (recvcounts, rdispls, recvtypes), sources)?;
            Ok(move |all| each_to_each(all, from.blocks(), into.blocks()))
        }
    }
}
