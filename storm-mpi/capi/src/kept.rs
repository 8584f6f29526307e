//! Objects of a program that a persistent request keeps. The program may free their handles before
//! it starts the request again.

use crate::datatype::Type;
use crate::fault::Outcome;
use crate::operation::Operation;
use crate::session::Session;
use crate::table::{Handle, Table};
use crate::types::is_predefined;
use std::cell::RefCell;
use std::rc::Rc;

type Objects<T> = fn(&Session) -> &RefCell<Table<Rc<T>>>;

/// An object of the program. If the handle was invalid, each use fails.
pub(crate) struct Kept<T: 'static> {
    session: &'static Session,
    /// The program's handle.
    given: Handle,
    /// The library's handle, and the object.
    own: Option<(Handle, Rc<T>)>,
    objects: Objects<T>,
}

impl Kept<Type> {
    pub(crate) fn datatype(session: &'static Session, given: Handle) -> Outcome<Self> {
        Self::new(session, given, |session| &session.types, !is_predefined(given))
    }
}

impl Kept<Operation> {
    pub(crate) fn operation(session: &'static Session, given: Handle) -> Outcome<Self> {
        Self::new(session, given, |session| &session.operations, true)
    }
}

impl<T> Kept<T> {
    fn new(
        session: &'static Session,
        given: Handle,
        objects: Objects<T>,
        may_go: bool,
    ) -> Outcome<Self> {
        let object = objects(session).borrow().get(given).ok().filter(|_| may_go).cloned();
        let keep = |object: Rc<T>| -> Outcome<(Handle, Rc<T>)> {
            let own = objects(session).borrow_mut().add(Rc::clone(&object))?;
            Ok((own, object))
        };
        Ok(Kept { session, given, own: object.map(keep).transpose()?, objects })
    }

    /// The object's present handle. It is the program's handle, known to the program's functions,
    /// as long as that handle is still this object's.
    pub(crate) fn handle(&self) -> Handle {
        let Some((own, object)) = &self.own else { return self.given };
        let objects = (self.objects)(self.session).borrow();
        let is_it = objects.get(self.given).is_ok_and(|there| Rc::ptr_eq(there, object));
        if is_it { self.given } else { *own }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some((own, object)) = self.own.take() {
            // The library added this handle. The program knows it only if one of its functions has
            // freed it.
            let mut objects = (self.objects)(self.session).borrow_mut();
            if objects.get(own).is_ok_and(|there| Rc::ptr_eq(there, &object)) {
                let _ = objects.free(own);
            }
        }
    }
}
