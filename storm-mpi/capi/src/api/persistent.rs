//! Collectives that a request starts again and again (MPI-4.1, section 6.13). Their arguments are looked at when they start.

use super::collectives::{barrier, even, even_or_in_place};
use super::vectors::{Mixed, Uneven};
use crate::abi::{Array, Buffer, BufferMut, Out};
use crate::collective::{
    Members, Whole, all_from_all, all_to_root, from_one, from_root, gather_all, persistent,
};
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::kept::Kept;
use crate::session::Session;
use crate::table::Handle;
use crate::types::Type;
use std::ffi::c_int;

/// The types of what is sent and of what is received, of which not every member has both.
fn both(
    session: &'static Session,
    sent: Handle,
    received: Handle,
) -> Outcome<(Kept<Type>, Kept<Type>)> {
    Ok((Kept::datatype(session, sent)?, Kept::datatype(session, received)?))
}

/// A type for each member, or for each of the other group.
fn each(session: &'static Session, comm: &Comm, types: Array<Handle>) -> Outcome<Vec<Kept<Type>>> {
    let types = types.get(comm.peers.size())?;
    types.iter().map(|&datatype| Kept::datatype(session, datatype)).collect()
}

/// Their handles now.
fn now(types: &[Kept<Type>]) -> Vec<Handle> {
    types.iter().map(Kept::handle).collect()
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Barrier_init(comm: Handle, info: Handle, request: Out<Handle>) -> c_int {
    persistent(comm, "MPI_Barrier_init", (info, request), |_, _| Ok(barrier))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Bcast_init(
    buffer: BufferMut,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Bcast_init", (info, request), move |session, _| {
        let kept = Kept::datatype(session, datatype)?;
        Ok(move |all| from_one(all, (buffer, count, kept.handle()), root))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Gather_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Gather_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
            let into = even(recvbuf.read(), recvcount, received.handle());
            all_to_root(all, mine, into, root)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Gatherv_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    displs: Array<c_int>,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Gatherv_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
            let (buffer, counts, datatype) = (recvbuf.read(), recvcounts, received.handle());
            let into = Uneven { buffer, counts, displs, datatype };
            all_to_root(all, mine, move |all| into.spread(all), root)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scatter_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Scatter_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let from = even(sendbuf, sendcount, sent.handle());
            let mine =
                Whole { buffer: recvbuf.read(), count: recvcount, datatype: received.handle() };
            from_root(all, from, mine, root)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scatterv_init(
    sendbuf: Buffer,
    sendcounts: Array<c_int>,
    displs: Array<c_int>,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Scatterv_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let (buffer, counts, datatype) = (sendbuf, sendcounts, sent.handle());
            let from = Uneven { buffer, counts, displs, datatype };
            let mine =
                Whole { buffer: recvbuf.read(), count: recvcount, datatype: received.handle() };
            from_root(all, move |all| from.spread(all), mine, root)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allgather_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Allgather_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
            let into = even(recvbuf.read(), recvcount, received.handle());
            gather_all(all, mine, into)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allgatherv_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    displs: Array<c_int>,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Allgatherv_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sent.handle() };
            let (buffer, counts, datatype) = (recvbuf.read(), recvcounts, received.handle());
            let into = Uneven { buffer, counts, displs, datatype };
            gather_all(all, mine, move |all| into.spread(all))
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoall_init(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Alltoall_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let from = even_or_in_place(sendbuf, sendcount, sent.handle());
            let into = even(recvbuf.read(), recvcount, received.handle());
            all_from_all(all, from, into)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoallv_init(
    sendbuf: Buffer,
    sendcounts: Array<c_int>,
    sdispls: Array<c_int>,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    rdispls: Array<c_int>,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    persistent(comm, "MPI_Alltoallv_init", (info, request), move |session, _| {
        let (sent, received) = both(session, sendtype, recvtype)?;
        Ok(move |all| {
            let (buffer, counts, datatype) = (sendbuf, sendcounts, sent.handle());
            let from = Uneven { buffer, counts, displs: sdispls, datatype };
            let (buffer, counts, datatype) = (recvbuf.read(), recvcounts, received.handle());
            let into = Uneven { buffer, counts, displs: rdispls, datatype };
            all_from_all(all, move |all| from.spread_or_in_place(all), move |all| into.spread(all))
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoallw_init(
    sendbuf: Buffer,
    sendcounts: Array<c_int>,
    sdispls: Array<c_int>,
    sendtypes: Array<Handle>,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    rdispls: Array<c_int>,
    recvtypes: Array<Handle>,
    comm: Handle,
    info: Handle,
    request: Out<Handle>,
) -> c_int {
    let from = Mixed { buffer: sendbuf, counts: sendcounts, displs: sdispls, types: sendtypes };
    let buffer = recvbuf.read();
    let into = Mixed { buffer, counts: recvcounts, displs: rdispls, types: recvtypes };
    persistent(comm, "MPI_Alltoallw_init", (info, request), move |session, comm| {
        let sent = match sendbuf.is_in_place() {
            true => None,
            false => Some(each(session, comm, sendtypes)?),
        };
        let received = each(session, comm, recvtypes)?;
        Ok(move |all| {
            let (sent, received) = (sent.as_deref().map(now), now(&received));
            let from = move |all: &Members| {
                sent.map(|sent| from.spread_of(all, sent.into_iter())).transpose()
            };
            all_from_all(all, from, move |all| into.spread_of(all, received.into_iter()))
        })
    })
}
