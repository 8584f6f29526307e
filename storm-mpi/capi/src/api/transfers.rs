//! Reading and writing of files: at an offset, or where this process's pointer is. What members do together each does
//! for itself; what begins is done when its function returns.

use crate::abi::{Buffer, BufferMut, Out, Status, StatusOut};
use crate::fault::{Class, Fault, Outcome};
use crate::file::OpenFile;
use crate::memory::Elements;
use crate::request::Active;
use crate::session::{Session, on_file};
use crate::table::Handle;
use std::ffi::c_int;

/// Elements to be read, as functions have them: a buffer, a count, a datatype.
type Into = (BufferMut, c_int, Handle);
/// Elements to be written.
type From = (Buffer, c_int, Handle);
/// From which offset on; `None`: from the pointer on, which moves.
type At = Option<i64>;

/// Who learns how much it was.
enum Tells {
    Now(StatusOut),
    /// By a request, which is done.
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
    move_them: impl FnOnce(&Session, &OpenFile, i64) -> Outcome<usize>,
) -> c_int {
    on_file(file, name, |session, file| {
        if matches!(tells, Tells::AtEnd) && file.begun.get().is_some() {
            return Err(Fault::new(Class::Other, "another collective has begun on this file"));
        }
        let from = at.unwrap_or(file.position.get());
        let bytes = move_them(session, file, from)?;
        if at.is_none() {
            file.advance(from, bytes);
        }
        tells.tell(session, file, bytes)
    })
}

fn read(file: Handle, name: &str, at: At, (buf, count, datatype): Into, tells: Tells) -> c_int {
    transfer(file, name, at, tells, |session, file, from| {
        let into = Elements::written(buf, count, &*session.datatype(datatype)?)?;
        file.read(from, &into)
    })
}

fn write(file: Handle, name: &str, at: At, (buf, count, datatype): From, tells: Tells) -> c_int {
    transfer(file, name, at, tells, |session, file, to| {
        let from = Elements::read(buf, count, &*session.datatype(datatype)?)?;
        file.write(to, &from)
    })
}

/// The end of a collective that has begun.
fn ended(file: Handle, name: &str, place: StatusOut) -> c_int {
    on_file(file, name, |_, file| {
        let none = || Fault::new(Class::Other, "no collective has begun on this file");
        place.set(&status(file.begun.take().ok_or_else(none)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_at(
    fh: Handle,
    offset: i64,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read_at", Some(offset), (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_at_all(
    fh: Handle,
    offset: i64,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read_at_all", Some(offset), (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iread_at(
    fh: Handle,
    offset: i64,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    read(fh, "MPI_File_iread_at", Some(offset), (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iread_at_all(
    fh: Handle,
    offset: i64,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    read(fh, "MPI_File_iread_at_all", Some(offset), (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_at_all_begin(
    fh: Handle,
    offset: i64,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
) -> c_int {
    read(fh, "MPI_File_read_at_all_begin", Some(offset), (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_at_all_end(fh: Handle, _buf: BufferMut, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_read_at_all_end", status)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_at(
    fh: Handle,
    offset: i64,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write_at", Some(offset), (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_at_all(
    fh: Handle,
    offset: i64,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write_at_all", Some(offset), (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iwrite_at(
    fh: Handle,
    offset: i64,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    write(fh, "MPI_File_iwrite_at", Some(offset), (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iwrite_at_all(
    fh: Handle,
    offset: i64,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    write(
        fh,
        "MPI_File_iwrite_at_all",
        Some(offset),
        (buf, count, datatype),
        Tells::Request(request),
    )
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_at_all_begin(
    fh: Handle,
    offset: i64,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
) -> c_int {
    write(fh, "MPI_File_write_at_all_begin", Some(offset), (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_at_all_end(fh: Handle, _buf: Buffer, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_write_at_all_end", status)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read", None, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_all(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read_all", None, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iread(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    read(fh, "MPI_File_iread", None, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iread_all(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    read(fh, "MPI_File_iread_all", None, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_all_begin(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
) -> c_int {
    read(fh, "MPI_File_read_all_begin", None, (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_all_end(fh: Handle, _buf: BufferMut, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_read_all_end", status)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write", None, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_all(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write_all", None, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iwrite(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    write(fh, "MPI_File_iwrite", None, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iwrite_all(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    write(fh, "MPI_File_iwrite_all", None, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_all_begin(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
) -> c_int {
    write(fh, "MPI_File_write_all_begin", None, (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_all_end(fh: Handle, _buf: Buffer, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_write_all_end", status)
}
