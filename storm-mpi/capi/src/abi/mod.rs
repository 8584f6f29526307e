//! The boundary between C and Rust: constants of `mpi.h`, `MPI_Status`, and pointers that C
//! programs pass.
//!
//! Only a C caller can make the pointer types of this module: their fields are private, and there
//! is no constructor. The functions of the ABI take them as arguments. A caller of an MPI function
//! guarantees that arguments match the binding and stay valid during the call (MPI-4.1, section
//! 2.4). This guarantee makes each access here sound. Everything that can be checked is checked,
//! above all null.

pub(crate) mod constants;
pub(crate) mod status;

use crate::fault::{Class, Fault, Outcome};
pub(crate) use constants::{
    ANY_SOURCE, BSEND_OVERHEAD, MAX_ERROR_STRING, MAX_INFO_KEY, MAX_INFO_VALUE,
    MAX_LIBRARY_VERSION, MAX_NAME, PROC_NULL, ROOT, SUCCESS, TAG_UB, UNDEFINED,
};
pub(crate) use status::Status;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// `MPI_IN_PLACE`.
const IN_PLACE: usize = usize::MAX;
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
const IGNORE: usize = 1;
/// `MPI_UNWEIGHTED`.
const UNWEIGHTED: usize = 1;

/// The place of a function's result.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Puts the result.
    pub(crate) fn set(self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null; the caller passed a place for one `T` (module documentation). The place
        // may be uninitialized, so it is written, not assigned.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// The present value.
    pub(crate) fn get(self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null; used only for arguments that go in and out, which the caller has set.
        Ok(unsafe { self.0.read() })
    }
}

/// The place of a status, if the program wants one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct StatusOut(*mut Status);

impl StatusOut {
    /// Sets the status unless it is to be ignored. `MPI_ERROR` is not changed, as the standard
    /// requires of calls for one message.
    pub(crate) fn set(self, status: &Status) {
        self.set_at(0, Status { error: self.error_at(0), ..*status });
    }

    /// Sets one of several statuses, with its error.
    pub(crate) fn set_at(self, index: usize, status: Status) {
        if !self.ignored() {
            // SAFETY: the caller passed a place for as many statuses as there are requests.
            unsafe { self.0.add(index).write(status) };
        }
    }

    /// A C int at a place that the caller may not have set. Any bytes are valid.
    fn error_at(self, index: usize) -> c_int {
        if self.ignored() {
            return SUCCESS;
        }
        // SAFETY: as in `set_at`; the field is inside the status.
        unsafe { (&raw const (*self.0.add(index)).error).read() }
    }

    fn ignored(self) -> bool {
        // The standard does not allow null here, but other libraries accept it.
        self.0.is_null() || self.0 as usize == IGNORE
    }
}

/// Several values that a function reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    /// The first `count` values.
    pub(crate) fn get(&self, count: usize) -> Outcome<&[T]> {
        match count {
            0 => Ok(&[]),
            _ if self.0.is_null() => Err(null()),
            // SAFETY: not null; the caller passed at least as many as in its other arguments, and
            // does not change them during the call.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0, count) }),
        }
    }

    /// A copy of the first `count` values for later calls, because the program may free its own.
    pub(crate) fn kept(&self, count: usize) -> KeptArray<T> {
        KeptArray(self.get(count).map(Box::from).unwrap_or_default())
    }
}

/// A copy of an [`Array`]; empty if the array was null.
pub(crate) struct KeptArray<T>(Box<[T]>);

impl<T: Copy> KeptArray<T> {
    /// The copy as an array of the program, which must not outlive it; null if it is empty.
    pub(crate) fn array(&self) -> Array<T> {
        Array(if self.0.is_empty() { std::ptr::null() } else { self.0.as_ptr() })
    }
}

/// Several values that a function reads and changes.
#[repr(transparent)]
pub(crate) struct ArrayMut<T>(*mut T);

impl<T: Copy> ArrayMut<T> {
    /// The first `count` values.
    pub(crate) fn get(&mut self, count: usize) -> Outcome<&mut [T]> {
        match count {
            0 => Ok(&mut []),
            _ if self.0.is_null() => Err(null()),
            // SAFETY: as in `Array::get`; arguments of a function do not overlap in C's bindings
            // (MPI-4.1, section 2.4), and there is one such value per argument.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0, count) }),
        }
    }
}

/// Weights that a function reads, if the program has any.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Weights(Array<c_int>);

impl Weights {
    /// Whether there are weights, even if there are no edges: false with `MPI_UNWEIGHTED`.
    pub(crate) fn are_there(&self) -> bool {
        self.0.0 as usize != UNWEIGHTED
    }

    /// The first `count` weights.
    pub(crate) fn get(&self, count: usize) -> Outcome<Option<&[c_int]>> {
        if self.are_there() { self.0.get(count).map(Some) } else { Ok(None) }
    }
}

/// The place of weights, if the program wants them.
#[repr(transparent)]
pub(crate) struct WeightsMut(ArrayMut<c_int>);

impl WeightsMut {
    /// Room for the first `count` weights; empty with `MPI_UNWEIGHTED`.
    pub(crate) fn get(&mut self, count: usize) -> Outcome<&mut [c_int]> {
        let room = if self.0.0 as usize == UNWEIGHTED { 0 } else { count };
        self.0.get(room)
    }
}

/// A string that a function reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Outcome<String> {
        Ok(self.read()?.to_string_lossy().into_owned())
    }

    /// The name of a file, which may have any bytes.
    pub(crate) fn path(&self) -> Outcome<PathBuf> {
        Ok(OsStr::from_bytes(self.read()?.to_bytes()).into())
    }

    fn read(&self) -> Outcome<&CStr> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null; the caller passed a string, which ends with a zero and stays valid
        // during the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// The place of a string and its length.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct TextOut(*mut c_char);

impl TextOut {
    /// Sets the string, cut to `room` bytes with its final zero.
    pub(crate) fn set(self, text: &str, room: usize, length: Out<c_int>) -> Outcome {
        self.set_cut(text, room)?;
        length.set(text.len().min(room - 1) as c_int)
    }

    /// Like [`TextOut::set`], without the length.
    pub(crate) fn set_cut(self, text: &str, room: usize) -> Outcome {
        if self.0.is_null() {
            return Err(null());
        }
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        // SAFETY: not null; the caller passed `room` bytes, for which `mpi.h` has a constant.
        unsafe {
            self.0.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            self.0.add(bytes.len()).write(0);
        }
        Ok(())
    }
}

/// Elements that a function reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Buffer(*const c_void);

/// Elements that a function writes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct BufferMut(*mut c_void);

impl Buffer {
    pub(crate) fn start(self) -> *const u8 {
        self.0.cast()
    }

    pub(crate) fn is_in_place(self) -> bool {
        self.0 as usize == IN_PLACE
    }
}

impl BufferMut {
    pub(crate) fn start(self) -> *mut u8 {
        self.0.cast()
    }

    /// This memory, for reading.
    pub(crate) fn read(self) -> Buffer {
        Buffer(self.0)
    }
}

/// A count, a length or another number, which must not be negative.
pub(crate) fn counted(count: c_int) -> Outcome<usize> {
    let negative = |_| Fault::new(Class::Count, format!("count of {count}"));
    usize::try_from(count).map_err(negative)
}

pub(crate) fn null() -> Fault {
    Fault::new(Class::Arg, "null pointer")
}
