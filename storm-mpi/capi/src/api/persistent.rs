//! Collectives that a request starts repeatedly (MPI-4.1, section 6.13). Their arguments are
//! checked when they start. Arrays are copied when the request is made, because programs may free
//! them afterwards.

use super::collectives::{barrier, even, even_or_in_place};
use super::tables::persistent_collectives;
use super::vectors::{Placed, Uneven};
use crate::abi::{Array, Buffer, BufferMut, KeptArray, Out, ROOT};
use crate::collective::{all_from_all, all_to_root, from_one, from_root, gather_all};
use crate::comm::Comm;
use crate::datatype::Type;
use crate::fault::Outcome;
use crate::kept::Kept;
use crate::members::{Members, Whole, persistent};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;

/// The types of sent and received data. Not every member has both.
pub(super) fn both(
    session: &'static Session,
    sent: Handle,
    received: Handle,
) -> Outcome<(Kept<Type>, Kept<Type>)> {
    Ok((Kept::datatype(session, sent)?, Kept::datatype(session, received)?))
}

/// A type for each member, or for each member of the other group.
fn each(session: &'static Session, comm: &Comm, types: Array<Handle>) -> Outcome<Vec<Kept<Type>>> {
    let types = types.get(comm.peers.size())?;
    types.iter().map(|&datatype| Kept::datatype(session, datatype)).collect()
}

/// The counts and displacements of blocks for each member, or for each member of the other group.
pub(super) struct Places {
    pub(super) counts: KeptArray<c_int>,
    pub(super) displs: KeptArray<c_int>,
}

impl Places {
    /// The root's counts and displacements. The arrays of other members are ignored.
    fn at_root(comm: &Comm, root: c_int, counts: Array<c_int>, displs: Array<c_int>) -> Rc<Places> {
        let is_root = match comm.remote() {
            Some(_) => root == ROOT,
            None => usize::try_from(root) == Ok(comm.me),
        };
        Places::of(if is_root { comm.peers.size() } else { 0 }, counts, displs)
    }

    fn each(comm: &Comm, counts: Array<c_int>, displs: Array<c_int>) -> Rc<Places> {
        Places::of(comm.peers.size(), counts, displs)
    }

    /// The counts and displacements; none with `MPI_IN_PLACE`.
    fn unless_in_place(
        buffer: Buffer,
        comm: &Comm,
        counts: Array<c_int>,
        displs: Array<c_int>,
    ) -> Rc<Places> {
        Places::of(if buffer.is_in_place() { 0 } else { comm.peers.size() }, counts, displs)
    }

    pub(super) fn of(count: usize, counts: Array<c_int>, displs: Array<c_int>) -> Rc<Places> {
        Rc::new(Places { counts: counts.kept(count), displs: displs.kept(count) })
    }

    /// The blocks for one start. They refer to these arrays.
    fn uneven(&self, buffer: Buffer, datatype: Handle) -> Uneven {
        Uneven { buffer, counts: self.counts.array(), displs: self.displs.array(), datatype }
    }

    /// The blocks for one start, without their types.
    fn placed(&self, buffer: Buffer) -> Placed {
        Placed { buffer, counts: self.counts.array(), displs: self.displs.array() }
    }
}

/// The present handles of the types.
pub(super) fn now(types: &[Kept<Type>]) -> Vec<Handle> {
    types.iter().map(Kept::handle).collect()
}

