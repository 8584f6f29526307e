//! The short path of `MPI_Send` and `MPI_Recv`, for short messages without gaps. Every unusual
//! call, including a call with wrong arguments, is left to the full path.

use super::waiting::told;
use crate::abi::{ANY_SOURCE, Buffer, BufferMut, Status, StatusOut};
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::memory::{Elements, stretch, stretch_mut};
use crate::request::landed;
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;

/// Data to send, as arguments of functions: a buffer, a count, a datatype.
pub(super) type Sent = (Buffer, c_int, Handle);

/// Sends the elements. Returns false if nothing was done.
#[inline]
pub(super) fn sent(
    session: &Session,
    comm: &Comm,
    (buf, count, datatype): Sent,
    (dest, tag): (c_int, c_int),
) -> Outcome<bool> {
    let types = session.types.borrow();
    let Ok(datatype) = types.get(datatype) else { return Ok(false) };
    let (Ok(Some(to)), Some(data)) = (comm.address(dest, tag), stretch(&buf, count, datatype))
    else {
        return Ok(false);
    };
    Ok(session.process.send_short(to, data)?)
}

/// Whether a receive has nothing unusual.
#[inline]
pub(super) fn is_usual(
    session: &Session,
    comm: &Comm,
    (mut buf, count, datatype): (BufferMut, c_int, Handle),
    (source, tag): (c_int, c_int),
) -> bool {
    let types = session.types.borrow();
    let Ok(datatype) = types.get(datatype) else { return false };
    let pattern = comm.pattern(source, tag);
    matches!(pattern, Ok(Some(_))) && stretch_mut(&mut buf, count, datatype).is_some()
}

/// Receives the elements. Returns false if nothing was done.
#[inline]
pub(super) fn received(
    session: &Session,
    comm: &Comm,
    (mut buf, count, handle): (BufferMut, c_int, Handle),
    (source, tag): (c_int, c_int),
    status: StatusOut,
) -> Outcome<bool> {
    let types = session.types.borrow();
    let Ok(datatype) = types.get(handle) else { return Ok(false) };
    let Ok(Some(from)) = comm.pattern(source, tag) else { return Ok(false) };
    let Some(into) = stretch_mut(&mut buf, count, datatype) else { return Ok(false) };
    let Some(received) = session.process.recv_short(&from, into)? else { return Ok(false) };
    if received.status.bytes > received.buffer_bytes {
        let landing = Elements::written(buf, count, datatype)?.landing();
        told(status, landed(comm, received, &landing))?;
    }
    let source = if source == ANY_SOURCE { comm.rank_here(received.status.source) } else { source };
    let (tag, bytes) = (received.status.tag.0, received.status.bytes as i64);
    status.set(&Status { source, tag, bytes, ..Status::EMPTY });
    Ok(true)
}
