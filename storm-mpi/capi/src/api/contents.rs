//! The construction of datatypes, and attributes of programs on them.

use super::attributes::{MaybeCopy, create, delete, found, free, give, put};
use crate::abi::{ArrayMut, Out, counted};
use crate::call::call;
use crate::datatype::{Combiner, Ingredient, Recipe};
use crate::fault::{Class, Fault, Outcome};
use crate::session::{DeleteFunction, Session};
use crate::table::{Handle, TYPE};
use crate::types::named;
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_envelope(
    datatype: Handle,
    num_integers: Out<c_int>,
    num_addresses: Out<c_int>,
    num_datatypes: Out<c_int>,
    combiner: Out<c_int>,
) -> c_int {
    call("MPI_Type_get_envelope", |session| {
        let datatype = session.datatype(datatype)?;
        let (kind, numbers) = match &datatype.recipe {
            None => (Combiner::Named, [0; 3]),
            Some(recipe) => {
                let numbers = [recipe.integers.len(), recipe.addresses.len(), recipe.types.len()];
                (recipe.combiner, numbers)
            }
        };
        num_integers.set(numbers[0] as c_int)?;
        num_addresses.set(numbers[1] as c_int)?;
        num_datatypes.set(numbers[2] as c_int)?;
        combiner.set(kind as c_int)
    })
}

/// Copies all values to the places, if there is room for them.
fn put_all<T: Copy>(all: &[T], room: c_int, mut places: ArrayMut<T>) -> Outcome {
    let short = || Fault::new(Class::Arg, format!("room for {room} of {}", all.len()));
    if counted(room)? < all.len() {
        return Err(short());
    }
    places.get(all.len())?.copy_from_slice(all);
    Ok(())
}

/// Handles of the types from which a type was made. For types of the program, these are new
/// handles. The program frees them.
fn ingredients(session: &Session, recipe: &Recipe) -> Outcome<Vec<Handle>> {
    let handle = |ingredient: &Ingredient| match ingredient {
        Ingredient::Predefined(handle) => Ok(*handle),
        Ingredient::Made(datatype) => session.add_type(datatype.another()),
    };
    recipe.types.iter().map(handle).collect()
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_contents(
    datatype: Handle,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: ArrayMut<c_int>,
    addresses: ArrayMut<isize>,
    datatypes: ArrayMut<Handle>,
) -> c_int {
    call("MPI_Type_get_contents", |session| {
        let datatype = session.datatype(datatype)?;
        let predefined = || Fault::new(Class::Type, "a predefined datatype is made of nothing");
        let recipe = datatype.recipe.as_ref().ok_or_else(predefined)?;
        put_all(&recipe.integers, max_integers, integers)?;
        put_all(&recipe.addresses, max_addresses, addresses)?;
        // The check comes before new handles are made.
        if counted(max_datatypes)? < recipe.types.len() {
            let text = format!("room for {max_datatypes} of {}", recipe.types.len());
            return Err(Fault::new(Class::Arg, text));
        }
        put_all(&ingredients(session, recipe)?, max_datatypes, datatypes)
    })
}

/// The type of Fortran with numbers of this class and length.
#[unsafe(no_mangle)]
extern "C" fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<Handle>) -> c_int {
    call("MPI_Type_match_size", |_| {
        let class = match typeclass {
            1 => "REAL",
            2 => "INTEGER",
            3 => "COMPLEX",
            other => return Err(Fault::new(Class::Arg, format!("class {other} of types"))),
        };
        let none = || Fault::new(Class::Arg, format!("no type {class} of {size} bytes"));
        datatype.set(named(&format!("MPI_{class}{size}")).ok_or_else(none)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_create_keyval(
    copy: MaybeCopy,
    del: Option<DeleteFunction>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> c_int {
    create("MPI_Type_create_keyval", TYPE, copy, del, keyval, extra_state)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_free_keyval(keyval: Out<c_int>) -> c_int {
    free("MPI_Type_free_keyval", TYPE, keyval)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_set_attr(datatype: Handle, keyval: c_int, value: *mut c_void) -> c_int {
    call("MPI_Type_set_attr", |session| put(session, &session.datatype(datatype)?, keyval, value))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_attr(
    datatype: Handle,
    keyval: c_int,
    value: Out<*const c_void>,
    flag: Out<c_int>,
) -> c_int {
    call("MPI_Type_get_attr", |session| {
        give(found(session, &session.datatype(datatype)?, keyval)?, value, flag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_delete_attr(datatype: Handle, keyval: c_int) -> c_int {
    call("MPI_Type_delete_attr", |session| delete(session, &session.datatype(datatype)?, keyval))
}
