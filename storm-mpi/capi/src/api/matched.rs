//! Matched probes. A probe takes the message that it finds. Only the receive of this probe gets the
//! message later.

use super::messages::seen;
use super::waiting::told;
use crate::abi::{BufferMut, Out, Status, StatusOut};
use crate::call::{call, on};
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::memory::Elements;
use crate::request::{Active, Taken};
use crate::session::Session;
use crate::table::{Handle, MESSAGE};
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::MessageId;

/// `MPI_MESSAGE_NO_PROC`: from `MPI_PROC_NULL`.
const NO_PROC: Handle = MESSAGE.handle(1);

/// Adds a handle for a message that was found.
fn taken(
    session: &Session,
    comm: &Rc<Comm>,
    (id, found): (MessageId, storm_mpi::Status),
    message: Out<Handle>,
    status: StatusOut,
) -> Outcome {
    let taken = Taken { comm: Rc::clone(comm), id };
    status.set(&seen(comm, found));
    message.set(session.taken.borrow_mut().add(taken)?)
}

/// Begins to receive the message. Its handle is null afterwards.
fn begin(
    session: &Session,
    (buf, count, datatype): (BufferMut, c_int, Handle),
    message: Out<Handle>,
) -> Outcome<(Rc<Comm>, Active)> {
    let handle = message.get()?;
    if handle == NO_PROC {
        message.set(MESSAGE.null())?;
        return Ok((session.world(), Active::Over(Ok(Status::OF_NOBODY))));
    }
    session.taken.borrow().get(handle)?;
    let into = Elements::written(buf, count, &*session.datatype(datatype)?)?;
    let Taken { comm, id } = session.taken.borrow_mut().free(handle)?;
    message.set(MESSAGE.null())?;
    let mut landing = into.landing();
    let place = landing.bytes_mut();
    let (start, bytes) = (place.as_mut_ptr(), place.len());
    // SAFETY: as in `Session::start`.
    let id = unsafe { session.process.start_recv_of(id, start, bytes)? };
    Ok((comm, Active::Receiving { id, landing }))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    message: Out<Handle>,
    status: StatusOut,
) -> c_int {
    on(comm, "MPI_Mprobe", |session, comm| match comm.pattern(source, tag)? {
        None => {
            status.set(&Status::OF_NOBODY);
            message.set(NO_PROC)
        }
        Some(pattern) => {
            let found = session.process.await_and_hold(&pattern)?;
            taken(session, comm, found, message, status)
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: Out<c_int>,
    message: Out<Handle>,
    status: StatusOut,
) -> c_int {
    on(comm, "MPI_Improbe", |session, comm| {
        let found = match comm.pattern(source, tag)? {
            None => {
                status.set(&Status::OF_NOBODY);
                message.set(NO_PROC)?;
                return flag.set(1);
            }
            Some(pattern) => session.process.hold(&pattern)?,
        };
        flag.set(c_int::from(found.is_some()))?;
        match found {
            Some(found) => taken(session, comm, found, message, status),
            None => message.set(MESSAGE.null()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Mrecv(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    message: Out<Handle>,
    status: StatusOut,
) -> c_int {
    call("MPI_Mrecv", |session| {
        let (comm, active) = begin(session, (buf, count, datatype), message)?;
        told(status, session.finish(&comm, active))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Imrecv(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    message: Out<Handle>,
    request: Out<Handle>,
) -> c_int {
    call("MPI_Imrecv", |session| {
        let (comm, active) = begin(session, (buf, count, datatype), message)?;
        request.set(session.add_active(&comm, active)?)
    })
}
