//! Blocking and non-blocking messages.

use super::short::{self, Sent};
use super::waiting::told;
use crate::abi::{Buffer, BufferMut, Out, SUCCESS, Status, StatusOut, UNDEFINED};
use crate::call::{call, on, straight_on};
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::memory::Elements;
use crate::request::{Active, Message, landed};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::{Pattern, SendMode};

/// The mode of a send. A ready send is treated as a standard send, as the standard allows.
#[derive(Clone, Copy)]
pub(super) enum Sending {
    Standard,
    Synchronous,
    /// Through the program's buffer space.
    Buffered,
}

/// A message to send, from the arguments of a function.
pub(super) fn outgoing(
    session: &Session,
    comm: &Comm,
    how: Sending,
    (buf, count, datatype): Sent,
    (dest, tag): (c_int, c_int),
) -> Outcome<Message> {
    let data = Elements::read(buf, count, &*session.datatype(datatype)?)?;
    let to = comm.address(dest, tag)?;
    Ok(match how {
        Sending::Standard => Message::Send { data, to, mode: SendMode::Standard },
        Sending::Synchronous => Message::Send { data, to, mode: SendMode::Synchronous },
        Sending::Buffered => Message::BufferedSend { data, to },
    })
}

/// A message to receive, from the arguments of a function.
pub(super) fn incoming(
    session: &Session,
    comm: &Comm,
    (buf, count, datatype): (BufferMut, c_int, Handle),
    (source, tag): (c_int, c_int),
) -> Outcome<Message> {
    let into = Elements::written(buf, count, &*session.datatype(datatype)?)?;
    Ok(Message::Receive { into, from: comm.pattern(source, tag)? })
}

/// Starts a message and waits for it.
fn at_once(session: &Session, comm: &Rc<Comm>, message: &Message) -> Outcome<Status> {
    match message {
        Message::Send { data, to: Some(to), mode } => {
            session.process.send(*to, *mode, &data.packed())?;
            Ok(Status::EMPTY)
        }
        Message::Receive { into, from: Some(from) } => {
            let mut landing = into.landing();
            // The short path was tried already. Trying it again would begin the wait twice.
            let received = session.process.recv_by_request(*from, landing.bytes_mut())?;
            landed(comm, received, &landing)
        }
        Message::Send { to: None, .. }
        | Message::BufferedSend { .. }
        | Message::Receive { from: None, .. } => {
            let active = session.start(comm, message)?;
            session.finish(comm, active)
        }
    }
}

/// A function that sends and waits.
#[inline(never)]
fn send(name: &str, how: Sending, sent: Sent, to: (c_int, c_int), comm: Handle) -> c_int {
    on(comm, name, |session, comm| {
        let message = outgoing(session, comm, how, sent, to)?;
        at_once(session, comm, &message).map(drop)
    })
}

/// A function that receives and waits.
#[inline(never)]
fn receive(
    name: &str,
    into: (BufferMut, c_int, Handle),
    from: (c_int, c_int),
    comm: Handle,
    status: StatusOut,
) -> c_int {
    on(comm, name, |session, comm| {
        let message = incoming(session, comm, into, from)?;
        told(status, at_once(session, comm, &message))
    })
}

/// A function that receives and waits. It tries the straight way first.
#[inline]
fn receive_straight(
    name: &str,
    into: (BufferMut, c_int, Handle),
    from: (c_int, c_int),
    comm: Handle,
    status: StatusOut,
) -> c_int {
    straight_on(comm, name, |session, comm| short::received(session, comm, into, from, status))
        .unwrap_or_else(|| receive(name, into, from, comm, status))
}

