//! Attributes of programs on communicators, windows and datatypes (MPI-4.1, section 7.7), and the
//! library's own attributes.

use super::tables::two_names;
use crate::abi::{Out, PROC_NULL, TAG_UB};
use crate::call::{call, on};
use crate::codes;
use crate::comm::Comm;
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::session::{
    CopyFunction, Copying, DeleteFunction, Keyval, OWN_ATTRIBUTES, Session, TOLD_ATTRIBUTES,
};
use crate::table::{COMM, Handle, KEYVAL, Kind};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// `MPI_COMM_DUP_FN`, which is a number in the place of a function.
const DUP_FN: usize = 1;

/// Values of the library's own attributes, by their keys in `mpi.h`, from place 1 on.
static TOLD: [Option<c_int>; TOLD_ATTRIBUTES] = [
    Some(TAG_UB),
    // MPI_HOST: no process is a host.
    Some(PROC_NULL),
    // MPI_IO: any process may do input and output, but there is no parallel I/O.
    Some(crate::abi::ANY_SOURCE),
    // MPI_WTIME_IS_GLOBAL: no.
    Some(0),
    // MPI_UNIVERSE_SIZE, MPI_APPNUM: not known.
    None,
    None,
];

/// A function or one of the numbers that stand for one, as C passes it.
#[repr(transparent)]
pub(super) struct MaybeCopy(usize);

impl MaybeCopy {
    fn read(self) -> Option<Copying> {
        match self.0 {
            0 => None,
            DUP_FN => Some(Copying::Address),
            address => {
                // SAFETY: the value is neither of the two numbers, so the caller guarantees that it
                // is a function of this type. Functions are as wide as numbers.
                let function = unsafe { std::mem::transmute::<usize, CopyFunction>(address) };
                Some(Copying::Call(function))
            }
        }
    }
}

/// An object that programs attach attributes to.
pub(crate) trait Holder {
    /// The object's handle, which is passed to functions of programs.
    fn handle(&self) -> Handle;
    /// Keys and values of the attributes, in the order in which they came.
    fn attributes(&self) -> &RefCell<Vec<(Handle, usize)>>;

    /// Checks that a key is the program's and for attributes of this kind of object.
    fn takes(&self, session: &Session, key: Handle) -> Outcome {
        let of = session.keyvals.borrow().get(key)?.of;
        if of.is_some_and(|of| of.names(self.handle())) { Ok(()) } else { Err(other_kind()) }
    }
}

fn other_kind() -> Fault {
    Fault::new(Class::Keyval, "key of attributes of another kind of object")
}

impl Holder for Comm {
    fn handle(&self) -> Handle {
        self.handle.get()
    }

    fn attributes(&self) -> &RefCell<Vec<(Handle, usize)>> {
        &self.attributes
    }
}

impl Holder for Type {
    fn handle(&self) -> Handle {
        self.handle.get()
    }

    fn attributes(&self) -> &RefCell<Vec<(Handle, usize)>> {
        &self.attributes
    }
}

impl<H: Holder> Holder for Rc<H> {
    fn handle(&self) -> Handle {
        (**self).handle()
    }

    fn attributes(&self) -> &RefCell<Vec<(Handle, usize)>> {
        (**self).attributes()
    }
}

