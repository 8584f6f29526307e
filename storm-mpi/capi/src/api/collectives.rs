//! Collectives with equally many elements for each member.

use crate::abi::{Buffer, BufferMut, Out};
use crate::collective::{all_from_all, all_to_root, from_one, from_root, gather_all};
use crate::fault::Outcome;
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, Whole, started, waiting};
use crate::table::Handle;
use std::ffi::c_int;

/// Blocks of `count` elements, one for each member.
pub(super) fn even(
    buffer: Buffer,
    count: c_int,
    datatype: Handle,
) -> impl FnOnce(&Members) -> Outcome<MemberBlocks> {
    move |all| MemberBlocks::even(buffer, count, &*all.session.datatype(datatype)?, all.size())
}

/// Like [`even`]; `None` when the elements are in the place of the received ones.
pub(super) fn even_or_in_place(
    buffer: Buffer,
    count: c_int,
    datatype: Handle,
) -> impl FnOnce(&Members) -> Outcome<Option<MemberBlocks>> {
    move |all| match buffer.is_in_place() {
        true => Ok(None),
        false => even(buffer, count, datatype)(all).map(Some),
    }
}

pub(super) async fn barrier(all: Members) -> Outcome {
    match all.between() {
        Some(groups) => Ok(groups.barrier().await?),
        None => Ok(all.party().barrier().await?),
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Barrier(comm: Handle) -> c_int {
    waiting(comm, "MPI_Barrier", barrier)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Ibarrier(comm: Handle, request: Out<Handle>) -> c_int {
    started(comm, "MPI_Ibarrier", request, barrier)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Bcast(
    buffer: BufferMut,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    waiting(comm, "MPI_Bcast", |all| from_one(all, (buffer, count, datatype), root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Ibcast(
    buffer: BufferMut,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    started(comm, "MPI_Ibcast", request, |all| from_one(all, (buffer, count, datatype), root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Gather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let into = even(recvbuf.read(), recvcount, recvtype);
    waiting(comm, "MPI_Gather", |all| all_to_root(all, mine, into, root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Igather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let into = even(recvbuf.read(), recvcount, recvtype);
    started(comm, "MPI_Igather", request, |all| all_to_root(all, mine, into, root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scatter(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    let from = even(sendbuf, sendcount, sendtype);
    let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
    waiting(comm, "MPI_Scatter", |all| from_root(all, from, mine, root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Iscatter(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    let from = even(sendbuf, sendcount, sendtype);
    let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
    started(comm, "MPI_Iscatter", request, |all| from_root(all, from, mine, root))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allgather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let into = even(recvbuf.read(), recvcount, recvtype);
    waiting(comm, "MPI_Allgather", |all| gather_all(all, mine, into))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Iallgather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let into = even(recvbuf.read(), recvcount, recvtype);
    started(comm, "MPI_Iallgather", request, |all| gather_all(all, mine, into))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoall(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    let from = even_or_in_place(sendbuf, sendcount, sendtype);
    let into = even(recvbuf.read(), recvcount, recvtype);
    waiting(comm, "MPI_Alltoall", |all| all_from_all(all, from, into))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Ialltoall(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    let from = even_or_in_place(sendbuf, sendcount, sendtype);
    let into = even(recvbuf.read(), recvcount, recvtype);
    started(comm, "MPI_Ialltoall", request, |all| all_from_all(all, from, into))
}
