//! A send and a receive with one request for both. The request advances like collectives in the
//! background.

use super::messages::{Sending, incoming, outgoing};
use crate::abi::{Buffer, BufferMut, Out, Status};
use crate::call::on;
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::request::{Active, landed};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use storm_mpi::{CommError, Received, RequestId, SendMode};

/// Yields until a message is done.
async fn done(session: &Session, id: RequestId) -> Result<Option<Received>, CommError> {
    let look = |_: &mut std::task::Context<'_>| match session.process.step(id) {
        Ok(Some(done)) => Poll::Ready(Ok(done)),
        Ok(None) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    };
    poll_fn(look).await
}

/// Yields until a started message is over, and keeps its memory alive until then.
async fn over(session: &Session, comm: &Comm, active: Active) -> Outcome<Status> {
    match active {
        Active::Over(over) => over,
        Active::Sending { id, packed } => {
            let sent = done(session, id).await;
            drop(packed);
            Ok(sent.map(|_| Status::EMPTY)?)
        }
        Active::Receiving { id, landing } => {
            let received = done(session, id).await?.ok_or(CommError::Ended)?;
            landed(comm, received, &landing)
        }
        Active::AskedBack { .. } | Active::Background(_) => {
            Err(Fault::new(Class::Intern, "a message in the background"))
        }
    }
}

/// Makes a request for both messages. It gets the status of the receive.
fn request(
    session: &'static Session,
    comm: &Rc<Comm>,
    [receiving, sending]: [Active; 2],
    request: Out<Handle>,
) -> Outcome {
    let of = Rc::clone(comm);
    let outstanding = session.process.in_background(async move {
        let received = over(session, &of, receiving).await;
        // Waits for the send regardless of the outcome of the receive, so that no memory is in use.
        over(session, &of, sending).await?;
        received
    });
    request.set(session.add_active(comm, Active::Background(outstanding))?)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Isendrecv(
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
    request_out: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Isendrecv", |session, comm| {
        let data = (sendbuf, sendcount, sendtype);
        let send = outgoing(session, comm, Sending::Standard, data, (dest, sendtag))?;
        let recv = incoming(session, comm, (recvbuf, recvcount, recvtype), (source, recvtag))?;
        let receiving = session.start(comm, &recv)?;
        let sending = session.start(comm, &send)?;
        request(session, comm, [receiving, sending], request_out)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Isendrecv_replace(
    buf: BufferMut,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    request_out: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Isendrecv_replace", |session, comm| {
        let recv = incoming(session, comm, (buf, count, datatype), (source, recvtag))?;
        let to = comm.address(dest, sendtag)?;
        // A copy of the data is sent, because its memory receives at the same time.
        let data = Elements::written(buf, count, &*session.datatype(datatype)?)?.copied();
        let receiving = session.start(comm, &recv)?;
        let sending = match to {
            Some(to) => session.start_packed(to, SendMode::Standard, data)?,
            None => Active::Over(Ok(Status::OF_NOBODY)),
        };
        request(session, comm, [receiving, sending], request_out)
    })
}
