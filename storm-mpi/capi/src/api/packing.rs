//! Packs elements into a buffer of the program. Packed data has the form in which it is sent.

use crate::abi::{Array, ArrayMut, Buffer, BufferMut, Out, counted};
use crate::call::on;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::table::Handle;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn MPI_Pack(
    inbuf: Buffer,
    incount: c_int,
    datatype: Handle,
    mut outbuf: ArrayMut<u8>,
    outsize: c_int,
    position: Out<c_int>,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Pack", |session, _| {
        let data = Elements::read(inbuf, incount, &*session.datatype(datatype)?)?;
        let start = position.get()?;
        let end = end(start, data.bytes, outsize)?;
        outbuf.get(counted(outsize)?)?[counted(start)?..end].copy_from_slice(&data.packed());
        position.set(end as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Unpack(
    inbuf: Array<u8>,
    insize: c_int,
    position: Out<c_int>,
    outbuf: BufferMut,
    outcount: c_int,
    datatype: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Unpack", |session, _| {
        let into = Elements::written(outbuf, outcount, &*session.datatype(datatype)?)?;
        let start = position.get()?;
        let end = end(start, into.bytes, insize)?;
        into.unpack(&inbuf.get(counted(insize)?)?[counted(start)?..end]);
        position.set(end as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Pack_size(
    incount: c_int,
    datatype: Handle,
    comm: Handle,
    size: Out<c_int>,
) -> c_int {
    on(comm, "MPI_Pack_size", |session, _| {
        let bytes = session.datatype(datatype)?.layout.size().checked_mul(counted(incount)?);
        let bytes = bytes.and_then(|bytes| c_int::try_from(bytes).ok());
        size.set(bytes.ok_or_else(|| Fault::new(Class::Count, "more than an int can say"))?)
    })
}

/// The end of a piece, which must fit the buffer.
fn end(start: c_int, bytes: usize, size: c_int) -> Outcome<usize> {
    let end = counted(start)?.checked_add(bytes).filter(|&end| end <= counted(size).unwrap_or(0));
    let text = || format!("{bytes} bytes at position {start} of a buffer of {size}");
    end.ok_or_else(|| Fault::new(Class::Truncate, text()))
}
