//! Faults of calls, with their error classes (MPI-4.1, section 9.4).

use crate::abi::Status;
use crate::codes;
use crate::comm::Comm;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::rc::Rc;
use storm_mpi::comm::GridError;
use storm_mpi::{CommError, InitError};

/// The error classes of `mpi.h`. Error codes are classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Class {
    Buffer = 1,
    Count,
    Type,
    Tag,
    Comm,
    Rank,
    Root,
    Group,
    Op,
    Topology,
    Dims,
    Arg,
    Unknown,
    Truncate,
    Other,
    Intern,
    InStatus,
    Pending,
    Request,
    Keyval,
    Info,
    InfoKey,
    InfoValue,
    InfoNoKey,
    NoMemory,
    Window,
    Base,
    Size,
    Displacement,
    LockType,
    Assert,
    RmaConflict,
    RmaSync,
    RmaRange,
    RmaAttach,
    RmaShared,
    RmaFlavor,
    File,
    NoSuchFile,
    FileExists,
    AccessMode,
    Access,
    BadFile,
    Io,
    NoSpace,
    Quota,
    ReadOnly,
    FileInUse,
    UnsupportedRepresentation,
    UnsupportedOperation,
    NotSame,
    DuplicateRepresentation,
    Conversion,
    Name,
    Port,
    Service,
    Spawn,
}

