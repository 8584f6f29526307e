//! Requests: pending messages, and the means to start them again.

use crate::abi::{BSEND_OVERHEAD, Status};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::generalized::Generalized;
use crate::memory::{Elements, Landing};
use std::rc::Rc;
use storm_mpi::{Address, MessageId, Outstanding, Pattern, Received, RequestId, SendMode};

/// A message to be sent or received.
#[derive(Clone)]
pub(crate) enum Message {
    /// `None` stands for `MPI_PROC_NULL`.
    Send { data: Elements, to: Option<Address>, mode: SendMode },
    /// The data is copied at once into the program's buffer space.
    BufferedSend { data: Elements, to: Option<Address> },
    /// `None` stands for `MPI_PROC_NULL`.
    Receive { into: Elements, from: Option<Pattern> },
}

/// A request of a program.
pub(crate) struct Request {
    pub(crate) comm: Rc<Comm>,
    /// The part that a persistent request starts.
    pub(crate) again: Option<Again>,
    pub(crate) active: Option<Active>,
    /// Work that the program itself does.
    pub(crate) work: Option<Rc<Generalized>>,
}

impl Request {
    pub(crate) fn new(comm: &Rc<Comm>, again: Option<Again>, active: Option<Active>) -> Request {
        Request { comm: Rc::clone(comm), again, active, work: None }
    }

    /// A request for pending work of the program.
    pub(crate) fn of_program(comm: Rc<Comm>, active: Active, work: Rc<Generalized>) -> Request {
        Request { work: Some(work), ..Request::new(&comm, None, Some(active)) }
    }

    pub(crate) fn work(&self) -> Option<Rc<Generalized>> {
        self.work.clone()
    }
}

/// The part of a persistent request that can be started again.
#[derive(Clone)]
pub(crate) enum Again {
    Message(Message),
    /// Starts the collective.
    Collective(Rc<dyn Fn() -> Outcome<Active>>),
}

/// A message that a probe has taken.
pub(crate) struct Taken {
    pub(crate) comm: Rc<Comm>,
    pub(crate) id: MessageId,
}

/// A pending message.
pub(crate) enum Active {
    /// The engine reads the program's memory, or the packed copy kept here.
    Sending { id: RequestId, packed: Option<Vec<u8>> },
    /// The message was asked back.
    AskedBack { id: RequestId, packed: Option<Vec<u8>> },
    /// The engine writes into the landing's memory.
    Receiving { id: RequestId, landing: Landing },
    /// Background work: a collective, or a send and a receive.
    Background(Outstanding<Outcome<Status>>),
    /// Done, with the result for the program.
    Over(Result<Status, Fault>),
}

/// Messages whose requests the program has freed.
#[derive(Default)]
pub(crate) struct Detached {
    pub(crate) messages: Vec<(Rc<Comm>, Active)>,
    /// Number of messages at which the done ones are collected.
    pub(crate) reaped_at: usize,
}

/// The program's buffer space for `MPI_Bsend`. Its memory is not used; it only bounds the copies.
#[derive(Clone, Copy)]
pub(crate) struct BufferSpace {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

impl Active {
    /// A message that is done and has no status.
    pub(crate) fn nothing() -> Active {
        Active::Over(Ok(Status::EMPTY))
    }

    /// The message's request, unless it is over.
    pub(crate) fn id(&self) -> Option<RequestId> {
        match self {
            Active::Sending { id, .. }
            | Active::AskedBack { id, .. }
            | Active::Receiving { id, .. } => Some(*id),
            Active::Background(_) | Active::Over(_) => None,
        }
    }

    pub(crate) fn receiving(&self) -> Option<RequestId> {
        match self {
            Active::Receiving { id, .. } => Some(*id),
            Active::Sending { .. }
            | Active::AskedBack { .. }
            | Active::Background(_)
            | Active::Over(_) => None,
        }
    }
}

impl Detached {
    /// Buffer space that pending messages take.
    pub(crate) fn buffered(&self) -> usize {
        let taken = |active: &Active| match active {
            Active::Sending { packed: Some(bytes), .. } => bytes.len() + BSEND_OVERHEAD,
            Active::Sending { packed: None, .. }
            | Active::AskedBack { .. }
            | Active::Receiving { .. }
            | Active::Background(_)
            | Active::Over(_) => 0,
        };
        self.messages.iter().map(|(_, active)| taken(active)).sum()
    }
}

/// The status of a received message, whose bytes are put into place.
pub(crate) fn landed(comm: &Comm, received: Received, landing: &Landing) -> Outcome<Status> {
    let (bytes, room) = (received.status.bytes, received.buffer_bytes);
    landing.finish(bytes);
    let source = comm.rank_here(received.status.source);
    let tag = received.status.tag.0;
    let status = Status { source, tag, bytes: bytes.min(room) as i64, ..Status::EMPTY };
    if bytes > room {
        let text = format!("message of {bytes} bytes from rank {source} into {room}");
        return Err(Fault::new(Class::Truncate, text).of_message(status));
    }
    Ok(status)
}