/// A function that makes a request to send. The send begins at once, or whenever the request is
/// started.
pub(super) fn request_to_send(
    name: &str,
    how: Sending,
    sent: Sent,
    to: (c_int, c_int),
    comm: Handle,
    request: Out<Handle>,
    make: fn(&Session, &Rc<Comm>, Message) -> Outcome<Handle>,
) -> c_int {
    on(comm, name, |session, comm| {
        let message = outgoing(session, comm, how, sent, to)?;
        request.set(make(session, comm, message)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Send(
    buf: Buffer,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    let (sent, to) = ((buf, count, datatype), (dest, tag));
    straight_on(comm, "MPI_Send", |session, comm| short::sent(session, comm, sent, to))
        .unwrap_or_else(|| send("MPI_Send", Sending::Standard, sent, to, comm))
}

/// The functions that send and wait, other than `MPI_Send`.
macro_rules! sends {
    ($(fn $name:ident: $how:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            buf: Buffer,
            count: c_int,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            comm: Handle,
        ) -> c_int {
            send(stringify!($name), Sending::$how, (buf, count, datatype), (dest, tag), comm)
        }
    )*};
}

sends! {
    fn MPI_Ssend: Synchronous;
    fn MPI_Rsend: Standard;
    fn MPI_Bsend: Buffered;
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Recv(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    status: StatusOut,
) -> c_int {
    receive_straight("MPI_Recv", (buf, count, datatype), (source, tag), comm, status)
}

/// The functions that make a request to send: the mode, and what makes the request.
macro_rules! requests_to_send {
    ($(fn $name:ident: $how:ident, $make:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            buf: Buffer,
            count: c_int,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            comm: Handle,
            request: Out<Handle>,
        ) -> c_int {
            let (name, how, make) = (stringify!($name), Sending::$how, Session::$make);
            request_to_send(name, how, (buf, count, datatype), (dest, tag), comm, request, make)
        }
    )*};
}
pub(super) use requests_to_send;

requests_to_send! {
    fn MPI_Isend: Standard, request;
    fn MPI_Issend: Synchronous, request;
    fn MPI_Irsend: Standard, request;
    fn MPI_Ibsend: Buffered, request;
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Irecv(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Irecv", |session, comm| {
        let message = incoming(session, comm, (buf, count, datatype), (source, tag))?;
        request.set(session.request(comm, message)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Sendrecv(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: StatusOut,
) -> c_int {
    let (data, to) = ((sendbuf, sendcount, sendtype), (dest, sendtag));
    let (into, from) = ((recvbuf, recvcount, recvtype), (source, recvtag));
    let straight = straight_on(comm, "MPI_Sendrecv", |session, comm| {
        // A send that is done at once needs no receive before it.
        Ok(short::is_usual(session, comm, into, from) && short::sent(session, comm, data, to)?)
    });
    match straight {
        None => {}
        Some(SUCCESS) => return receive_straight("MPI_Sendrecv", into, from, comm, status),
        Some(error) => return error,
    }
    on(comm, "MPI_Sendrecv", |session, comm| {
        let send = outgoing(session, comm, Sending::Standard, data, to)?;
        let recv = incoming(session, comm, into, from)?;
        let receiving = session.start(comm, &recv)?;
        let sending = session.start(comm, &send)?;
        both(session, comm, receiving, sending, status)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Sendrecv_replace(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: StatusOut,
) -> c_int {
    on(comm, "MPI_Sendrecv_replace", |session, comm| {
        let recv = incoming(session, comm, (buf, count, datatype), (source, recvtag))?;
        let to = comm.address(dest, sendtag)?;
        // A copy of the data is sent, because its memory receives at the same time.
        let data = Elements::written(buf, count, &*session.datatype(datatype)?)?.copied();
        let receiving = session.start(comm, &recv)?;
        let sending = match to {
            Some(to) => session.start_packed(to, SendMode::Standard, data)?,
            None => Active::Over(Ok(Status::OF_NOBODY)),
        };
        both(session, comm, receiving, sending, status)
    })
}

/// Waits for both messages, regardless of the outcome of the first, so that no memory is in use.
fn both(
    session: &Session,
    comm: &Rc<Comm>,
    receiving: Active,
    sending: Active,
    status: StatusOut,
) -> Outcome {
    let received = session.finish(comm, receiving);
    session.finish(comm, sending)?;
    told(status, received)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Probe(source: c_int, tag: c_int, comm: Handle, status: StatusOut) -> c_int {
    on(comm, "MPI_Probe", |session, comm| {
        let found = match comm.pattern(source, tag)? {
            None => Status::OF_NOBODY,
            Some(pattern) => seen(comm, session.process.await_message(&pattern)?),
        };
        status.set(&found);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: Out<c_int>,
    status: StatusOut,
) -> c_int {
    on(comm, "MPI_Iprobe", |session, comm| {
        let look = |pattern: &Pattern| session.process.probe(pattern);
        let found = match comm.pattern(source, tag)? {
            None => Some(Status::OF_NOBODY),
            Some(pattern) => look(&pattern)?.map(|found| seen(comm, found)),
        };
        if let Some(found) = &found {
            status.set(found);
        }
        flag.set(c_int::from(found.is_some()))
    })
}

pub(super) fn seen(comm: &Comm, found: storm_mpi::Status) -> Status {
    let (source, tag) = (comm.rank_here(found.source), found.tag.0);
    Status { source, tag, bytes: found.bytes as i64, ..Status::EMPTY }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_count(status: Out<Status>, datatype: Handle, count: Out<c_int>) -> c_int {
    call("MPI_Get_count", |session| {
        let bytes = status.get()?.bytes;
        let size = session.datatype(datatype)?.layout.size() as i64;
        let whole = match size {
            0 if bytes == 0 => Some(0),
            0 => None,
            _ if bytes % size == 0 => c_int::try_from(bytes / size).ok(),
            _ => None,
        };
        count.set(whole.unwrap_or(UNDEFINED))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_elements(status: Out<Status>, datatype: Handle, count: Out<c_int>) -> c_int {
    call("MPI_Get_elements", |session| {
        let bytes = usize::try_from(status.get()?.bytes).unwrap_or(0);
        let numbers = session.datatype(datatype)?.layout.numbers_in(bytes);
        count.set(numbers.and_then(|n| c_int::try_from(n).ok()).unwrap_or(UNDEFINED))
    })
}
