//! Collectives with equally many elements for each member.

use super::tables::collectives;
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

collectives! {
    fn MPI_Barrier, MPI_Ibarrier() {
        barrier
    }

    fn MPI_Bcast, MPI_Ibcast(buffer: BufferMut, count: c_int, datatype: Handle, root: c_int) {
        move |all| from_one(all, (buffer, count, datatype), root)
    }

    fn MPI_Gather, MPI_Igather(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle, root: c_int,
    ) {
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        let into = even(recvbuf.read(), recvcount, recvtype);
        move |all| all_to_root(all, mine, into, root)
    }

    fn MPI_Scatter, MPI_Iscatter(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle, root: c_int,
    ) {
        let from = even(sendbuf, sendcount, sendtype);
        let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
        move |all| from_root(all, from, mine, root)
    }

    fn MPI_Allgather, MPI_Iallgather(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        let into = even(recvbuf.read(), recvcount, recvtype);
        move |all| gather_all(all, mine, into)
    }

    fn MPI_Alltoall, MPI_Ialltoall(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        let from = even_or_in_place(sendbuf, sendcount, sendtype);
        let into = even(recvbuf.read(), recvcount, recvtype);
        move |all| all_from_all(all, from, into)
    }
}
