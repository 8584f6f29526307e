//! Collectives with a count, a displacement, and some with a datatype, for each member.

use super::tables::collectives;
use crate::abi::{Array, Buffer, BufferMut, Out};
use crate::collective::{all_from_all, all_to_root, from_root, gather_all};
use crate::fault::Outcome;
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, Whole, started, waiting};
use crate::table::Handle;
use std::ffi::c_int;

/// A buffer with blocks of elements of one type, with counts, and displacements in elements.
#[derive(Clone, Copy)]
pub(super) struct Uneven {
    pub(super) buffer: Buffer,
    pub(super) counts: Array<c_int>,
    pub(super) displs: Array<c_int>,
    pub(super) datatype: Handle,
}

impl Uneven {
    pub(super) fn blocks(self, all: &Members) -> Outcome<MemberBlocks> {
        let (counts, displs) = (self.counts.get(all.size())?, self.displs.get(all.size())?);
        MemberBlocks::uneven(self.buffer, counts, displs, &*all.session.datatype(self.datatype)?)
    }

    /// `None` when the elements are in the place of the received ones.
    pub(super) fn blocks_or_in_place(self, all: &Members) -> Outcome<Option<MemberBlocks>> {
        if self.buffer.is_in_place() { Ok(None) } else { self.blocks(all).map(Some) }
    }
}

/// A buffer with blocks of different types, with displacements in bytes.
#[derive(Clone, Copy)]
struct Mixed {
    buffer: Buffer,
    counts: Array<c_int>,
    displs: Array<c_int>,
    types: Array<Handle>,
}

impl Mixed {
    fn blocks(self, all: &Members) -> Outcome<MemberBlocks> {
        let Mixed { buffer, counts, displs, types } = self;
        let types = types.get(all.size())?.iter().copied();
        Placed { buffer, counts, displs }.spread_of(all, types)
    }

    fn blocks_or_in_place(self, all: &Members) -> Outcome<Option<MemberBlocks>> {
        if self.buffer.is_in_place() { Ok(None) } else { self.blocks(all).map(Some) }
    }
}

/// Like [`Mixed`], without the types.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) buffer: Buffer,
    pub(super) counts: Array<c_int>,
    pub(super) displs: Array<c_int>,
}

impl Placed {
    /// Blocks of these types.
    pub(super) fn spread_of(
        self,
        all: &Members,
        types: impl Iterator<Item = Handle>,
    ) -> Outcome<MemberBlocks> {
        let (counts, displs) = (self.counts.get(all.size())?, self.displs.get(all.size())?);
        let displs = displs.iter().map(|&displ| displ as isize);
        let types = types.map(|handle| all.session.datatype(handle));
        MemberBlocks::mixed(self.buffer, counts, displs, &types.collect::<Outcome<Vec<_>>>()?)
    }
}

collectives! {
    fn MPI_Gatherv, MPI_Igatherv(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle, root: c_int,
    ) {
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        let into = Uneven { buffer: recvbuf.read(), counts: recvcounts, displs, datatype: recvtype };
        move |all| all_to_root(all, mine, move |all| into.blocks(all), root)
    }

    fn MPI_Scatterv, MPI_Iscatterv(
        sendbuf: Buffer, sendcounts: Array<c_int>, displs: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcount: c_int, recvtype: Handle, root: c_int,
    ) {
        let from = Uneven { buffer: sendbuf, counts: sendcounts, displs, datatype: sendtype };
        let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
        move |all| from_root(all, move |all| from.blocks(all), mine, root)
    }

    fn MPI_Allgatherv, MPI_Iallgatherv(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle,
    ) {
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        let into = Uneven { buffer: recvbuf.read(), counts: recvcounts, displs, datatype: recvtype };
        move |all| gather_all(all, mine, move |all| into.blocks(all))
    }

    fn MPI_Alltoallv, MPI_Ialltoallv(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>, recvtype: Handle,
    ) {
        let from = Uneven { buffer: sendbuf, counts: sendcounts, displs: sdispls, datatype: sendtype };
        let buffer = recvbuf.read();
        let into = Uneven { buffer, counts: recvcounts, displs: rdispls, datatype: recvtype };
        move |all| {
            all_from_all(all, move |all| from.blocks_or_in_place(all), move |all| into.blocks(all))
        }
    }

    fn MPI_Alltoallw, MPI_Ialltoallw(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtypes: Array<Handle>,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>,
        recvtypes: Array<Handle>,
    ) {
        let from = Mixed { buffer: sendbuf, counts: sendcounts, displs: sdispls, types: sendtypes };
        let buffer = recvbuf.read();
        let into = Mixed { buffer, counts: recvcounts, displs: rdispls, types: recvtypes };
        move |all| {
            all_from_all(all, move |all| from.blocks_or_in_place(all), move |all| into.blocks(all))
        }
    }
}
