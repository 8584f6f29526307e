//! Cartesian grids of processes.

use super::comms::split;
use super::new_comm::make;
use crate::abi::{Array, ArrayMut, Out, PROC_NULL, UNDEFINED, counted};
use crate::call::{call, on};
use crate::comm::Topology;
use crate::fault::{Class, Fault};
use crate::table::{COMM, Handle};
use std::ffi::c_int;
use storm_mpi::comm::{Cartesian, Choice, Group, balanced_dims};

/// `MPI_GRAPH`.
const GRAPH: c_int = 1;
/// `MPI_CART`.
const CART: c_int = 2;
/// `MPI_DIST_GRAPH`.
const DIST_GRAPH: c_int = 3;

/// Puts as many values as the program has room for.
pub(super) fn put(room: &mut [c_int], values: impl IntoIterator<Item = c_int>) {
    room.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Dims_create(nnodes: c_int, ndims: c_int, mut dims: ArrayMut<c_int>) -> c_int {
    call("MPI_Dims_create", |_| {
        if nnodes <= 0 {
            return Err(Fault::new(Class::Arg, format!("grid of {nnodes} processes")));
        }
        Ok(balanced_dims(counted(nnodes)?, dims.get(counted(ndims)?)?)?)
    })
}

/// Ranks are never reordered: places in the grid are those in the old communicator.
#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_create(
    comm: Handle,
    ndims: c_int,
    dims: Array<c_int>,
    periods: Array<c_int>,
    _reorder: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Cart_create", |session, comm| {
        comm.must_be_intra()?;
        newcomm.set(COMM.null())?;
        let ndims = counted(ndims)?;
        let periodic: Vec<bool> = periods.get(ndims)?.iter().map(|&period| period != 0).collect();
        let grid = Cartesian::new(dims.get(ndims)?, &periodic, comm.size())?;
        let group = Group::new(comm.group.members()[..grid.size()].iter().copied());
        let part = (comm.me < grid.size()).then_some((group, comm.me));
        newcomm.set(make(session, comm, part, Some(Topology::Grid(grid)))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_get(
    comm: Handle,
    maxdims: c_int,
    mut dims: ArrayMut<c_int>,
    mut periods: ArrayMut<c_int>,
    mut coords: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Cart_get", |_, comm| {
        let (grid, room) = (comm.grid()?, counted(maxdims)?);
        put(dims.get(room)?, grid.dims().iter().copied());
        put(periods.get(room)?, grid.periodic().iter().map(|&periodic| c_int::from(periodic)));
        put(coords.get(room)?, grid.coords(comm.me));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_rank(comm: Handle, coords: Array<c_int>, rank: Out<c_int>) -> c_int {
    on(comm, "MPI_Cart_rank", |_, comm| {
        let grid = comm.grid()?;
        rank.set(grid.place(coords.get(grid.dims().len())?)? as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_coords(
    comm: Handle,
    rank: c_int,
    maxdims: c_int,
    mut coords: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Cart_coords", |_, comm| {
        let place = comm.member(rank)?;
        put(coords.get(counted(maxdims)?)?, comm.grid()?.coords(place));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_shift(
    comm: Handle,
    direction: c_int,
    disp: c_int,
    source: Out<c_int>,
    dest: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Cart_shift", |_, comm| {
        let (from, to) = comm.grid()?.shift(comm.me, direction, disp)?;
        let number = |place: Option<usize>| place.map_or(PROC_NULL, |place| place as c_int);
        source.set(number(from))?;
        dest.set(number(to))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cart_sub(comm: Handle, remain_dims: Array<c_int>, newcomm: Out<Handle>) -> c_int {
    on(comm, "MPI_Cart_sub", |session, comm| {
        let grid = comm.grid()?;
        let remain = remain_dims.get(grid.dims().len())?;
        let keep: Vec<bool> = remain.iter().map(|&keep| keep != 0).collect();
        let (sub, color, key) = grid.sub(&keep, comm.me);
        let part = split(session, comm, Choice { color: Some(color), key })?;
        newcomm.set(make(session, comm, part, Some(Topology::Grid(sub)))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cartdim_get(comm: Handle, ndims: Out<c_int>) -> c_int {
    on(comm, "MPI_Cartdim_get", |_, comm| ndims.set(comm.grid()?.dims().len() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Topo_test(comm: Handle, status: Out<c_int>) -> c_int {
    on(comm, "MPI_Topo_test", |_, comm| {
        status.set(match comm.topology {
            Some(Topology::Grid(_)) => CART,
            Some(Topology::Graph(_)) => DIST_GRAPH,
            Some(Topology::Fixed(_)) => GRAPH,
            None => UNDEFINED,
        })
    })
}