/// Name and meaning of each class, in their order.
const CLASSES: [(Class, &str, &str); 57] = [
    (Class::Buffer, "MPI_ERR_BUFFER", "invalid buffer"),
    (Class::Count, "MPI_ERR_COUNT", "invalid count"),
    (Class::Type, "MPI_ERR_TYPE", "invalid datatype"),
    (Class::Tag, "MPI_ERR_TAG", "invalid tag"),
    (Class::Comm, "MPI_ERR_COMM", "invalid communicator"),
    (Class::Rank, "MPI_ERR_RANK", "invalid rank"),
    (Class::Root, "MPI_ERR_ROOT", "invalid root"),
    (Class::Group, "MPI_ERR_GROUP", "invalid group"),
    (Class::Op, "MPI_ERR_OP", "invalid operation"),
    (Class::Topology, "MPI_ERR_TOPOLOGY", "invalid topology"),
    (Class::Dims, "MPI_ERR_DIMS", "invalid dimensions"),
    (Class::Arg, "MPI_ERR_ARG", "invalid argument"),
    (Class::Unknown, "MPI_ERR_UNKNOWN", "unknown error"),
    (Class::Truncate, "MPI_ERR_TRUNCATE", "message longer than its buffer"),
    (Class::Other, "MPI_ERR_OTHER", "communication failed"),
    (Class::Intern, "MPI_ERR_INTERN", "internal error"),
    (Class::InStatus, "MPI_ERR_IN_STATUS", "an error is in a status"),
    (Class::Pending, "MPI_ERR_PENDING", "request pending"),
    (Class::Request, "MPI_ERR_REQUEST", "invalid request"),
    (Class::Keyval, "MPI_ERR_KEYVAL", "invalid attribute key"),
    (Class::Info, "MPI_ERR_INFO", "invalid info"),
    (Class::InfoKey, "MPI_ERR_INFO_KEY", "invalid info key"),
    (Class::InfoValue, "MPI_ERR_INFO_VALUE", "invalid info value"),
    (Class::InfoNoKey, "MPI_ERR_INFO_NOKEY", "no such info key"),
    (Class::NoMemory, "MPI_ERR_NO_MEM", "no memory"),
    (Class::Window, "MPI_ERR_WIN", "invalid window"),
    (Class::Base, "MPI_ERR_BASE", "invalid base of a window"),
    (Class::Size, "MPI_ERR_SIZE", "invalid size of a window"),
    (Class::Displacement, "MPI_ERR_DISP", "invalid displacement unit"),
    (Class::LockType, "MPI_ERR_LOCKTYPE", "invalid kind of lock"),
    (Class::Assert, "MPI_ERR_ASSERT", "invalid assertion"),
    (Class::RmaConflict, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"),
    (Class::RmaSync, "MPI_ERR_RMA_SYNC", "wrong synchronization of a window"),
    (Class::RmaRange, "MPI_ERR_RMA_RANGE", "memory outside of the window"),
    (Class::RmaAttach, "MPI_ERR_RMA_ATTACH", "memory that cannot be attached"),
    (Class::RmaShared, "MPI_ERR_RMA_SHARED", "memory that cannot be shared"),
    (Class::RmaFlavor, "MPI_ERR_RMA_FLAVOR", "window of another kind"),
    (Class::File, "MPI_ERR_FILE", "invalid file"),
    (Class::NoSuchFile, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (Class::FileExists, "MPI_ERR_FILE_EXISTS", "the file exists"),
    (Class::AccessMode, "MPI_ERR_AMODE", "invalid access mode"),
    (Class::Access, "MPI_ERR_ACCESS", "permission denied"),
    (Class::BadFile, "MPI_ERR_BAD_FILE", "invalid file name"),
    (Class::Io, "MPI_ERR_IO", "input or output failed"),
    (Class::NoSpace, "MPI_ERR_NO_SPACE", "no space left"),
    (Class::Quota, "MPI_ERR_QUOTA", "quota exceeded"),
    (Class::ReadOnly, "MPI_ERR_READ_ONLY", "read-only file or file system"),
    (Class::FileInUse, "MPI_ERR_FILE_IN_USE", "the file is in use"),
    (
        Class::UnsupportedRepresentation,
        "MPI_ERR_UNSUPPORTED_DATAREP",
        "unsupported representation of data",
    ),
    (Class::UnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation"),
    (Class::NotSame, "MPI_ERR_NOT_SAME", "different arguments at different members"),
    (
        Class::DuplicateRepresentation,
        "MPI_ERR_DUP_DATAREP",
        "representation of data that is there already",
    ),
    (Class::Conversion, "MPI_ERR_CONVERSION", "conversion of data failed"),
    (Class::Name, "MPI_ERR_NAME", "no such name of a service"),
    (Class::Port, "MPI_ERR_PORT", "invalid port"),
    (Class::Service, "MPI_ERR_SERVICE", "invalid service"),
    (Class::Spawn, "MPI_ERR_SPAWN", "spawning failed"),
];

impl Class {
    /// The last code of the library (`MPI_ERR_LASTCODE`). Codes of programs follow.
    pub(crate) const LAST_CODE: c_int = Class::Spawn as c_int;

    /// The code that C sees.
    pub(crate) fn code(self) -> c_int {
        self as c_int
    }

    /// The class with this code.
    pub(crate) fn of(code: c_int) -> Option<Class> {
        CLASSES.iter().map(|row| row.0).find(|class| class.code() == code)
    }

    pub(crate) fn name(self) -> &'static str {
        CLASSES.iter().find(|(class, ..)| *class == self).map_or("MPI_ERR_UNKNOWN", |row| row.1)
    }
}

/// Name and meaning of an error code; `None` if there is no such code.
pub(crate) fn describe(code: c_int) -> Option<String> {
    if code == crate::abi::SUCCESS {
        return Some("MPI_SUCCESS: no error".to_owned());
    }
    if let Some(text) = codes::text_of(code) {
        return Some(text);
    }
    let row = CLASSES.iter().find(|(class, ..)| class.code() == code);
    row.map(|(_, name, meaning)| format!("{name}: {meaning}"))
}

/// The reason why a call failed.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    pub(crate) text: String,
    /// The communicator whose error handler is called, when it is not the call's.
    pub(crate) on: Option<Rc<Comm>>,
    /// The status that the program gets nevertheless.
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

    /// The fault with the status of a message that has come.
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
