//! The session's requests: starts, checks, collects and gives up pending messages.

use crate::abi::{BSEND_OVERHEAD, Status};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::level::Level;
use crate::memory::Landing;
use crate::request::{Active, Again, Detached, Message, Request, landed};
use crate::session::Session;
use crate::table::{Handle, REQUEST};
use std::borrow::Cow;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::{Address, RequestId, SendMode};

/// Smaller numbers of messages are not checked.
const DETACHED_MIN: usize = 64;

impl Session {
    pub(crate) fn start(&self, comm: &Rc<Comm>, message: &Message) -> Outcome<Active> {
        match message {
            Message::Send { to: None, .. } | Message::BufferedSend { to: None, .. } => {
                Ok(Active::Over(Ok(Status::OF_NOBODY)))
            }
            Message::Receive { from: None, .. } => Ok(Active::Over(Ok(Status::OF_NOBODY))),
            Message::Send { data, to: Some(to), mode } => match data.packed() {
                Cow::Borrowed(bytes) => {
                    // SAFETY: the program does not change the memory until the request is done.
                    let id = unsafe {
                        self.process.start_send(*to, *mode, bytes.as_ptr(), bytes.len())?
                    };
                    Ok(Active::Sending { id, packed: None })
                }
                Cow::Owned(bytes) => self.start_packed(*to, *mode, bytes),
            },
            Message::BufferedSend { data, to: Some(to) } => {
                self.reserve_buffer(data.bytes)?;
                let sending = self.start_packed(*to, SendMode::Standard, data.copied())?;
                self.detach(comm, sending);
                Ok(Active::Over(Ok(Status::EMPTY)))
            }
            Message::Receive { into, from: Some(from) } => {
                let mut landing = into.landing();
                let place = landing.bytes_mut();
                let (start, bytes) = (place.as_mut_ptr(), place.len());
                // SAFETY: the program leaves its memory alone until the request is done. The
                // library's memory lives in `landing` as long as the request.
                let id = unsafe { self.process.start_recv(*from, start, bytes)? };
                Ok(Active::Receiving { id, landing })
            }
        }
    }

    /// Starts a send from the library's memory.
    pub(crate) fn start_packed(
        &self,
        to: Address,
        mode: SendMode,
        bytes: Vec<u8>,
    ) -> Outcome<Active> {
        // SAFETY: the bytes stay in place, unchanged, in the active request, until it is done.
        let id = unsafe { self.process.start_send(to, mode, bytes.as_ptr(), bytes.len())? };
        Ok(Active::Sending { id, packed: Some(bytes) })
    }

    /// Starts a message and returns a request for it.
    pub(crate) fn request(&self, comm: &Rc<Comm>, message: Message) -> Outcome<Handle> {
        let active = self.start(comm, &message)?;
        self.add_active(comm, active)
    }

    /// Adds a request for a pending message.
    pub(crate) fn add_active(&self, comm: &Rc<Comm>, active: Active) -> Outcome<Handle> {
        self.requests.borrow_mut().add(Request::new(comm, None, Some(active)))
    }

    /// Adds a request that starts the message repeatedly.
    pub(crate) fn persistent(&self, comm: &Rc<Comm>, message: Message) -> Outcome<Handle> {
        self.add_again(comm, Again::Message(message))
    }

    /// Adds a request that starts the collective repeatedly.
    pub(crate) fn persistent_collective(
        &self,
        comm: &Rc<Comm>,
        begin: impl Fn() -> Outcome<Active> + 'static,
    ) -> Outcome<Handle> {
        self.add_again(comm, Again::Collective(Rc::new(begin)))
    }

    fn add_again(&self, comm: &Rc<Comm>, again: Again) -> Outcome<Handle> {
        self.requests.borrow_mut().add(Request::new(comm, Some(again), None))
    }

    /// Starts a persistent request.
    pub(crate) fn start_again(&self, handle: Handle) -> Outcome {
        let (comm, again) = {
            let requests = self.requests.borrow();
            let request = requests.get(handle)?;
            let wrong = |text| Err(Fault::new(Class::Request, text).on(&request.comm));
            match &request.again {
                None => return wrong("request that is not persistent"),
                Some(_) if request.active.is_some() => return wrong("request that is active"),
                Some(again) => (Rc::clone(&request.comm), again.clone()),
            }
        };
        let active = match again {
            Again::Message(message) => self.start(&comm, &message),
            Again::Collective(begin) => begin(),
        };
        let active = active.map_err(|fault| fault.on(&comm))?;
        self.requests.borrow_mut().get_mut(handle)?.active = Some(active);
        Ok(())
    }

    /// Whether there is something to wait for: false for a null request, and for a persistent
    /// request that was not started.
    pub(crate) fn is_active(&self, handle: Handle) -> Outcome<bool> {
        Ok(handle != REQUEST.null() && self.requests.borrow().get(handle)?.active.is_some())
    }

