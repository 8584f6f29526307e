//! The error classes of the standard (MPI-4.1, section 9.4).

use std::ffi::c_int;

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

    pub(crate) fn of(code: c_int) -> Option<Class> {
        CLASSES.iter().map(|row| row.0).find(|class| class.code() == code)
    }

    pub(crate) fn name(self) -> &'static str {
        CLASSES.iter().find(|(class, ..)| *class == self).map_or("MPI_ERR_UNKNOWN", |row| row.1)
    }

    /// Name and meaning of the class with this code.
    pub(crate) fn description(code: c_int) -> Option<String> {
        let row = CLASSES.iter().find(|(class, ..)| class.code() == code);
        row.map(|(_, name, meaning)| format!("{name}: {meaning}"))
    }
}
