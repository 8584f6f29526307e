//! Datatypes.

use super::tables::two_names;
use crate::abi::{Array, Buffer, MAX_NAME, Out, Text, TextOut, counted};
use crate::call::call;
use crate::datatype::Type;
use crate::datatype::{Combiner, Recipe};
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::{Handle, TYPE};
use crate::types::is_predefined;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::layout::{ArrayOrder, Layout, Part};

const ORDER_C: c_int = 56;
const ORDER_FORTRAN: c_int = 57;

/// Adds a type of this layout, with the recipe of its construction.
pub(super) fn add(
    session: &Session,
    made: Option<Layout>,
    recipe: Recipe,
    newtype: Out<Handle>,
) -> Outcome {
    newtype.set(session.add_type(Type::made(made, recipe)?)?)
}

pub(super) fn layout(session: &Session, datatype: Handle) -> Outcome<Layout> {
    Ok(session.datatype(datatype)?.layout.clone())
}

/// Blocks of lengths at displacements, in any unit.
fn blocks<T: Copy + Into<i64>>(
    count: c_int,
    lengths: Array<c_int>,
    displacements: Array<T>,
) -> Outcome<Vec<(usize, isize)>> {
    let count = counted(count)?;
    let (lengths, displacements) = (lengths.get(count)?, displacements.get(count)?);
    let block = |(&length, &at): (&c_int, &T)| Ok((counted(length)?, at.into() as isize));
    lengths.iter().zip(displacements).map(block).collect()
}

fn structure(
    session: &Session,
    count: c_int,
    lengths: Array<c_int>,
    displacements: Array<i64>,
    types: Array<Handle>,
    newtype: Out<Handle>,
) -> Outcome {
    let types = types.get(counted(count)?)?;
    let part = |((count, offset), &datatype): ((usize, isize), &Handle)| {
        Ok(Part { offset, count, layout: layout(session, datatype)? })
    };
    let blocks = blocks(count, lengths, displacements)?;
    let recipe = session.recipe(Combiner::Struct, types)?.of_blocks(&blocks);
    let parts = blocks.into_iter().zip(types).map(part);
    add(session, Layout::structure(parts.collect::<Outcome<_>>()?), recipe, newtype)
}

fn hvector(
    session: &Session,
    (count, blocklength, stride): (c_int, c_int, isize),
    oldtype: Handle,
    newtype: Out<Handle>,
) -> Outcome {
    let old = layout(session, oldtype)?;
    let recipe = session.recipe(Combiner::HVector, &[oldtype])?;
    let recipe = recipe.with([count, blocklength]).at([stride]);
    add(session, old.hvector(counted(count)?, counted(blocklength)?, stride), recipe, newtype)
}

fn hindexed(
    session: &Session,
    (count, lengths, displacements): (c_int, Array<c_int>, Array<i64>),
    oldtype: Handle,
    newtype: Out<Handle>,
) -> Outcome {
    let blocks = blocks(count, lengths, displacements)?;
    let recipe = session.recipe(Combiner::HIndexed, &[oldtype])?.of_blocks(&blocks);
    add(session, layout(session, oldtype)?.hindexed(blocks), recipe, newtype)
}

/// The index that varies fastest, from an argument.
pub(super) fn array_order(order: c_int) -> Outcome<ArrayOrder> {
    match order {
        ORDER_C => Ok(ArrayOrder::LastFastest),
        ORDER_FORTRAN => Ok(ArrayOrder::FirstFastest),
        other => Err(Fault::new(Class::Arg, format!("order {other} of an array"))),
    }
}

