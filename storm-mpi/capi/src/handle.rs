//! Handles: the numbers by which C programs name objects.
//!
//! A handle has its kind in the upper bits and a place in the lower ones, so a handle of the wrong
//! kind is detected. Place 0 is the null handle of its kind.

use crate::class::Class;
use std::ffi::c_int;

pub(crate) type Handle = c_int;

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    number: c_int,
    pub(crate) class: Class,
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

/// Bits of a handle that hold the place.
pub(crate) const PLACE_BITS: u32 = 24;

impl Kind {
    pub(crate) const fn null(self) -> Handle {
        self.number << PLACE_BITS
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    pub(crate) const fn handle(self, place: usize) -> Handle {
        self.null() | place as Handle
    }

    /// Whether a handle is of this kind.
    pub(crate) fn names(self, handle: Handle) -> bool {
        handle >> PLACE_BITS == self.number
    }
}
