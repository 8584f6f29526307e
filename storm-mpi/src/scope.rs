//! Non-blocking messages, in a scope that ends only when all of them are done.
//!
//! The scope makes it safe to lend buffers to the engine. Like `std::thread::scope` for threads, it
//! waits even for a request that was dropped or forgotten, before the borrow of its buffer ends.

use crate::communicator::Communicator;
use crate::datatype::Datatype;
use crate::engine::RequestId;
use crate::envelope::{SendMode, Source, Status, Tag, TagPattern};
use crate::error::CommError;
use crate::rank::Rank;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Exit code of a job whose rank panicked with messages under way.
const PANIC_EXIT_CODE: i32 = 101;

/// Starts non-blocking messages; made by [`Communicator::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    comm: &'scope Communicator,
    open: RefCell<Vec<RequestId>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// A send under way.
#[must_use = "the scope waits for it, but its error is seen here"]
pub struct SendRequest<'scope> {
    handle: Handle<'scope>,
}

/// A receive under way, with the buffer it fills.
#[must_use = "the scope waits for it, but its data and its error are seen here"]
pub struct RecvRequest<'scope, T> {
    handle: Handle<'scope>,
    into: *mut T,
    elements: usize,
    _into: PhantomData<&'scope mut [T]>,
}

/// The outcome of testing a request: done, or the request itself.
pub enum Tested<Done, Request> {
    /// The request is done.
    Done(Done),
    /// The request is not done.
    Pending(Request),
}

#[derive(Clone, Copy)]
struct Handle<'scope> {
    comm: &'scope Communicator,
    open: &'scope RefCell<Vec<RequestId>>,
    id: RequestId,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn run<R>(
        comm: &Communicator,
        body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        let scope =
            Scope { comm, open: RefCell::new(Vec::new()), _scope: PhantomData, _env: PhantomData };
        // A panic that leaves the body must not end the borrows of buffers in use.
        let guard = AbortOnPanic { comm, open: &scope.open };
        let outcome = body(&scope);
        std::mem::forget(guard);
        let open: Vec<RequestId> = scope.open.borrow().clone();
        let rest = open.into_iter().try_for_each(|id| comm.wait(id).map(|_| ()));
        match (outcome, comm.checked(rest)) {
            (Ok(value), Ok(())) => Ok(value),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        }
    }

    /// Starts to send `data`, which stays borrowed for the scope.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn isend<T: Datatype>(
        &'scope self,
        data: &'scope [T],
        to: Rank,
        tag: Tag,
    ) -> Result<SendRequest<'scope>, CommError> {
        let id = self.comm.checked(self.comm.start_send(data, to, tag, SendMode::Standard))?;
        Ok(SendRequest { handle: self.handle(id) })
    }

    /// Starts to receive one message into `into`, which stays borrowed for the scope; waiting for
    /// the request gives it back.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn irecv<T: Datatype>(
        &'scope self,
        into: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagPattern>,
    ) -> Result<RecvRequest<'scope, T>, CommError> {
        let (start, elements) = (into.as_mut_ptr(), into.len());
        let id = self.comm.checked(self.comm.start_recv(into, from.into(), tag.into()))?;
        let handle = self.handle(id);
        Ok(RecvRequest { handle, into: start, elements, _into: PhantomData })
    }

    /// Waits for all of these sends.
    ///
    /// # Errors
    /// The first that occurs, with [`crate::OnError::Return`].
    pub fn wait_all_sends(
        &self,
        sends: impl IntoIterator<Item = SendRequest<'scope>>,
    ) -> Result<(), CommError> {
        sends.into_iter().try_for_each(SendRequest::wait)
    }

    /// Waits for all of these receives; their statuses come in the same order.
    ///
    /// # Errors
    /// The first that occurs, with [`crate::OnError::Return`].
    pub fn wait_all<T: Datatype>(
        &self,
        receives: impl IntoIterator<Item = RecvRequest<'scope, T>>,
    ) -> Result<Vec<Status>, CommError> {
        receives.into_iter().map(|recv| recv.wait().map(|(status, _)| status)).collect()
    }

    fn handle(&'scope self, id: RequestId) -> Handle<'scope> {
        self.open.borrow_mut().push(id);
        Handle { comm: self.comm, open: &self.open, id }
    }
}

impl SendRequest<'_> {
    /// Waits until the data has been taken.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn wait(self) -> Result<(), CommError> {
        let outcome = self.handle.comm.wait(self.handle.id).map(|_| ());
        self.handle.close();
        self.handle.comm.checked(outcome)
    }

    /// Whether the data has been taken. Does not wait.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn test(self) -> Result<Tested<(), Self>, CommError> {
        let comm = self.handle.comm;
        match comm.checked(comm.test(self.handle.id))? {
            None => Ok(Tested::Pending(self)),
            Some(_) => {
                self.handle.close();
                Ok(Tested::Done(()))
            }
        }
    }
}

impl<'scope, T: Datatype> RecvRequest<'scope, T> {
    /// Waits for the message, and returns its status and the buffer.
    ///
    /// # Errors
    /// Like [`Communicator::recv`].
    pub fn wait(self) -> Result<(Status, &'scope mut [T]), CommError> {
        let comm = self.handle.comm;
        let received = comm.wait(self.handle.id);
        self.handle.close();
        let status = received.and_then(|received| comm.received::<T>(received));
        comm.checked(status).map(|status| (status, self.buffer()))
    }

    /// Whether the message has arrived. Does not wait.
    ///
    /// # Errors
    /// Like [`Communicator::recv`].
    pub fn test(self) -> Result<Tested<(Status, &'scope mut [T]), Self>, CommError> {
        let comm = self.handle.comm;
        let Some(received) = comm.checked(comm.test(self.handle.id))? else {
            return Ok(Tested::Pending(self));
        };
        self.handle.close();
        let status = comm.received::<T>(received);
        comm.checked(status).map(|status| Tested::Done((status, self.buffer())))
    }

    fn buffer(self) -> &'scope mut [T] {
        // SAFETY: made from a `&'scope mut [T]` that this request holds alone. The request was
        // collected before this call, so the engine no longer uses it.
        unsafe { std::slice::from_raw_parts_mut(self.into, self.elements) }
    }
}

impl Handle<'_> {
    fn close(&self) {
        let mut open = self.open.borrow_mut();
        if let Some(at) = open.iter().position(|&id| id == self.id) {
            open.swap_remove(at);
        }
    }
}

struct AbortOnPanic<'a> {
    comm: &'a Communicator,
    open: &'a RefCell<Vec<RequestId>>,
}

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if !self.open.borrow().is_empty() {
            self.comm.abort(PANIC_EXIT_CODE);
        }
    }
}
