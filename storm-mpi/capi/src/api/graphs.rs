//! Graphs of processes.

use super::grids::put;
use super::new_comm::make;
use crate::abi::{Array, ArrayMut, Out, Weights, WeightsMut, counted};
use crate::call::on;
use crate::comm::{Comm, Topology};
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::collective::{BlocksMut, now};
use storm_mpi::comm::{Edge, Graph, Link};

/// The weight of an edge without weights.
const UNWEIGHTED: c_int = 1;

/// One member's edges in one direction, from the arguments of a function.
fn links(
    comm: &Comm,
    degree: c_int,
    members: Array<c_int>,
    weights: Weights,
) -> Outcome<Vec<Link>> {
    let degree = counted(degree)?;
    let (members, weights) = (members.get(degree)?, weights.get(degree)?);
    let link = |(at, &member): (usize, &c_int)| {
        let weight = weights.map_or(Ok(UNWEIGHTED), |weights| weight(weights[at]))?;
        Ok(Link { member: comm.member(member)?, weight })
    };
    members.iter().enumerate().map(link).collect()
}

fn weight(weight: c_int) -> Outcome<c_int> {
    if weight >= 0 { Ok(weight) } else { Err(Fault::new(Class::Arg, format!("weight {weight}"))) }
}

/// Makes a communicator of the same members, in this order, with a graph.
fn with_graph(session: &Session, comm: &Comm, graph: Graph, newcomm: Out<Handle>) -> Outcome {
    let members = (comm.group.clone(), comm.me);
    newcomm.set(make(session, comm, Some(members), Some(Topology::Graph(Rc::new(graph))))?)
}

/// Each member names its own edges. Ranks are never reordered, so no messages are needed.
#[unsafe(no_mangle)]
extern "C" fn MPI_Dist_graph_create_adjacent(
    comm: Handle,
    indegree: c_int,
    sources: Array<c_int>,
    sourceweights: Weights,
    outdegree: c_int,
    destinations: Array<c_int>,
    destweights: Weights,
    _info: Handle,
    _reorder: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Dist_graph_create_adjacent", |session, comm| {
        comm.must_be_intra()?;
        let graph = Graph {
            sources: links(comm, indegree, sources, sourceweights)?,
            destinations: links(comm, outdegree, destinations, destweights)?,
            is_weighted: sourceweights.are_there() && destweights.are_there(),
        };
        with_graph(session, comm, graph, newcomm)
    })
}

/// Members name edges of any members. All members learn of all edges, and keep their own.
#[unsafe(no_mangle)]
extern "C" fn MPI_Dist_graph_create(
    comm: Handle,
    n: c_int,
    sources: Array<c_int>,
    degrees: Array<c_int>,
    destinations: Array<c_int>,
    weights: Weights,
    _info: Handle,
    _reorder: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Dist_graph_create", |session, comm| {
        comm.must_be_intra()?;
        let n = counted(n)?;
        let (sources, degrees) = (sources.get(n)?, degrees.get(n)?);
        let mut all: usize = 0;
        for &degree in degrees {
            all += counted(degree)?;
        }
        let (ends, weights_of) = (destinations.get(all)?, weights.get(all)?);
        let mut mine = Vec::new();
        let no_memory = |_| Fault::new(Class::NoMemory, format!("no memory for {all} edges"));
        mine.try_reserve_exact(all).map_err(no_memory)?;
        for (&source, &degree) in sources.iter().zip(degrees) {
            let from = comm.member(source)? as u32;
            for _ in 0..degree {
                let at = mine.len();
                let weight = weights_of.map_or(Ok(UNWEIGHTED), |weights| weight(weights[at]))?;
                mine.push(Edge { from, to: comm.member(ends[at])? as u32, weight });
            }
        }
        let edges = told_by_all(session, comm, &mine)?;
        let graph = Graph::of_edges(&edges, comm.me, weights.are_there());
        with_graph(session, comm, graph, newcomm)
    })
}

/// The edges that all members name, in the order of the members.
fn told_by_all(session: &Session, comm: &Comm, mine: &[Edge]) -> Outcome<Vec<Edge>> {
    const COUNT_BYTES: usize = size_of::<u32>();
    let party = comm.party(&session.process);
    let places: Vec<_> =
        (0..comm.size()).map(|at| at * COUNT_BYTES..(at + 1) * COUNT_BYTES).collect();
    let mut counts = vec![0; comm.size() * COUNT_BYTES];
    let too_many = |_| Fault::new(Class::Count, format!("{} edges of one member", mine.len()));
    let count = u32::try_from(mine.len()).map_err(too_many)?.to_le_bytes();
    now(party.allgather(Some(&count), &mut BlocksMut::new(&mut counts, &places)?))?;
    let mut end = 0;
    let counts = counts.as_chunks::<COUNT_BYTES>().0.iter();
    let places: Vec<_> = counts
        .map(|&count| {
            let start = end;
            end += u32::from_le_bytes(count) as usize * Edge::BYTES;
            start..end
        })
        .collect();
    let mut edges = vec![0; end];
    let mine: Vec<u8> = mine.iter().flat_map(|edge| edge.encode()).collect();
    now(party.allgather(Some(&mine), &mut BlocksMut::new(&mut edges, &places)?))?;
    Ok(edges.as_chunks().0.iter().map(|&edge| Edge::decode(edge)).collect())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Dist_graph_neighbors_count(
    comm: Handle,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Dist_graph_neighbors_count", |_, comm| {
        let graph = comm.graph()?;
        indegree.set(graph.sources.len() as c_int)?;
        outdegree.set(graph.destinations.len() as c_int)?;
        weighted.set(c_int::from(graph.is_weighted))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Dist_graph_neighbors(
    comm: Handle,
    maxindegree: c_int,
    mut sources: ArrayMut<c_int>,
    mut sourceweights: WeightsMut,
    maxoutdegree: c_int,
    mut destinations: ArrayMut<c_int>,
    mut destweights: WeightsMut,
) -> c_int {
    on(comm, "MPI_Dist_graph_neighbors", |_, comm| {
        let graph = comm.graph()?;
        let (inward, outward) = (counted(maxindegree)?, counted(maxoutdegree)?);
        let member = |link: &Link| link.member as c_int;
        put(sources.get(inward)?, graph.sources.iter().map(member));
        put(destinations.get(outward)?, graph.destinations.iter().map(member));
        if graph.is_weighted {
            let weight = |link: &Link| link.weight;
            put(sourceweights.get(inward)?, graph.sources.iter().map(weight));
            put(destweights.get(outward)?, graph.destinations.iter().map(weight));
        }
        Ok(())
    })
}
