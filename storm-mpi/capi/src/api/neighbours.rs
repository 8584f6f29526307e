//! Collectives of neighbours in a Cartesian grid or a graph.
//!
//! In a grid, there are two blocks for each dimension in order: for the neighbour below and for the
//! neighbour above. Blocks of neighbours beyond an edge are not accessed. In a graph, there is a
//! block for each edge, in the program's order.

use super::tables::collectives;
use crate::abi::{Array, Buffer, BufferMut, Out};
use crate::comm::{Comm, Topology};
use crate::fault::Outcome;
use crate::member_blocks::MemberBlocks;
use crate::members::{Members, started, waiting};
use crate::memory::Elements;
use crate::table::Handle;
use std::ffi::c_int;
use storm_mpi::collective::{Blocks, BlocksMut, Neighbours};
use storm_mpi::comm::Link;

/// Data to send or receive, as arguments of functions: a buffer, a count, a datatype.
type Even = (Buffer, c_int, Handle);
/// Data with counts, and displacements in elements.
type Uneven = (Buffer, Array<c_int>, Array<c_int>, Handle);
/// Data with counts, displacements in bytes, and datatypes.
type Mixed = (Buffer, Array<c_int>, Array<isize>, Array<Handle>);

/// The neighbours of this process.
pub(super) fn neighbours(comm: &Comm) -> Outcome<Neighbours> {
    let grid = match &comm.topology {
        None => return Err(Comm::without("topology")),
        Some(Topology::Graph(graph)) => {
            let members = |links: &[Link]| links.iter().map(|link| link.member).collect::<Vec<_>>();
            return Ok(Neighbours::in_graph(members(&graph.sources), members(&graph.destinations)));
        }
        Some(Topology::Fixed(graph)) => {
            let own: Vec<usize> =
                graph.neighbours(comm.me).iter().map(|&member| member as usize).collect();
            return Ok(Neighbours::in_graph(own.clone(), own));
        }
        Some(Topology::Grid(grid)) => grid,
    };
    let mut neighbours = Vec::with_capacity(2 * grid.dims().len());
    for dimension in 0..grid.dims().len() as i32 {
        let (below, above) = grid.shift(comm.me, dimension, 1)?;
        neighbours.extend([below, above]);
    }
    Ok(Neighbours::in_grid(neighbours))
}

pub(super) fn even(
    all: &Members,
    (buffer, count, datatype): Even,
    blocks: usize,
) -> Outcome<MemberBlocks> {
    MemberBlocks::even(buffer, count, &*all.session.datatype(datatype)?, blocks)
}

pub(super) fn uneven(
    all: &Members,
    (buffer, counts, displs, datatype): Uneven,
    blocks: usize,
) -> Outcome<MemberBlocks> {
    let datatype = all.session.datatype(datatype)?;
    MemberBlocks::uneven(buffer, counts.get(blocks)?, displs.get(blocks)?, &datatype)
}

fn mixed(
    all: &Members,
    (buffer, counts, displs, types): Mixed,
    blocks: usize,
) -> Outcome<MemberBlocks> {
    mixed_of(all, (buffer, counts, displs, types.get(blocks)?), blocks)
}

/// Blocks of different types; there are `blocks` of them.
pub(super) fn mixed_of(
    all: &Members,
    (buffer, counts, displs, types): (Buffer, Array<c_int>, Array<isize>, &[Handle]),
    blocks: usize,
) -> Outcome<MemberBlocks> {
    let types = types.iter().map(|&handle| all.session.datatype(handle));
    let types = types.collect::<Outcome<Vec<_>>>()?;
    MemberBlocks::mixed(buffer, counts.get(blocks)?, displs.get(blocks)?.iter().copied(), &types)
}

/// Sends the same elements to each neighbour.
pub(super) async fn one_to_each(
    all: Members,
    (buffer, count, datatype): Even,
    into: impl FnOnce(&Members, usize) -> Outcome<MemberBlocks>,
) -> Outcome {
    let neighbours = neighbours(&all.comm)?;
    let mine = Elements::read(buffer, count, &*all.session.datatype(datatype)?)?;
    let (sources, destinations) = (neighbours.sources(), neighbours.destinations());
    let into = into(&all, sources.len())?.of_those_there(sources);
    let packed = mine.packed();
    let places = vec![0..packed.len(); destinations.len()];
    exchange(&all, &neighbours, Blocks::new(&packed, &places)?, &into).await
}

/// Sends different elements to each neighbour.
pub(super) async fn each_to_each(
    all: Members,
    from: impl FnOnce(&Members, usize) -> Outcome<MemberBlocks>,
    into: impl FnOnce(&Members, usize) -> Outcome<MemberBlocks>,
) -> Outcome {
    let neighbours = neighbours(&all.comm)?;
    let (sources, destinations) = (neighbours.sources(), neighbours.destinations());
    let from = from(&all, destinations.len())?.of_those_there(destinations);
    let into = into(&all, sources.len())?.of_those_there(sources);
    let (packed, places) = (from.packed(), from.places());
    exchange(&all, &neighbours, Blocks::new(&packed, &places)?, &into).await
}

async fn exchange(
    all: &Members,
    neighbours: &Neighbours,
    from: Blocks<'_>,
    into: &MemberBlocks,
) -> Outcome {
    let places = into.places();
    let mut landing = into.landing(true);
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    all.party().exchange(neighbours, from, &mut blocks).await?;
    landing.finish();
    Ok(())
}

collectives! {
    fn MPI_Neighbor_allgather, MPI_Ineighbor_allgather(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        let mine = (sendbuf, sendcount, sendtype);
        let into = (recvbuf.read(), recvcount, recvtype);
        move |all| {
            one_to_each(all, mine, move |all, n| even(all, into, n))
        }
    }

    fn MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut,
        recvcounts: Array<c_int>, displs: Array<c_int>, recvtype: Handle,
    ) {
        let mine = (sendbuf, sendcount, sendtype);
        let into = (recvbuf.read(), recvcounts, displs, recvtype);
        move |all| {
            one_to_each(all, mine, move |all, n| uneven(all, into, n))
        }
    }

    fn MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall(
        sendbuf: Buffer, sendcount: c_int, sendtype: Handle, recvbuf: BufferMut, recvcount: c_int,
        recvtype: Handle,
    ) {
        let from = (sendbuf, sendcount, sendtype);
        let into = (recvbuf.read(), recvcount, recvtype);
        move |all| {
            each_to_each(all, move |all, n| even(all, from, n), move |all, n| even(all, into, n))
        }
    }

    fn MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<c_int>, sendtype: Handle,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<c_int>, recvtype: Handle,
    ) {
        let from = (sendbuf, sendcounts, sdispls, sendtype);
        let into = (recvbuf.read(), recvcounts, rdispls, recvtype);
        move |all| {
            each_to_each(all, move |all, n| uneven(all, from, n), move |all, n| uneven(all, into, n))
        }
    }

    fn MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw(
        sendbuf: Buffer, sendcounts: Array<c_int>, sdispls: Array<isize>, sendtypes: Array<Handle>,
        recvbuf: BufferMut, recvcounts: Array<c_int>, rdispls: Array<isize>,
        recvtypes: Array<Handle>,
    ) {
        let from = (sendbuf, sendcounts, sdispls, sendtypes);
        let into = (recvbuf.read(), recvcounts, rdispls, recvtypes);
        move |all| {
            each_to_each(all, move |all, n| mixed(all, from, n), move |all, n| mixed(all, into, n))
        }
    }
}
