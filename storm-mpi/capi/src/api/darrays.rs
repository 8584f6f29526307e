//! Types for one process's part of a distributed array, in the distributions of High Performance
//! Fortran.

use super::datatypes::{add, array_order, layout};
use crate::abi::{Array, Out, counted};
use crate::call::call;
use crate::datatype::Combiner;
use crate::fault::{Class, Fault, Outcome};
use crate::table::Handle;
use std::ffi::c_int;
use storm_mpi::layout::{ArrayOrder, Layout};

const BLOCK: c_int = 121;
const CYCLIC: c_int = 122;
const NONE: c_int = 123;
const DEFAULT: c_int = -49767;

/// One dimension: its length, its distribution, the number of parts, and this process's part.
struct Dimension {
    length: usize,
    kind: c_int,
    argument: c_int,
    parts: usize,
    part: usize,
}

impl Dimension {
    /// The indices of the part: lengths and beginnings of its blocks.
    fn blocks(&self) -> Outcome<Vec<(usize, usize)>> {
        let Dimension { length, kind, argument, parts, part } = *self;
        let wrong = || {
            let text = format!("distribution {kind} ({argument}) of {length} over {parts}");
            Fault::new(Class::Arg, text)
        };
        if parts == 0 {
            return Err(wrong());
        }
        let block = match (kind, argument) {
            (NONE, _) if parts == 1 => length,
            (BLOCK, DEFAULT) => length.div_ceil(parts),
            (CYCLIC, DEFAULT) => 1,
            (BLOCK | CYCLIC, argument) if argument > 0 => argument as usize,
            _ => return Err(wrong()),
        };
        let all = block.checked_mul(parts).ok_or_else(wrong)?;
        if kind == BLOCK && all < length {
            return Err(wrong());
        }
        let starts = (part * block..length).step_by(all.max(1));
        Ok(starts.map(|start| (block.min(length - start), start)).collect())
    }
}

/// The elements of this process; `None` if they are larger than memory can be. The dimensions vary
/// slowest first.
fn distributed(element: &Layout, dimensions: &[Dimension]) -> Outcome<Option<Layout>> {
    let mut part = element.clone();
    let mut stride = element.extent();
    for dimension in dimensions.iter().rev() {
        let mut blocks = Vec::new();
        for (count, start) in dimension.blocks()? {
            let Some(at) = stride.checked_mul(start as isize) else { return Ok(None) };
            blocks.push((count, at));
        }
        let Some(whole) = stride.checked_mul(dimension.length as isize) else { return Ok(None) };
        let made = part.resized(0, stride).and_then(|one| one.hindexed(blocks));
        let Some(made) = made else { return Ok(None) };
        (part, stride) = (made, whole);
    }
    Ok(part.resized(0, stride))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: Array<c_int>,
    distribs: Array<c_int>,
    dargs: Array<c_int>,
    psizes: Array<c_int>,
    order: c_int,
    oldtype: Handle,
    newtype: Out<Handle>,
) -> c_int {
    call("MPI_Type_create_darray", |session| {
        let recipe = session.recipe(Combiner::Darray, &[oldtype])?.with([size, rank, ndims]);
        let (asked, order, ndims) = (order, array_order(order)?, counted(ndims)?);
        let (lengths, kinds) = (gsizes.get(ndims)?, distribs.get(ndims)?);
        let (arguments, parts) = (dargs.get(ndims)?, psizes.get(ndims)?);
        let recipe = recipe.with_all(lengths).with_all(kinds);
        let recipe = recipe.with_all(arguments).with_all(parts).with([asked]);
        let all = parts.iter().try_fold(1, |all: c_int, &parts| all.checked_mul(parts));
        if all != Some(size) || !(0..size).contains(&rank) {
            return Err(Fault::new(Class::Arg, format!("process {rank} of {size} in a grid")));
        }
        // The last dimension of processes varies fastest, whatever the order of the array.
        let (mut rest, mut dimensions) = (counted(rank)?, Vec::with_capacity(ndims));
        for at in (0..ndims).rev() {
            let (length, parts) = (counted(lengths[at])?, counted(parts[at])?);
            let (kind, argument) = (kinds[at], arguments[at]);
            dimensions.push(Dimension { length, kind, argument, parts, part: rest % parts });
            rest /= parts;
        }
        if order == ArrayOrder::LastFastest {
            dimensions.reverse();
        }
        add(session, distributed(&layout(session, oldtype)?, &dimensions)?, recipe, newtype)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(length: usize, kind: c_int, argument: c_int, parts: usize) -> Vec<Vec<usize>> {
        let part = |part| Dimension { length, kind, argument, parts, part };
        let indices = |part: Dimension| {
            let blocks = part.blocks().ok().expect("a distribution");
            blocks.iter().flat_map(|&(count, start)| start..start + count).collect()
        };
        (0..parts).map(|at| indices(part(at))).collect()
    }

    #[test]
    fn every_index_is_somebodys() {
        assert_eq!(owned(7, BLOCK, DEFAULT, 3), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert_eq!(owned(4, BLOCK, 3, 3), [vec![0, 1, 2], vec![3], vec![]]);
        assert_eq!(owned(5, CYCLIC, DEFAULT, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(owned(7, CYCLIC, 2, 2), [vec![0, 1, 4, 5], vec![2, 3, 6]]);
        assert_eq!(owned(3, NONE, DEFAULT, 1), [vec![0, 1, 2]]);
        let short = Dimension { length: 7, kind: BLOCK, argument: 2, parts: 3, part: 0 };
        assert!(short.blocks().is_err());
    }

    #[test]
    fn a_processs_part_of_a_matrix_lies_in_place() {
        let line =
            |part, parts| Dimension { length: 4, kind: CYCLIC, argument: DEFAULT, parts, part };
        let byte = Layout::number(1, 1);
        let part = distributed(&byte, &[line(1, 2), line(0, 2)]).ok().flatten().expect("small");
        let mut bytes = Vec::new();
        part.for_each_run(1, &mut |at, length| bytes.push((at, length)));
        assert_eq!(bytes, [(4, 1), (6, 1), (12, 1), (14, 1)]);
        assert_eq!((part.extent(), part.size()), (16, 4));
    }
}
