//! Reading and writing of files at the pointer that all processes share.

use super::files::whence_of;
use super::transfers::{At, Tells, ended, read, write};
use crate::abi::{Buffer, BufferMut, Out, StatusOut};
use crate::call::on_file;
use crate::table::Handle;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_shared(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read_shared", At::Shared, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iread_shared(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    read(fh, "MPI_File_iread_shared", At::Shared, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_ordered(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    read(fh, "MPI_File_read_ordered", At::InOrder, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_ordered_begin(
    fh: Handle,
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
) -> c_int {
    read(fh, "MPI_File_read_ordered_begin", At::InOrder, (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_ordered_end(fh: Handle, _buf: BufferMut, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_read_ordered_end", status)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_shared(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write_shared", At::Shared, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_iwrite_shared(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    request: Out<Handle>,
) -> c_int {
    write(fh, "MPI_File_iwrite_shared", At::Shared, (buf, count, datatype), Tells::Request(request))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_ordered(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    status: StatusOut,
) -> c_int {
    write(fh, "MPI_File_write_ordered", At::InOrder, (buf, count, datatype), Tells::Now(status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_ordered_begin(
    fh: Handle,
    buf: Buffer,
    count: c_int,
    datatype: Handle,
) -> c_int {
    write(fh, "MPI_File_write_ordered_begin", At::InOrder, (buf, count, datatype), Tells::AtEnd)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_write_ordered_end(fh: Handle, _buf: Buffer, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_write_ordered_end", status)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_seek_shared(fh: Handle, offset: i64, whence: c_int) -> c_int {
    on_file(fh, "MPI_File_seek_shared", |_, file| file.seek_shared(offset, whence_of(whence)?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_position_shared(fh: Handle, offset: Out<i64>) -> c_int {
    on_file(fh, "MPI_File_get_position_shared", |_, file| offset.set(file.shared_position()?))
}
