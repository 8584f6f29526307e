//! Persistent requests, and actions on requests except waiting.

use super::messages::{Sending, incoming, request_to_send, requests_to_send};
use crate::abi::{Array, Buffer, BufferMut, Out, Status, StatusOut, counted};
use crate::call::{call, on};
use crate::fault::{Class, Fault};
use crate::request::BufferSpace;
use crate::session::Session;
use crate::table::Handle;
use std::ffi::{c_int, c_void};

requests_to_send! {
    fn MPI_Send_init: Standard, persistent;
    fn MPI_Ssend_init: Synchronous, persistent;
    fn MPI_Bsend_init: Buffered, persistent;
    fn MPI_Rsend_init: Standard, persistent;
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Recv_init(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Recv_init", |session, comm| {
        let message = incoming(session, comm, (buf, count, datatype), (source, tag))?;
        request.set(session.persistent(comm, message)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Start(request: Out<Handle>) -> c_int {
    call("MPI_Start", |session| session.start_again(request.get()?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Startall(count: c_int, requests: Array<Handle>) -> c_int {
    call("MPI_Startall", |session| {
        let requests = requests.get(counted(count)?)?;
        requests.iter().try_for_each(|&request| session.start_again(request))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Request_free(request: Out<Handle>) -> c_int {
    call("MPI_Request_free", |session| {
        let mut handle = request.get()?;
        session.free_request(&mut handle)?;
        request.set(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Request_get_status(
    request: Handle,
    flag: Out<c_int>,
    status: StatusOut,
) -> c_int {
    call("MPI_Request_get_status", |session| {
        if !session.is_active(request)? {
            status.set(&Status::EMPTY);
            return flag.set(1);
        }
        session.process.progress(false)?;
        let done = session.is_done(request)?;
        if done {
            status.set(&session.peek(request)?);
        }
        flag.set(c_int::from(done))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Cancel(request: Out<Handle>) -> c_int {
    call("MPI_Cancel", |session| session.cancel(request.get()?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Test_cancelled(status: Out<Status>, flag: Out<c_int>) -> c_int {
    call("MPI_Test_cancelled", |_| flag.set(c_int::from(status.get()?.cancelled != 0)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Buffer_attach(buffer: BufferMut, size: c_int) -> c_int {
    call("MPI_Buffer_attach", |session| {
        if session.buffer.get().is_some() {
            return Err(Fault::new(Class::Buffer, "a buffer is attached already"));
        }
        let space = BufferSpace { start: buffer.start(), bytes: counted(size)? };
        session.buffer.set(Some(space));
        Ok(())
    })
}

/// Waits until all messages in the buffer space have gone.
#[unsafe(no_mangle)]
extern "C" fn MPI_Buffer_detach(buffer_addr: Out<*mut c_void>, size: Out<c_int>) -> c_int {
    call("MPI_Buffer_detach", |session| {
        session.end_buffered()?;
        let none = || Fault::new(Class::Buffer, "no buffer is attached");
        let space = session.buffer.take().ok_or_else(none)?;
        buffer_addr.set(space.start.cast())?;
        size.set(space.bytes as c_int)
    })
}
