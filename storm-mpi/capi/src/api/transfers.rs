//! Reads and writes files, at an offset or at this process's pointer. `shared_transfers` uses the
//! pointer of all processes. In a collective, each member works for itself. A nonblocking transfer
//! is done when its function returns.

use super::tables::two_names;
use crate::abi::{Buffer, BufferMut, Out, Status, StatusOut};
use crate::call::on_file;
use crate::fault::{Class, Fault, Outcome};
use crate::file::OpenFile;
use crate::memory::Elements;
use crate::request::Active;
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;

/// Elements to be read, as arguments of functions: a buffer, a count, a datatype.
pub(super) type Into = (BufferMut, c_int, Handle);
/// Elements to be written.
pub(super) type From = (Buffer, c_int, Handle);
/// The place where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Offset(i64),
    /// At this process's pointer, which moves.
    Pointer,
    /// At the pointer of all processes.
    Shared,
    /// At the pointer of all processes, all members together in their order.
    InOrder,
}

impl At {
    /// The place where a transfer of `bytes` bytes begins. Members of an ordered transfer take part
    /// even if their own transfer fails.
    fn first(self, file: &OpenFile, bytes: Outcome<usize>) -> Outcome<i64> {
        match self {
            At::Offset(offset) => file.is_not_sequential().map(|()| offset),
            At::Pointer => file.is_not_sequential().map(|()| file.position.get()),
            At::Shared => file.claim(bytes?),
            At::InOrder => file.claim_in_order(bytes),
        }
    }
}

/// The way in which the program learns the length of a transfer.
pub(super) enum Tells {
    Now(StatusOut),
    /// By a request, which is already done.
    Request(Out<Handle>),
    /// With the end of the collective that begins.
    AtEnd,
}

fn status(bytes: usize) -> Status {
    Status { bytes: bytes as i64, ..Status::EMPTY }
}

impl Tells {
    fn tell(self, session: &Session, file: &OpenFile, bytes: usize) -> Outcome {
        match self {
            Tells::Now(place) => {
                place.set(&status(bytes));
                Ok(())
            }
            Tells::Request(request) => {
                request.set(session.add_active(&file.comm, Active::Over(Ok(status(bytes))))?)
            }
            Tells::AtEnd => {
                file.begun.set(Some(bytes));
                Ok(())
            }
        }
    }
}

/// A transfer of elements, and what it does to the pointer.
fn transfer(
    file: Handle,
    name: &str,
    at: At,
    tells: Tells,
    elements: impl FnOnce(&Session) -> Outcome<Elements>,
    move_them: impl FnOnce(&OpenFile, i64, &Elements) -> Outcome<usize>,
) -> c_int {
    on_file(file, name, |session, file| {
        if matches!(tells, Tells::AtEnd) && file.begun.get().is_some() {
            return Err(Fault::new(Class::Other, "another collective has begun on this file"));
        }
        let elements = elements(session);
        let from = at.first(file, elements.as_ref().map(|all| all.bytes).map_err(Fault::clone))?;
        let bytes = move_them(file, from, &elements?)?;
        if at == At::Pointer {
            file.advance(from, bytes);
        }
        tells.tell(session, file, bytes)
    })
}

pub(super) fn read(
    file: Handle,
    name: &str,
    at: At,
    (buf, count, datatype): Into,
    tells: Tells,
) -> c_int {
    let into = |session: &Session| Elements::written(buf, count, &*session.datatype(datatype)?);
    transfer(file, name, at, tells, into, OpenFile::read)
}

pub(super) fn write(
    file: Handle,
    name: &str,
    at: At,
    (buf, count, datatype): From,
    tells: Tells,
) -> c_int {
    let from = |session: &Session| Elements::read(buf, count, &*session.datatype(datatype)?);
    transfer(file, name, at, tells, from, OpenFile::write)
}

/// The end of a collective that has begun.
pub(super) fn ended(file: Handle, name: &str, place: StatusOut) -> c_int {
    on_file(file, name, |_, file| {
        let none = || Fault::new(Class::Other, "no collective has begun on this file");
        place.set(&status(file.begun.take().ok_or_else(none)?));
        Ok(())
    })
}

/// The functions that read or write elements: the direction and its buffer, the place, and the way
/// in which the program learns the length.
macro_rules! transfers {
    ($(
        fn $name:ident: $moves:ident $buffer:ident, $at:ident $(($offset:ident))?,
            $tells:ident $(($told:ident: $out:ty))?;
    )*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            fh: Handle,
            $($offset: i64,)?
            buf: $buffer,
            count: c_int,
            datatype: Handle,
            $($told: $out,)?
        ) -> c_int {
            let (at, tells) = (At::$at $(($offset))?, Tells::$tells $(($told))?);
            $moves(fh, stringify!($name), at, (buf, count, datatype), tells)
        }
    )*};
}
pub(super) use transfers;

transfers! {
    fn MPI_File_read_at: read BufferMut, Offset(offset), Now(status: StatusOut);
    fn MPI_File_read_at_all: read BufferMut, Offset(offset), Now(status: StatusOut);
    fn MPI_File_iread_at: read BufferMut, Offset(offset), Request(request: Out<Handle>);
    fn MPI_File_iread_at_all: read BufferMut, Offset(offset), Request(request: Out<Handle>);
    fn MPI_File_read_at_all_begin: read BufferMut, Offset(offset), AtEnd;
    fn MPI_File_write_at: write Buffer, Offset(offset), Now(status: StatusOut);
    fn MPI_File_write_at_all: write Buffer, Offset(offset), Now(status: StatusOut);
    fn MPI_File_iwrite_at: write Buffer, Offset(offset), Request(request: Out<Handle>);
    fn MPI_File_iwrite_at_all: write Buffer, Offset(offset), Request(request: Out<Handle>);
    fn MPI_File_write_at_all_begin: write Buffer, Offset(offset), AtEnd;
    fn MPI_File_read: read BufferMut, Pointer, Now(status: StatusOut);
    fn MPI_File_read_all: read BufferMut, Pointer, Now(status: StatusOut);
    fn MPI_File_iread: read BufferMut, Pointer, Request(request: Out<Handle>);
    fn MPI_File_iread_all: read BufferMut, Pointer, Request(request: Out<Handle>);
    fn MPI_File_read_all_begin: read BufferMut, Pointer, AtEnd;
    fn MPI_File_write: write Buffer, Pointer, Now(status: StatusOut);
    fn MPI_File_write_all: write Buffer, Pointer, Now(status: StatusOut);
    fn MPI_File_iwrite: write Buffer, Pointer, Request(request: Out<Handle>);
    fn MPI_File_iwrite_all: write Buffer, Pointer, Request(request: Out<Handle>);
    fn MPI_File_write_all_begin: write Buffer, Pointer, AtEnd;
}

two_names! {
    fn MPI_File_read_at_all_end, MPI_File_read_all_end(
        fh: Handle, _buf: BufferMut, status: StatusOut,
    ) |name| {
        ended(fh, name, status)
    }

    fn MPI_File_write_at_all_end, MPI_File_write_all_end(
        fh: Handle, _buf: Buffer, status: StatusOut,
    ) |name| {
        ended(fh, name, status)
    }
}
