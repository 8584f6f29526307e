//! A datatype, and its construction, for programs that ask for it (MPI-4.1, section 5.1.13).

use crate::fault::{Class, Fault, Outcome};
use crate::number::Number;
use crate::table::{Handle, TYPE};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem;
use std::rc::Rc;
use storm_mpi::layout::Layout;

/// A datatype. The handle and the communication that uses it share ownership.
pub(crate) struct Type {
    pub(crate) layout: Layout,
    pub(crate) committed: Cell<bool>,
    pub(crate) name: RefCell<String>,
    /// `None` for types of programs, and for markers.
    pub(crate) number: Option<Number>,
    /// Its own handle, for functions of attributes.
    pub(crate) handle: Cell<Handle>,
    /// Attributes of the program: key, and the address it stored.
    pub(crate) attributes: RefCell<Vec<(Handle, usize)>>,
    /// The program's construction of the type; `None` for the predefined ones.
    pub(crate) recipe: Option<Rc<Recipe>>,
}

impl Type {
    /// A type made of others. `None` stands for a layout larger than memory.
    pub(crate) fn made(layout: Option<Layout>, recipe: Recipe) -> Outcome<Type> {
        let too_large = || Fault::new(Class::Arg, "datatype larger than memory can be");
        Ok(Type {
            layout: layout.ok_or_else(too_large)?,
            committed: Cell::new(false),
            name: RefCell::default(),
            number: None,
            handle: Cell::new(TYPE.null()),
            attributes: RefCell::default(),
            recipe: Some(Rc::new(recipe)),
        })
    }

    /// Another type with the same properties, without the name and attributes.
    pub(crate) fn another(&self) -> Type {
        Type {
            layout: self.layout.clone(),
            committed: self.committed.clone(),
            name: RefCell::default(),
            number: self.number,
            handle: Cell::new(TYPE.null()),
            attributes: RefCell::default(),
            recipe: self.recipe.clone(),
        }
    }

    /// The type's name, or a description.
    pub(crate) fn to_text(&self) -> String {
        let name = self.name.borrow();
        if name.is_empty() { "a derived datatype".to_owned() } else { name.clone() }
    }
}

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

/// Drops one level after the other instead of recursively. A type may be built on a million others,
/// each made of the previous one.
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
    pub(crate) fn new(combiner: Combiner, types: Vec<Ingredient>) -> Recipe {
        Recipe { combiner, integers: Vec::new(), addresses: Vec::new(), types }
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
