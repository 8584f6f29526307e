//! Reading and writing of files at the pointer that all processes share.

use super::files::whence_of;
use super::transfers::{At, Tells, ended, read, transfers, write};
use crate::abi::{Buffer, BufferMut, Out, StatusOut};
use crate::call::on_file;
use crate::table::Handle;
use std::ffi::c_int;

transfers! {
    fn MPI_File_read_shared: read BufferMut, Shared, Now(status: StatusOut);
    fn MPI_File_iread_shared: read BufferMut, Shared, Request(request: Out<Handle>);
    fn MPI_File_read_ordered: read BufferMut, InOrder, Now(status: StatusOut);
    fn MPI_File_read_ordered_begin: read BufferMut, InOrder, AtEnd;
    fn MPI_File_write_shared: write Buffer, Shared, Now(status: StatusOut);
    fn MPI_File_iwrite_shared: write Buffer, Shared, Request(request: Out<Handle>);
    fn MPI_File_write_ordered: write Buffer, InOrder, Now(status: StatusOut);
    fn MPI_File_write_ordered_begin: write Buffer, InOrder, AtEnd;
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_read_ordered_end(fh: Handle, _buf: BufferMut, status: StatusOut) -> c_int {
    ended(fh, "MPI_File_read_ordered_end", status)
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