    /// Whether an active request is done. Moves no bytes.
    pub(crate) fn is_done(&self, handle: Handle) -> Outcome<bool> {
        let requests = self.requests.borrow();
        let request = requests.get(handle)?;
        match &request.active {
            None | Some(Active::Over(_)) => Ok(true),
            Some(Active::Background(outstanding)) => Ok(outstanding.is_done()),
            Some(
                Active::Sending { id, .. }
                | Active::AskedBack { id, .. }
                | Active::Receiving { id, .. },
            ) => self.process.is_done(*id).map_err(|error| Fault::from(error).on(&request.comm)),
        }
    }

    /// Waits for a request and collects it. The handle is null afterwards, unless the request is
    /// persistent.
    pub(crate) fn collect(&self, handle: &mut Handle) -> Outcome<Status> {
        if *handle == REQUEST.null() {
            return Ok(Status::EMPTY);
        }
        if Level::now() == Level::Multiple {
            self.wait_in_place(*handle)?;
        }
        let (comm, active, work) = {
            let mut requests = self.requests.borrow_mut();
            let request = requests.get_mut(*handle)?;
            let (comm, active) = (Rc::clone(&request.comm), request.active.take());
            let work = request.work.take();
            if request.again.is_none() {
                requests.free(*handle)?;
                *handle = REQUEST.null();
            }
            (comm, active, work)
        };
        let finished = active.map_or(Ok(Status::EMPTY), |active| self.finish(&comm, active));
        match work {
            None => finished,
            Some(work) => {
                finished.and_then(|_| work.ask_and_free().map_err(|fault| fault.on(&comm)))
            }
        }
    }

    /// Waits until a request is done, without taking it out of the table: other threads may cancel
    /// it or ask for its state meanwhile.
    fn wait_in_place(&self, handle: Handle) -> Outcome {
        let id = self.requests.borrow().get(handle)?.active.as_ref().and_then(Active::id);
        // The request itself reports a failure, to its communicator's error handler.
        if let Some(id) = id {
            let _ = self.process.wait_until_done(id);
        }
        while matches!(self.is_done(handle), Ok(false)) && self.process.progress(true).is_ok() {}
        Ok(())
    }

    /// The status of a request that is done, without collecting it.
    pub(crate) fn peek(&self, handle: Handle) -> Outcome<Status> {
        let work = self.requests.borrow().get(handle)?.work();
        if let Some(work) = work {
            return work.ask();
        }
        let (comm, active) = {
            let mut requests = self.requests.borrow_mut();
            let request = requests.get_mut(handle)?;
            (Rc::clone(&request.comm), request.active.take())
        };
        let Some(active) = active else { return Ok(Status::EMPTY) };
        let over = self.finish(&comm, active);
        let said = over.as_ref().map_or(Status::EMPTY, |status| *status);
        self.requests.borrow_mut().get_mut(handle)?.active = Some(Active::Over(over));
        Ok(said)
    }

    /// Puts the received bytes of a request into place, even if the program has freed the request.
    /// The program gets the status later.
    pub(crate) fn land(&self, handle: Handle, id: RequestId) -> Outcome {
        let is_this =
            |request: &Request| request.active.as_ref().and_then(Active::receiving) == Some(id);
        if self.requests.borrow().get(handle).is_ok_and(is_this) {
            return self.peek(handle).map(drop);
        }
        self.detached.borrow_mut().reap(self);
        Ok(())
    }

    /// Waits for a message.
    pub(crate) fn finish(&self, comm: &Rc<Comm>, active: Active) -> Outcome<Status> {
        let finished = match active {
            Active::Over(over) => over,
            Active::Sending { id, packed } => {
                let sent = self.process.wait(id);
                drop(packed);
                sent.map(|_| Status::EMPTY).map_err(Fault::from)
            }
            Active::AskedBack { id, packed } => {
                let came_back = self.process.wait_for_cancelled(id);
                drop(packed);
                let said = |back| Status { cancelled: c_int::from(back), ..Status::EMPTY };
                came_back.map(said).map_err(Fault::from)
            }
            Active::Receiving { id, landing } => self.received(comm, id, &landing),
            Active::Background(outstanding) => {
                let done = self.process.wait_for(&outstanding).map_err(Fault::from);
                done.flatten()
            }
        };
        finished.map_err(|fault| fault.on(comm))
    }

    fn received(&self, comm: &Comm, id: RequestId, landing: &Landing) -> Outcome<Status> {
        let nothing = || Fault::new(Class::Intern, "a receive without a message");
        landed(comm, self.process.wait(id)?.ok_or_else(nothing)?, landing)
    }

