//! Elements in a program's memory, and the copying of their bytes.
//!
//! Elements without gaps are sent from their own memory and received into it. All others are packed
//! and unpacked here. The pointers come from a C caller. The caller guarantees that they point to
//! what the call describes (see [`crate::abi`]).

use crate::abi::{Buffer, BufferMut, counted};
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use std::borrow::Cow;
use std::ffi::c_int;
use storm_mpi::layout::Layout;

/// `count` elements in a row.
#[derive(Clone)]
pub(crate) struct Elements {
    pub(crate) start: *mut u8,
    pub(crate) count: usize,
    pub(crate) layout: Layout,
    /// Bytes of data.
    pub(crate) bytes: usize,
}

impl Elements {
    /// Elements that are only read.
    pub(crate) fn read(buffer: Buffer, count: c_int, datatype: &Type) -> Outcome<Self> {
        if buffer.is_in_place() {
            return Err(Fault::new(Class::Buffer, "MPI_IN_PLACE where it means nothing"));
        }
        Self::new(buffer.start().cast_mut(), counted(count)?, datatype)
    }

    /// Elements that are written, or read and written.
    pub(crate) fn written(buffer: BufferMut, count: c_int, datatype: &Type) -> Outcome<Self> {
        Self::read(buffer.read(), count, datatype)
    }

    /// Elements at `start`, in a buffer that was checked.
    pub(crate) fn new(start: *mut u8, count: usize, datatype: &Type) -> Outcome<Self> {
        if !datatype.committed.get() {
            return Err(Fault::new(Class::Type, "datatype that was not committed"));
        }
        let layout = datatype.layout.clone();
        let all = layout.size().checked_mul(count);
        let fits = match layout.is_dense() {
            true => all.filter(|&bytes| bytes <= isize::MAX as usize),
            false => layout.bounds(count).and(all),
        };
        let too_many = || Fault::new(Class::Count, format!("{count} elements exceed memory"));
        let bytes = fits.ok_or_else(too_many)?;
        // With absolute addresses the buffer is MPI_BOTTOM, which is null; its types begin far off.
        if start.is_null() && bytes > 0 && layout.is_dense() {
            return Err(Fault::new(Class::Buffer, format!("null buffer for {count} elements")));
        }
        Ok(Elements { start, count, layout, bytes })
    }

    /// The data in one piece. It is copied only if it has gaps.
    pub(crate) fn packed(&self) -> Cow<'_, [u8]> {
        if self.bytes == 0 {
            return Cow::Borrowed(&[]);
        }
        if self.layout.is_dense() {
            // SAFETY: not null; the caller passed that many elements of a type without gaps, and no
            // thread writes them during the call.
            return Cow::Borrowed(unsafe { std::slice::from_raw_parts(self.start, self.bytes) });
        }
        let mut bytes = Vec::with_capacity(self.bytes);
        self.layout.for_each_run(self.count, &mut |at, length| {
            let run = self.start.wrapping_offset(at);
            // SAFETY: the caller passed elements of this layout: its runs are in their memory.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(run, length) });
        });
        Cow::Owned(bytes)
    }

    /// A copy of the data in one piece.
    pub(crate) fn copied(&self) -> Vec<u8> {
        self.packed().into_owned()
    }

    /// Puts data of [`Elements::packed`] into its places, as far as it reaches.
    pub(crate) fn unpack(&self, data: &[u8]) {
        let mut rest = data;
        self.layout.for_each_run(self.count, &mut |at, length| {
            let (now, later) = rest.split_at(length.min(rest.len()));
            rest = later;
            let run = self.start.wrapping_offset(at);
            // SAFETY: as in `packed`, for writing; `now` is not longer than the run. Memory of the
            // library and memory of the program do not overlap, and a program's send buffer does
            // not overlap its receive buffer.
            unsafe { run.copy_from_nonoverlapping(now.as_ptr(), now.len()) };
        });
    }

    /// The place where the elements' bytes can be received.
    pub(crate) fn landing(&self) -> Landing {
        if self.bytes > 0 && self.layout.is_dense() {
            Landing::Direct(self.clone())
        } else {
            Landing::Staged { bytes: vec![0; self.bytes], into: self.clone() }
        }
    }
}

/// Bytes of elements that lie in one stretch from `start` on. Nothing else is checked.
#[inline]
fn length(start: *const u8, count: c_int, datatype: &Type) -> Option<usize> {
    let bytes = usize::try_from(count).ok()?.checked_mul(datatype.layout.size())?;
    let fits = bytes <= isize::MAX as usize && (bytes == 0 || !start.is_null());
    (fits && datatype.committed.get() && datatype.layout.is_dense()).then_some(bytes)
}

/// The bytes of elements that are only read and lie in one stretch; `None` for all others.
#[inline]
pub(crate) fn stretch<'a>(buffer: &'a Buffer, count: c_int, datatype: &Type) -> Option<&'a [u8]> {
    let start = buffer.start();
    match length(start, count, datatype)? {
        _ if buffer.is_in_place() => None,
        0 => Some(&[]),
        // SAFETY: not null; the caller passed that many elements of a type without gaps, and no
        // thread writes them during the call.
        bytes => Some(unsafe { std::slice::from_raw_parts(start, bytes) }),
    }
}

/// Like [`stretch`], for elements that are written.
#[inline]
pub(crate) fn stretch_mut<'a>(
    buffer: &'a mut BufferMut,
    count: c_int,
    datatype: &Type,
) -> Option<&'a mut [u8]> {
    let start = buffer.start();
    match length(start, count, datatype)? {
        _ if buffer.read().is_in_place() => None,
        0 => Some(&mut []),
        // SAFETY: not null; the caller passed that many elements without gaps for writing, and does
        // not touch them during the call.
        bytes => Some(unsafe { std::slice::from_raw_parts_mut(start, bytes) }),
    }
}

/// A stretch of bytes that becomes elements.
pub(crate) enum Landing {
    /// The elements' own memory.
    Direct(Elements),
    /// Memory of the library, to be unpacked. Zero bytes are also of this kind, wherever they
    /// point.
    Staged { bytes: Vec<u8>, into: Elements },
}

impl Landing {
    /// The bytes to receive into.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: not null; the caller passed that many elements without gaps for writing. It
            // does not touch them during the call, or until the request is done.
            Landing::Direct(elements) => unsafe {
                std::slice::from_raw_parts_mut(elements.start, elements.bytes)
            },
            Landing::Staged { bytes, .. } => bytes,
        }
    }

    /// Puts the bytes of these elements there, unless they are already there.
    pub(crate) fn fill(&mut self, elements: &Elements) {
        if !matches!(self, Landing::Direct(own) if own.start == elements.start) {
            self.bytes_mut().copy_from_slice(&elements.packed());
        }
    }

    /// Puts the first `received` bytes into their places.
    pub(crate) fn finish(&self, received: usize) {
        if let Landing::Staged { bytes, into } = self {
            into.unpack(&bytes[..received.min(bytes.len())]);
        }
    }
}