fn address(location: Buffer, address: Out<isize>) -> Outcome {
    address.set(location.start() as isize)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_contiguous(count: c_int, oldtype: Handle, newtype: Out<Handle>) -> c_int {
    call("MPI_Type_contiguous", |session| {
        let recipe = session.recipe(Combiner::Contiguous, &[oldtype])?.with([count]);
        add(session, layout(session, oldtype)?.contiguous(counted(count)?), recipe, newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_vector(
    count: c_int,
    blocklength: c_int,
    stride: c_int,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_vector", |session| {
        let old = layout(session, oldtype)?;
        let recipe = session.recipe(Combiner::Vector, &[oldtype])?;
        let recipe = recipe.with([count, blocklength, stride]);
        let made = old.vector(counted(count)?, counted(blocklength)?, stride as isize);
        add(session, made, recipe, newtype)
    })
}

two_names! {
    fn MPI_Type_create_hvector, MPI_Type_hvector(
        count: c_int, blocklength: c_int, stride: isize, oldtype: Handle, newtype: Out<Handle>,
    ) |name| {
        call(name, |session| {
            hvector(session, (count, blocklength, stride), oldtype, newtype)
        })
    }

    fn MPI_Type_create_hindexed, MPI_Type_hindexed(
        count: c_int, blocklengths: Array<c_int>, displacements: Array<i64>, oldtype: Handle,
        newtype: Out<Handle>,
    ) |name| {
        call(name, |session| {
            hindexed(session, (count, blocklengths, displacements), oldtype, newtype)
        })
    }

    fn MPI_Type_create_struct, MPI_Type_struct(
        count: c_int, blocklengths: Array<c_int>, displacements: Array<i64>, types: Array<Handle>,
        newtype: Out<Handle>,
    ) |name| {
        call(name, |session| {
            structure(session, count, blocklengths, displacements, types, newtype)
        })
    }

    fn MPI_Get_address, MPI_Address(location: Buffer, address_out: Out<isize>) |name| {
        call(name, |_| address(location, address_out))
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_indexed(
    count: c_int,
    blocklengths: Array<c_int>,
    displacements: Array<c_int>,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_indexed", |session| {
        let old = layout(session, oldtype)?;
        let made = old.indexed(blocks(count, blocklengths, displacements)?);
        let places = counted(count)?;
        let recipe = session.recipe(Combiner::Indexed, &[oldtype])?.with([count]);
        let recipe = recipe.with_all(blocklengths.get(places)?);
        add(session, made, recipe.with_all(displacements.get(places)?), newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_indexed_block(
    count: c_int,
    blocklength: c_int,
    displacements: Array<c_int>,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_create_indexed_block", |session| {
        let old = layout(session, oldtype)?;
        let length = counted(blocklength)?;
        let displacements = displacements.get(counted(count)?)?;
        let blocks = displacements.iter().map(|&at| (length, at as isize));
        let recipe = session.recipe(Combiner::IndexedBlock, &[oldtype])?;
        let recipe = recipe.with([count, blocklength]).with_all(displacements);
        add(session, old.indexed(blocks), recipe, newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_hindexed_block(
    count: c_int,
    blocklength: c_int,
    displacements: Array<i64>,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_create_hindexed_block", |session| {
        let old = layout(session, oldtype)?;
        let length = counted(blocklength)?;
        let displacements = displacements.get(counted(count)?)?;
        let recipe = session.recipe(Combiner::HIndexedBlock, &[oldtype])?;
        let recipe = recipe.with([count, blocklength]);
        let recipe = recipe.at(displacements.iter().map(|&at| at as isize));
        let blocks = displacements.iter().map(|&at| (length, at as isize));
        add(session, old.hindexed(blocks), recipe, newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_resized(
    oldtype: Handle,
    lb: isize,
    extent: isize,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_create_resized", |session| {
        let recipe = session.recipe(Combiner::Resized, &[oldtype])?.at([lb, extent]);
        add(session, layout(session, oldtype)?.resized(lb, extent), recipe, newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_subarray(
    ndims: c_int,
    sizes: Array<c_int>,
    subsizes: Array<c_int>,
    starts: Array<c_int>,
    order: c_int,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_create_subarray", |session| {
        let recipe = session.recipe(Combiner::Subarray, &[oldtype])?.with([ndims]);
        let (asked, order, ndims) = (order, array_order(order)?, counted(ndims)?);
        let (sizes, subsizes, starts) =
            (sizes.get(ndims)?, subsizes.get(ndims)?, starts.get(ndims)?);
        let recipe = recipe.with_all(sizes).with_all(subsizes).with_all(starts).with([asked]);
        let dim = |i: usize| Ok((counted(sizes[i])?, counted(subsizes[i])?, counted(starts[i])?));
        let dims: Vec<_> = (0..ndims).map(dim).collect::<Outcome<_>>()?;
        add(session, layout(session, oldtype)?.subarray(&dims, order), recipe, newtype)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_dup(oldtype: Handle, newtype: Out<Handle>) -> c_int {
    call("MPI_Type_dup", |session| {
        newtype.set(TYPE.null())?;
        let old = session.datatype(oldtype)?;
        let recipe = session.recipe(Combiner::Dup, &[oldtype])?;
        let copy = Type { recipe: Some(Rc::new(recipe)), ..old.another() };
        let made = session.add_type(copy)?;
        let object = session.datatype(made)?;
        if let Err(fault) = session.copy_attributes(&old, &object) {
            // Copied attributes are deleted, as for communicators, and the first fault counts.
            let _ = session.delete_attributes(&object);
            session.types.borrow_mut().free(made)?;
            return Err(fault);
        }
        newtype.set(made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_commit(datatype: Out<Handle>) -> c_int {
    call("MPI_Type_commit", |session| {
        session.datatype(datatype.get()?)?.committed.set(true);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_free(datatype: Out<Handle>) -> c_int {
    call("MPI_Type_free", |session| {
        let handle = datatype.get()?;
        let object = session.datatype(handle)?;
        if !is_predefined(handle) {
            session.delete_attributes(&object)?;
        }
        session.types.borrow_mut().free(handle)?;
        datatype.set(TYPE.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_size(datatype: Handle, size: Out<c_int>) -> c_int {
    call("MPI_Type_size", |session| {
        let bytes = layout(session, datatype)?.size();
        size.set(c_int::try_from(bytes).unwrap_or(crate::abi::UNDEFINED))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_extent(datatype: Handle, lb: Out<isize>, extent: Out<isize>) -> c_int {
    call("MPI_Type_get_extent", |session| {
        let layout = layout(session, datatype)?;
        lb.set(layout.lower())?;
        extent.set(layout.extent())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_extent(datatype: Handle, extent: Out<isize>) -> c_int {
    call("MPI_Type_extent", |session| extent.set(layout(session, datatype)?.extent()))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_lb(datatype: Handle, displacement: Out<isize>) -> c_int {
    call("MPI_Type_lb", |session| displacement.set(layout(session, datatype)?.lower()))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_ub(datatype: Handle, displacement: Out<isize>) -> c_int {
    call("MPI_Type_ub", |session| {
        let layout = layout(session, datatype)?;
        displacement.set(layout.lower().saturating_add(layout.extent()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_true_extent(
    datatype: Handle,
    true_lb: Out<isize>,
    true_extent: Out<isize>,
) -> c_int {
    call("MPI_Type_get_true_extent", |session| {
        let layout = layout(session, datatype)?;
        true_lb.set(layout.true_lower())?;
        true_extent.set(layout.true_extent())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_set_name(datatype: Handle, name: Text) -> c_int {
    call("MPI_Type_set_name", |session| {
        session.datatype(datatype)?.name.replace(name.get()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_name(datatype: Handle, name: TextOut, resultlen: Out<c_int>) -> c_int {
    call("MPI_Type_get_name", |session| {
        name.set(&session.datatype(datatype)?.name.borrow(), MAX_NAME, resultlen)
    })
}

/// Addresses wrap round, as pointers do.
#[unsafe(no_mangle)]
extern "C" fn MPI_Aint_add(base: isize, disp: isize) -> isize {
    base.wrapping_add(disp)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Aint_diff(addr1: isize, addr2: isize) -> isize {
    addr1.wrapping_sub(addr2)
}
