//! Graphs of MPI-1, in which every member knows all edges.

use super::grids::put;
use super::new_comm::make;
use crate::abi::{Array, ArrayMut, Out, UNDEFINED, counted};
use crate::call::on;
use crate::comm::{Comm, FixedGraph, Topology};
use crate::fault::{Class, Fault, Outcome};
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::comm::{Cartesian, Group};

/// A graph of `members` members. `index` gives the end of each member's edges.
fn graph(
    comm: &Comm,
    nnodes: c_int,
    index: Array<c_int>,
    edges: Array<c_int>,
) -> Outcome<FixedGraph> {
    let nodes = counted(nnodes)?;
    if nodes > comm.size() {
        let text = format!("graph of {nodes} in a communicator of {}", comm.size());
        return Err(Fault::new(Class::Arg, text));
    }
    let index = index.get(nodes)?.to_vec();
    let mut before = 0;
    for &end in &index {
        if end < before {
            return Err(Fault::new(Class::Arg, format!("index {end} after {before}")));
        }
        before = end;
    }
    let edges = edges.get(counted(before)?)?.to_vec();
    if let Some(stranger) = edges.iter().find(|&&member| !(0..nnodes).contains(&member)) {
        return Err(Fault::new(Class::Rank, format!("edge to {stranger} of {nodes}")));
    }
    Ok(FixedGraph { index, edges })
}

/// Ranks are never reordered: places in the graph are those in the old communicator.
#[unsafe(no_mangle)]
extern "C" fn MPI_Graph_create(
    comm: Handle,
    nnodes: c_int,
    index: Array<c_int>,
    edges: Array<c_int>,
    _reorder: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Graph_create", |session, comm| {
        comm.must_be_intra()?;
        let graph = graph(comm, nnodes, index, edges)?;
        let group = Group::new(comm.group.members()[..graph.index.len()].iter().copied());
        let part = (comm.me < graph.index.len()).then_some((group, comm.me));
        newcomm.set(make(session, comm, part, Some(Topology::Fixed(Rc::new(graph))))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Graphdims_get(comm: Handle, nnodes: Out<c_int>, nedges: Out<c_int>) -> c_int {
    on(comm, "MPI_Graphdims_get", |_, comm| {
        let graph = comm.fixed_graph()?;
        nnodes.set(graph.index.len() as c_int)?;
        nedges.set(graph.edges.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Graph_get(
    comm: Handle,
    maxindex: c_int,
    maxedges: c_int,
    mut index: ArrayMut<c_int>,
    mut edges: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Graph_get", |_, comm| {
        let graph = comm.fixed_graph()?;
        put(index.get(counted(maxindex)?)?, graph.index.iter().copied());
        put(edges.get(counted(maxedges)?)?, graph.edges.iter().copied());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Graph_neighbors_count(
    comm: Handle,
    rank: c_int,
    nneighbors: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Graph_neighbors_count", |_, comm| {
        nneighbors.set(comm.fixed_graph()?.neighbours(comm.member(rank)?).len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Graph_neighbors(
    comm: Handle,
    rank: c_int,
    maxneighbors: c_int,
    mut neighbors: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Graph_neighbors", |_, comm| {
        let own = comm.fixed_graph()?.neighbours(comm.member(rank)?);
        put(neighbors.get(counted(maxneighbors)?)?, own.iter().copied());
        Ok(())
    })
}

/// The place that this process would get.
fn mapped(comm: &Comm, members: usize) -> c_int {
    if comm.me < members { comm.me as c_int } else { UNDEFINED }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Graph_map(
    comm: Handle,
    nnodes: c_int,
    index: Array<c_int>,
    edges: Array<c_int>,
    newrank: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Graph_map", |_, comm| {
        comm.must_be_intra()?;
        newrank.set(mapped(comm, graph(comm, nnodes, index, edges)?.index.len()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_map(
    comm: Handle,
    ndims: c_int,
    dims: Array<c_int>,
    periods: Array<c_int>,
    newrank: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Cart_map", |_, comm| {
        comm.must_be_intra()?;
        let ndims = counted(ndims)?;
        let periodic: Vec<bool> = periods.get(ndims)?.iter().map(|&period| period != 0).collect();
        newrank.set(mapped(comm, Cartesian::new(dims.get(ndims)?, &periodic, comm.size())?.size()))
    })
}