impl Session {
    /// Copies attributes to a duplicate, as the copy functions of their keys decide.
    pub(crate) fn copy_attributes<H: Holder>(&self, from: &H, to: &H) -> Outcome {
        let attributes = from.attributes().borrow().clone();
        for (key, value) in attributes {
            let keyval = *self.keyvals.borrow().get(key)?;
            let copied = match keyval.copy {
                None => None,
                Some(Copying::Address) => Some(value),
                Some(Copying::Call(function)) => {
                    let (mut copied, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
                    let state = keyval.extra_state;
                    let out = (&raw mut copied).cast();
                    // SAFETY: the program's function of this type. It may store one address and one
                    // flag at the given places.
                    let code = unsafe {
                        function(from.handle(), key, state, value as *mut c_void, out, &mut flag)
                    };
                    refused(code)?;
                    (flag != 0).then_some(copied as usize)
                }
            };
            if let Some(copied) = copied {
                to.attributes().borrow_mut().push((key, copied));
            }
        }
        Ok(())
    }

    /// Deletes all attributes of an object that ends.
    pub(crate) fn delete_attributes(&self, holder: &impl Holder) -> Outcome {
        // The order is backwards, as the standard requires for MPI_COMM_SELF.
        while let Some((key, value)) = { holder.attributes().borrow().last().copied() } {
            self.delete_attribute(holder, key, value)?;
        }
        Ok(())
    }

    /// Deletes one attribute. It stays if the program's function refuses. The function may have
    /// changed other attributes meanwhile.
    fn delete_attribute(&self, holder: &impl Holder, key: Handle, value: usize) -> Outcome {
        self.deleted(holder, key, value)?;
        holder.attributes().borrow_mut().retain(|(other, _)| *other != key);
        Ok(())
    }

    fn deleted(&self, holder: &impl Holder, key: Handle, value: usize) -> Outcome {
        let keyval = *self.keyvals.borrow().get(key)?;
        match keyval.delete {
            None => Ok(()),
            // SAFETY: the program's function of this type.
            Some(function) => refused(unsafe {
                function(holder.handle(), key, value as *mut c_void, keyval.extra_state)
            }),
        }
    }
}

fn refused(code: c_int) -> Outcome {
    match code {
        crate::abi::SUCCESS => Ok(()),
        code => {
            let text = "the program's function for an attribute failed";
            Err(Fault::of_code(code, Class::Other, text))
        }
    }
}

/// The library's own attribute of a key, if it is known. `MPI_LASTUSEDCODE` has the last key.
fn told(key: Handle) -> Option<Option<*const c_int>> {
    if key == KEYVAL.handle(OWN_ATTRIBUTES) {
        return Some(Some(codes::last_used()));
    }
    let (_, value) = TOLD.iter().enumerate().find(|(i, _)| KEYVAL.handle(i + 1) == key)?;
    Some(value.as_ref().map(|value| &raw const *value))
}

/// The attribute of a key, if there is one.
pub(super) fn found(
    session: &Session,
    holder: &impl Holder,
    keyval: Handle,
) -> Outcome<Option<*const c_void>> {
    holder.takes(session, keyval)?;
    Ok(attribute(holder, keyval).map(|value| value as *const c_void))
}

/// The value that the program attached by this key.
fn attribute(holder: &impl Holder, keyval: Handle) -> Option<usize> {
    let attributes = holder.attributes().borrow();
    attributes.iter().find(|(key, _)| *key == keyval).map(|&(_, value)| value)
}

/// Gives the attribute to the program.
pub(super) fn give(
    found: Option<*const c_void>,
    value: Out<*const c_void>,
    flag: Out<c_int>,
) -> Outcome {
    if let Some(found) = found {
        value.set(found)?;
    }
    flag.set(c_int::from(found.is_some()))
}

fn get(
    name: &str,
    comm: Handle,
    keyval: Handle,
    value: Out<*const c_void>,
    flag: Out<c_int>,
) -> c_int {
    on(comm, name, |session, comm| {
        let found = match told(keyval) {
            Some(value) => value.map(|value| value.cast::<c_void>()),
            None => found(session, comm, keyval)?,
        };
        give(found, value, flag)
    })
}

pub(super) fn create(
    name: &str,
    of: Kind,
    copy: MaybeCopy,
    del: Option<DeleteFunction>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> c_int {
    call(name, |session| {
        let made = Keyval { of: Some(of), copy: copy.read(), delete: del, extra_state };
        keyval.set(session.keyvals.borrow_mut().add(made)?)
    })
}

two_names! {
    fn MPI_Comm_create_keyval, MPI_Keyval_create(
        copy: MaybeCopy, del: Option<DeleteFunction>, keyval: Out<c_int>, extra_state: *mut c_void,
    ) |name| {
        create(name, COMM, copy, del, keyval, extra_state)
    }

    fn MPI_Comm_free_keyval, MPI_Keyval_free(keyval: Out<c_int>) |name| {
        free(name, COMM, keyval)
    }

    fn MPI_Comm_set_attr, MPI_Attr_put(comm: Handle, keyval: c_int, value: *mut c_void) |name| {
        on(comm, name, |session, comm| put(session, comm, keyval, value))
    }

    fn MPI_Comm_delete_attr, MPI_Attr_delete(comm: Handle, keyval: c_int) |name| {
        on(comm, name, |session, comm| delete(session, comm, keyval))
    }

    fn MPI_Comm_get_attr, MPI_Attr_get(
        comm: Handle, keyval: c_int, value: Out<*const c_void>, flag: Out<c_int>,
    ) |name| {
        get(name, comm, keyval, value, flag)
    }
}

/// Frees the program's key. Its functions stay, because attributes may still have the key.
pub(super) fn free(name: &str, of: Kind, keyval: Out<c_int>) -> c_int {
    call(name, |session| {
        if session.keyvals.borrow().get(keyval.get()?)?.of != Some(of) {
            return Err(other_kind());
        }
        keyval.set(KEYVAL.null())
    })
}

/// Attaches an attribute, in the place of an attribute with the same key.
pub(super) fn put(
    session: &Session,
    holder: &impl Holder,
    keyval: c_int,
    value: *mut c_void,
) -> Outcome {
    let place = keyval.wrapping_sub(KEYVAL.handle(1));
    if (0..OWN_ATTRIBUTES as c_int).contains(&place) {
        return Err(Fault::new(Class::Keyval, "attribute of the library"));
    }
    holder.takes(session, keyval)?;
    if let Some(before) = attribute(holder, keyval) {
        session.delete_attribute(holder, keyval, before)?;
    }
    holder.attributes().borrow_mut().push((keyval, value as usize));
    Ok(())
}

/// Removes an attribute.
pub(super) fn delete(session: &Session, holder: &impl Holder, keyval: c_int) -> Outcome {
    let value = attribute(holder, keyval);
    let value = value.ok_or_else(|| Fault::new(Class::Keyval, "no such attribute"))?;
    session.delete_attribute(holder, keyval, value)
}
