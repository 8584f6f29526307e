//! The construction of datatypes, for programs that ask (MPI-4.1, section 5.1.13).

use crate::fault::Outcome;
use crate::session::Session;
use crate::table::Handle;
use crate::types::{Type, is_predefined};
use std::ffi::c_int;
use std::mem;
use std::rc::Rc;

/// The function that made a datatype: the combiners of `mpi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Combiner {
    Named = 1,
    Dup,
    Contiguous,
    Vector,
    HVector,
    Indexed,
    HIndexed,
    IndexedBlock,
    HIndexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
}

/// The parts that a datatype was made of, in the order of the function's arguments.
pub(crate) struct Recipe {
    pub(crate) combiner: Combiner,
    pub(crate) integers: Vec<c_int>,
    pub(crate) addresses: Vec<isize>,
    pub(crate) types: Vec<Ingredient>,
}

/// A datatype that another was made of.
pub(crate) enum Ingredient {
    Predefined(Handle),
    /// A type of the program, which may have freed it.
    Made(Rc<Type>),
}

/// Drops one level after the other. A type may stand on a million others, each made of the one
/// before.
impl Drop for Recipe {
    fn drop(&mut self) {
        let mut left = mem::take(&mut self.types);
        while let Some(ingredient) = left.pop() {
            let Ingredient::Made(datatype) = ingredient else { continue };
            let recipe = Rc::into_inner(datatype).and_then(|mut last| last.recipe.take());
            if let Some(mut recipe) = recipe.and_then(Rc::into_inner) {
                left.append(&mut recipe.types);
            }
        }
    }
}

impl Recipe {
    /// A recipe of these types, without numbers so far.
    pub(crate) fn new(session: &Session, combiner: Combiner, types: &[Handle]) -> Outcome<Recipe> {
        let ingredient = |&handle: &Handle| match is_predefined(handle) {
            true => Ok(Ingredient::Predefined(handle)),
            false => Ok(Ingredient::Made(session.datatype(handle)?)),
        };
        let types = types.iter().map(ingredient).collect::<Outcome<_>>()?;
        Ok(Recipe { combiner, integers: Vec::new(), addresses: Vec::new(), types })
    }

    /// Adds integers.
    pub(crate) fn with<const N: usize>(self, integers: [c_int; N]) -> Recipe {
        self.with_all(&integers)
    }

    /// Adds integers.
    pub(crate) fn with_all(mut self, integers: &[c_int]) -> Recipe {
        self.integers.extend(integers);
        self
    }

    /// Adds displacements or extents, in bytes.
    pub(crate) fn at(mut self, addresses: impl IntoIterator<Item = isize>) -> Recipe {
        self.addresses.extend(addresses);
        self
    }

    /// Adds blocks of these lengths, which came as C's, at displacements in bytes.
    pub(crate) fn of_blocks(mut self, blocks: &[(usize, isize)]) -> Recipe {
        self.integers.push(blocks.len() as c_int);
        self.integers.extend(blocks.iter().map(|&(length, _)| length as c_int));
        self.at(blocks.iter().map(|&(_, at)| at))
    }
}