    /// Cancels a receive that nothing has matched, or asks the receiver to return a send that no
    /// receive has matched. Other requests stay as they are.
    pub(crate) fn cancel(&self, handle: Handle) -> Outcome {
        let work = self.requests.borrow().get(handle)?.work();
        if let Some(work) = work {
            return work.cancel();
        }
        let mut requests = self.requests.borrow_mut();
        let active = &mut requests.get_mut(handle)?.active;
        match active {
            Some(Active::Receiving { id, .. }) if self.process.cancel_recv(*id) => {
                let cancelled = Status { cancelled: 1, ..Status::EMPTY };
                *active = Some(Active::Over(Ok(cancelled)));
            }
            Some(Active::Sending { id, packed }) => {
                let (id, packed) = (*id, packed.take());
                *active = Some(Active::AskedBack { id, packed });
                self.process.cancel_send(id)?;
            }
            Some(
                Active::Receiving { .. }
                | Active::AskedBack { .. }
                | Active::Background(_)
                | Active::Over(_),
            )
            | None => {}
        }
        Ok(())
    }

    /// Removes a request of the program. Its message continues.
    pub(crate) fn free_request(&self, handle: &mut Handle) -> Outcome {
        let work = self.requests.borrow().get(*handle)?.work();
        if work.is_some_and(|work| !work.give_up()) {
            *handle = REQUEST.null();
            return Ok(());
        }
        let request = self.requests.borrow_mut().free(*handle)?;
        *handle = REQUEST.null();
        if let Some(work) = request.work {
            return work.free();
        }
        if let Some(active) = request.active {
            self.detach(&request.comm, active);
        }
        Ok(())
    }

    fn detach(&self, comm: &Rc<Comm>, active: Active) {
        let mut detached = self.detached.borrow_mut();
        // Not each call collects: otherwise each of N pending messages would be checked N times.
        if detached.messages.len() >= detached.reaped_at {
            detached.reap(self);
            detached.reaped_at = (2 * detached.messages.len()).max(DETACHED_MIN);
        }
        detached.messages.push((Rc::clone(comm), active));
    }

    /// Waits for all detached sends. Receives that nothing has matched are given up.
    pub(crate) fn end_detached(&self) -> Outcome {
        let messages = std::mem::take(&mut self.detached.borrow_mut().messages);
        // After a failure, the other messages still keep their memory until they are done.
        let mut outcome = Ok(());
        for (comm, active) in messages {
            let given_up = match &active {
                Active::Receiving { id, .. } => self.process.cancel_recv(*id),
                Active::Sending { .. }
                | Active::AskedBack { .. }
                | Active::Background(_)
                | Active::Over(_) => false,
            };
            if !given_up {
                outcome = outcome.and(self.finish(&comm, active).map(|_| ()));
            }
        }
        outcome
    }

    /// Waits for all sends from the buffer space.
    pub(crate) fn end_buffered(&self) -> Outcome {
        let messages = std::mem::take(&mut self.detached.borrow_mut().messages);
        let mut outcome = Ok(());
        for (comm, active) in messages {
            match active {
                Active::Sending { packed: Some(_), .. }
                | Active::AskedBack { packed: Some(_), .. } => {
                    outcome = outcome.and(self.finish(&comm, active).map(|_| ()));
                }
                other => self.detach(&comm, other),
            }
        }
        outcome
    }

    /// Makes sure that the buffer space has room for another message.
    fn reserve_buffer(&self, bytes: usize) -> Outcome {
        let room = self.buffer.get().map_or(0, |space| space.bytes);
        let needed = |detached: &Detached| {
            detached.buffered().saturating_add(bytes).saturating_add(BSEND_OVERHEAD)
        };
        self.process.progress(false)?;
        let mut detached = self.detached.borrow_mut();
        detached.reap(self);
        if needed(&detached) <= room {
            return Ok(());
        }
        let text = format!("no room for {bytes} bytes in a buffer space of {room}");
        Err(Fault::new(Class::Buffer, text))
    }
}

impl Detached {
    /// Collects messages that are done.
    fn reap(&mut self, session: &Session) {
        let done = |active: &Active| match active {
            Active::Over(_) => true,
            Active::Background(outstanding) => outstanding.is_done(),
            // After a failure nothing is pending any more.
            Active::Sending { id, .. }
            | Active::AskedBack { id, .. }
            | Active::Receiving { id, .. } => session.process.is_done(*id).unwrap_or(true),
        };
        let mut at = 0;
        while at < self.messages.len() {
            if done(&self.messages[at].1) {
                let (comm, active) = self.messages.swap_remove(at);
                // The program gave up the request, and with it the report of an error.
                let _ = session.finish(&comm, active);
            } else {
                at += 1;
            }
        }
    }
}