persistent_collectives! {
    fn MPI_Barrier_init() {
        |_, _| Ok(barrier)
    }

    fn MPI_Bcast_init(buffer: BufferMut, count: c_int, datatype: Handle, root: c_int) {
        move |session, _| {
            let kept = Kept::datatype(session, datatype)?;
            Ok(move |all| from_one(all, (buffer, count, kept.handle()), root))
        }
    }

    fn MPI_Gather_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle, root: c_int,
    ) {
        move |session, _| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
                let into = even(recvbuf.read(), recvcount, received.handle());
                all_to_root(all, mine, into, root)
            })
        }
    }

    fn MPI_Gatherv_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle, root: c_int,
    ) {
        move |session, comm| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            let places = Places::at_root(comm, root, recvcounts, displs);
            Ok(move |all| {
                let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
                let (places, datatype) = (Rc::clone(&places), received.handle());
                let into = move |all: &Members| places.uneven(recvbuf.read(), datatype).blocks(all);
                all_to_root(all, mine, into, root)
            })
        }
    }

    fn MPI_Scatter_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle, root: c_int,
    ) {
        move |session, _| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let from = even(sendbuf, sendcount, sent.handle());
                let mine =
                    Whole { buffer: recvbuf.read(), count: recvcount, datatype: received.handle() };
                from_root(all, from, mine, root)
            })
        }
    }

    fn MPI_Scatterv_init(
        sendbuf: Buffer, sendcounts: Array<c_int>, displs: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcount: c_int, recvtype: Handle, root: c_int,
    ) {
        move |session, comm| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            let places = Places::at_root(comm, root, sendcounts, displs);
            Ok(move |all| {
                let (places, datatype) = (Rc::clone(&places), sent.handle());
                let from = move |all: &Members| places.uneven(sendbuf, datatype).blocks(all);
                let mine =
                    Whole { buffer: recvbuf.read(), count: recvcount, datatype: received.handle() };
                from_root(all, from, mine, root)
            })
        }
    }

    fn MPI_Allgather_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        move |session, _| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
                let into = even(recvbuf.read(), recvcount, received.handle());
                gather_all(all, mine, into)
            })
        }
    }

    fn MPI_Allgatherv_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle,
    ) {
        move |session, comm| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            let places = Places::each(comm, recvcounts, displs);
            Ok(move |all| {
                let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
                let (places, datatype) = (Rc::clone(&places), received.handle());
                gather_all(all, mine, move |all| places.uneven(recvbuf.read(), datatype).blocks(all))
            })
        }
    }

    fn MPI_Alltoall_init(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        move |session, _| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            Ok(move |all| {
                let from = even_or_in_place(sendbuf, sendcount, sent.handle());
                let into = even(recvbuf.read(), recvcount, received.handle());
                all_from_all(all, from, into)
            })
        }
    }

    fn MPI_Alltoallv_init(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>, recvtype: Handle,
    ) {
        move |session, comm| {
            let (sent, received) = both(session, sendtype, recvtype)?;
            let sources = Places::unless_in_place(sendbuf, comm, sendcounts, sdispls);
            let targets = Places::each(comm, recvcounts, rdispls);
            Ok(move |all| {
                let (places, datatype) = (Rc::clone(&sources), sent.handle());
                let from =
                    move |all: &Members| places.uneven(sendbuf, datatype).blocks_or_in_place(all);
                let (places, datatype) = (Rc::clone(&targets), received.handle());
                all_from_all(all, from, move |all| places.uneven(recvbuf.read(), datatype).blocks(all))
            })
        }
    }

    fn MPI_Alltoallw_init(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtypes: Array<Handle>,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>,
        recvtypes: Array<Handle>,
    ) {
        move |session, comm| {
            let sent = match sendbuf.is_in_place() {
                true => None,
                false => Some(each(session, comm, sendtypes)?),
            };
            let received = each(session, comm, recvtypes)?;
            let sources = Places::unless_in_place(sendbuf, comm, sendcounts, sdispls);
            let targets = Places::each(comm, recvcounts, rdispls);
            Ok(move |all| {
                let (sent, places) = (sent.as_deref().map(now), Rc::clone(&sources));
                let from = move |all: &Members| {
                    sent.map(|sent| places.placed(sendbuf).spread_of(all, sent.into_iter())).transpose()
                };
                let (received, places) = (now(&received), Rc::clone(&targets));
                let into = move |all: &Members| {
                    places.placed(recvbuf.read()).spread_of(all, received.into_iter())
                };
                all_from_all(all, from, into)
            })
        }
    }
}
