//! Handles: the numbers by which C programs name objects, and the tables behind them.
//!
//! A handle has its kind in the upper bits and a place in the lower ones, so a handle of the wrong
//! kind is detected. Place 0 is the null handle of its kind. Requests and messages are in a
//! `sequence`.

use crate::fault::{Class, Fault, Outcome};
use std::ffi::c_int;

/// A handle in C.
pub(crate) type Handle = c_int;

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    number: c_int,
    class: Class,
    name: &'static str,
}

pub(crate) const COMM: Kind = Kind { number: 1, class: Class::Comm, name: "communicator" };
pub(crate) const GROUP: Kind = Kind { number: 2, class: Class::Group, name: "group" };
pub(crate) const TYPE: Kind = Kind { number: 3, class: Class::Type, name: "datatype" };
pub(crate) const OP: Kind = Kind { number: 4, class: Class::Op, name: "operation" };
pub(crate) const ERRHANDLER: Kind = Kind { number: 5, class: Class::Arg, name: "error handler" };
pub(crate) const INFO: Kind = Kind { number: 6, class: Class::Info, name: "info object" };
pub(crate) const MESSAGE: Kind = Kind { number: 8, class: Class::Request, name: "message" };
pub(crate) const REQUEST: Kind = Kind { number: 16, class: Class::Request, name: "request" };
// The number lies above those of requests.
pub(crate) const WINDOW: Kind = Kind { number: 0x60, class: Class::Window, name: "window" };
pub(crate) const FILE: Kind = Kind { number: 0x61, class: Class::File, name: "file" };
pub(crate) const KEYVAL: Kind = Kind { number: 7, class: Class::Keyval, name: "attribute key" };

const PLACE_BITS: u32 = 24;

impl Kind {
    /// The null handle.
    pub(crate) const fn null(self) -> Handle {
        self.number << PLACE_BITS
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    /// The handle of a place.
    pub(crate) const fn handle(self, place: usize) -> Handle {
        self.null() | place as Handle
    }

    /// Whether a handle is of this kind.
    pub(crate) fn names(self, handle: Handle) -> bool {
        handle >> PLACE_BITS == self.number
    }

    fn place(self, handle: Handle) -> Outcome<usize> {
        let place = handle & ((1 << PLACE_BITS) - 1);
        if handle >> PLACE_BITS == self.number && place != 0 {
            return Ok(place as usize);
        }
        Err(self.unknown(handle))
    }

    pub(crate) fn unknown(self, handle: Handle) -> Fault {
        let what = if handle == self.null() { "null" } else { "unknown" };
        Fault::new(self.class, format!("{what} {} (handle {handle:#010x})", self.name))
    }
}

/// The objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    /// Objects by place; place 0 stays empty.
    places: Vec<Option<T>>,
    /// Places that were used before.
    free: Vec<usize>,
    /// Number of the first places that belong to the library and are never freed.
    predefined: usize,
}

impl<T> Table<T> {
    /// A table that begins with these objects, which are never freed.
    pub(crate) fn new(kind: Kind, predefined: impl IntoIterator<Item = T>) -> Self {
        let mut places = vec![None];
        places.extend(predefined.into_iter().map(Some));
        Table { kind, predefined: places.len(), places, free: Vec::new() }
    }

    /// Adds an object.
    pub(crate) fn add(&mut self, object: T) -> Outcome<Handle> {
        let place = self.free.pop().unwrap_or(self.places.len());
        if place >> PLACE_BITS != 0 {
            return Err(Fault::new(
                Class::Other,
                format!("too many of one kind: {}", self.kind.name),
            ));
        }
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(object);
        Ok(self.kind.handle(place))
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Outcome<&T> {
        // For a handle of this kind, the place is the difference from the null handle. For another
        // kind, the difference is not a place.
        let place = (handle ^ self.kind.null()) as usize;
        let object = self.places.get(place).and_then(Option::as_ref);
        object.ok_or_else(|| self.kind.unknown(handle))
    }

    /// The object of a handle, to change.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Outcome<&mut T> {
        let place = self.kind.place(handle)?;
        let object = self.places.get_mut(place).and_then(Option::as_mut);
        object.ok_or_else(|| self.kind.unknown(handle))
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Takes an object out of the table. An object of the library is refused and stays.
    pub(crate) fn free(&mut self, handle: Handle) -> Outcome<T> {
        let place = self.kind.place(handle)?;
        if place < self.predefined {
            return Err(Fault::new(self.kind.class, format!("predefined {}", self.kind.name)));
        }
        let object = self.places.get_mut(place).and_then(Option::take);
        let object = object.ok_or_else(|| self.kind.unknown(handle))?;
        self.free.push(place);
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_another_kind_and_freed_ones_are_refused() {
        let mut table = Table::new(GROUP, ["empty"]);
        assert_eq!(table.get(GROUP.handle(1)).ok(), Some(&"empty"));
        let handle = table.add("mine").ok().unwrap();
        assert_eq!(table.get(handle).ok(), Some(&"mine"));
        assert!(table.get(COMM.handle(2)).is_err());
        assert!(table.get(GROUP.null()).is_err());
        assert!(table.free(GROUP.handle(1)).is_err(), "predefined");
        assert_eq!(table.free(handle).ok(), Some("mine"));
        assert!(table.get(handle).is_err() && table.free(handle).is_err());
        assert_eq!(table.add("next").ok(), Some(handle), "places are used again");
    }
}
