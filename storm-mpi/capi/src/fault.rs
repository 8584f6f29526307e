//! Faults of calls.

use crate::abi::status::Status;
pub(crate) use crate::class::Class;
use crate::codes;
use crate::comm::Comm;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::rc::Rc;
use storm_mpi::comm::GridError;
use storm_mpi::{CommError, InitError};

/// The reason why a call failed.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    pub(crate) text: String,
    /// The communicator whose error handler is called, if it is not the call's communicator.
    pub(crate) on: Option<Rc<Comm>>,
    /// The status that the program gets in spite of the fault.
    pub(crate) told: Option<Status>,
    /// The code, if it is the program's.
    pub(crate) own: Option<c_int>,
}

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Fault>;

impl Fault {
    pub(crate) fn new(class: Class, text: impl Into<String>) -> Fault {
        Fault { class, text: text.into(), on: None, told: None, own: None }
    }

    /// The fault, with the status of a message that has arrived.
    pub(crate) fn of_message(self, status: Status) -> Fault {
        Fault { told: Some(status), ..self }
    }

    /// A fault with a code that came from the program.
    pub(crate) fn of_code(code: c_int, otherwise: Class, text: impl Into<String>) -> Fault {
        let class = codes::class_of(code);
        let own = class.map(|_| code);
        Fault { own, ..Fault::new(Class::of(class.unwrap_or(code)).unwrap_or(otherwise), text) }
    }

    /// The code that C sees.
    pub(crate) fn code(&self) -> c_int {
        self.own.unwrap_or(self.class.code())
    }

    /// The fault for a request on this communicator.
    pub(crate) fn on(self, comm: &Rc<Comm>) -> Fault {
        Fault { on: Some(Rc::clone(comm)), ..self }
    }
}

impl From<CommError> for Fault {
    fn from(error: CommError) -> Fault {
        let class = match error {
            CommError::Truncated { .. } | CommError::LengthMismatch { .. } => Class::Truncate,
            CommError::NoSuchRank { .. } => Class::Rank,
            CommError::PartialElement { .. } => Class::Type,
            CommError::PeerLost { .. }
            | CommError::Unreachable { .. }
            | CommError::NoAddress { .. }
            | CommError::Protocol { .. }
            | CommError::Deadlock
            | CommError::NoContext
            | CommError::Ended
            | CommError::Over { .. }
            | CommError::Pmi(_)
            | CommError::Wait(_) => Class::Other,
        };
        Fault::new(class, with_causes(&error))
    }
}

impl From<InitError> for Fault {
    fn from(error: InitError) -> Fault {
        Fault::new(Class::Other, with_causes(&error))
    }
}

impl From<GridError> for Fault {
    fn from(error: GridError) -> Fault {
        let class = match error {
            GridError::Dimensions | GridError::DoesNotFit { .. } => Class::Dims,
            GridError::Outside { .. } => Class::Rank,
            GridError::NoSuchDimension { .. } => Class::Arg,
        };
        Fault::new(class, error.to_string())
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        // Writing to a string does not fail.
        let _ = write!(text, ": {source}");
        cause = source.source();
    }
    text
}
