//! A connected lane: processes its completions, and wakes its reader and its writer.

use super::filler::Filler;
use super::granter::Granter;
use super::pipe::{Event, Found, Pipe};
use crate::error::LaneError;
use crate::fabric::Common;
use crate::guard::{CompletionQueue, Completions, Wanted};
use crate::poller::{Looking, Polled};
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use storm_backend_tcp::fabric::Carrier;
use tokio::sync::Notify;
use tokio::time::Sleep;

/// Messages on the express lane between two readings of the clock. A reading delays the message
/// behind it. With a reading before every eighth message, half of all measured times were longer.
const MESSAGES_PER_CLOCK: u32 = 32;

/// A lane in use.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Declared before `duty`: once the pipe is dropped, no adapter writes to the duty's blocks.
    pipe: Pipe,
    duty: RefCell<Duty>,
    has_ended: Cell<bool>,
    why: RefCell<Option<Arc<LaneError>>>,
    queue: Arc<CompletionQueue>,
    /// Whether short messages may arrive in slots, as on an express lane.
    has_slots: bool,
    /// The completions that raise a notification.
    armed: Cell<Option<Wanted>>,
    /// A writer waits for room.
    blocked: Cell<bool>,
    /// The oldest request under way at the last check, and whether it caused a check of the port.
    seen: Cell<Option<(u64, bool)>>,
    /// Whether something has arrived since the last read.
    arrived: Cell<bool>,
    /// While this is under way, the reader polls for completions itself and is not woken. Before it
    /// waits, it reads everything that has arrived.
    looking: Looking,
    /// The waiting reader, and until when it waits.
    reader: RefCell<Option<Waker>>,
    alarm: RefCell<Option<Pin<Box<Sleep>>>>,
    writable: Notify,
    /// Processes the completions of this lane until the lane is dropped.
    common: Rc<Common>,
}

/// This end's part in the protocol of frames.
#[derive(Debug)]
pub(super) enum Duty {
    /// Frames go through the rings in both directions.
    Express,
    /// The parent of a bulk lane.
    Fill(Box<Filler>),
    /// The child of a bulk lane.
    Grant(Granter),
}

impl Duty {
    /// Whether data waits to be sent that no writer asks for.
    fn waits(&self) -> bool {
        match self {
            Duty::Express => false,
            Duty::Fill(filler) => filler.waits(),
            Duty::Grant(granter) => granter.waits(),
        }
    }

    /// The time until the lane has work even if nothing arrives.
    fn pause(&self) -> Option<Duration> {
        match self {
            Duty::Express | Duty::Fill(_) => None,
            Duty::Grant(granter) => granter.pause(),
        }
    }
}

/// The reason why the lane has ended, for every caller.
#[derive(Clone, Debug)]
struct Ended(Arc<LaneError>);

impl Lane {
    pub(super) fn start(
        common: &Rc<Common>,
        pipe: Pipe,
        queue: Arc<CompletionQueue>,
        name: usize,
        duty: Duty,
    ) -> Result<Rc<Lane>, LaneError> {
        let messages_per_clock = match &duty {
            Duty::Express => MESSAGES_PER_CLOCK,
            Duty::Fill(_) | Duty::Grant(_) => 1,
        };
        let has_slots = matches!(duty, Duty::Express);
        let lane = Rc::new(Lane {
            pipe,
            duty: RefCell::new(duty),
            has_ended: Cell::new(false),
            why: RefCell::default(),
            queue,
            has_slots,
            armed: Cell::new(None),
            blocked: Cell::new(false),
            seen: Cell::new(None),
            arrived: Cell::new(false),
            looking: Looking::new(messages_per_clock),
            reader: RefCell::default(),
            alarm: RefCell::default(),
            writable: Notify::new(),
            common: common.clone(),
        });
        if let Duty::Grant(granter) = &mut *lane.duty.borrow_mut() {
            common.upward.add(&lane);
            granter.send(&lane.pipe)?;
        }
        let polled: Rc<dyn Polled> = lane.clone();
        common.adapter.poller.add(name, &polled);
        lane.arm();
        Ok(lane)
    }

    /// Data of the group has come.
    pub(crate) fn something_came(&self) {
        self.arrived.set(true);
        self.wake_reader();
    }

    /// Records that a child of this member asks for a probe of the group.
    pub(crate) fn ask_for_probe(&self) {
        if let Duty::Grant(granter) = &mut *self.duty.borrow_mut() {
            granter.ask_for_probe();
        }
        // The reader sends the question.
        self.something_came();
    }

    fn wake_reader(&self) {
        let reader = self.reader.borrow_mut().take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Like [`arm`](Self::arm), unless the poller polls anyway.
    fn rearm(&self) -> bool {
        !self.common.adapter.poller.is_looking() && self.arm()
    }

    fn on_event(&self, event: Event) -> Result<(), LaneError> {
        match (&mut *self.duty.borrow_mut(), event) {
            (Duty::Fill(filler), Event::Delivered(name)) => {
                filler.delivered(name);
                Ok(())
            }
            (Duty::Grant(granter), Event::Filled { slot, len }) => {
                granter.on_filled(&self.pipe, slot, len)
            }
            (Duty::Grant(granter), Event::Announced { slot, len }) => {
                granter.on_told(&self.pipe, slot, len)
            }
            (Duty::Grant(granter), Event::Repaired { slot }) => {
                granter.on_repaired(&self.pipe, slot)
            }
            (Duty::Express | Duty::Fill(_), _) | (Duty::Grant(_), Event::Delivered(_)) => {
                Err(self.pipe.breach("it wrote a block on a lane where this end grants none"))
            }
        }
    }

    /// Processes the completions present. With `changed`, also does the work that another change
    /// makes possible. Returns whether a waiting task can continue.
    #[inline]
    fn work(&self, changed: bool) -> bool {
        if self.has_ended.get() {
            return false;
        }
        let found = self.has_slots && self.pipe.find();
        if found {
            self.has_come();
            if !changed && !self.pipe.owes_look() {
                return true;
            }
        }
        let mut taken = Completions::new();
        match self.pipe.look(&mut taken) {
            Ok(false) if !changed => found,
            looked => self.follow(looked, &mut taken) || found,
        }
    }

    /// Polls for the reader of this lane, in the reader's task. Returns whether there is something
    /// to read. While the other end polls too, messages are found in memory, which costs a fraction
    /// of polling the queue.
    #[inline]
    fn look(&self) -> bool {
        if self.has_slots && self.pipe.is_mutual() && !self.pipe.owes_look() {
            if self.pipe.find() {
                self.arrived.set(true);
            }
        } else {
            self.work(false);
        }
        self.arrived.get()
    }

    /// There is something to read.
    #[inline]
    fn has_come(&self) {
        self.arrived.set(true);
        // A reader that polls needs no waking.
        if !self.looking.is_under_way() {
            self.wake_reader();
        }
    }

    /// Processes the completions found, and the work that follows.
    #[inline(never)]
    fn follow(&self, looked: Result<bool, LaneError>, taken: &mut Completions) -> bool {
        let found = looked.and_then(|any| match any {
            true => self.pipe.work_off(taken, |event| self.on_event(event)),
            false => Ok(Found::default()),
        });
        let result = found.and_then(|found| {
            match &mut *self.duty.borrow_mut() {
                Duty::Express => {}
                Duty::Fill(filler) => filler.serve(&self.pipe, &self.common)?,
                Duty::Grant(granter) => granter.send(&self.pipe)?,
            }
            Ok(found)
        });
        let found = match result {
            Ok(found) => found,
            Err(error) => {
                self.end(error);
                return true;
            }
        };
        if found.arrived {
            self.has_come();
        }
        let makes_room = self.blocked.get() && (found.arrived || found.sent);
        if makes_room {
            self.writable.notify_one();
        }
        found.arrived || makes_room
    }

    /// Whether the reader of this lane may poll for completions itself.
    fn is_looked_at(&self) -> bool {
        let is_read = match &*self.duty.borrow() {
            Duty::Express => true,
            // The parent's end of a bulk lane has nothing to read.
            Duty::Fill(_) => false,
            Duty::Grant(granter) => granter.pause().is_none(),
        };
        is_read && self.common.adapter.poller.is_looking()
    }

    /// Waits until this lane's reader is woken, or has work to do even if nothing came.
    fn poll_sleep(&self, context: &mut Context<'_>) -> Poll<()> {
        *self.reader.borrow_mut() = Some(context.waker().clone());
        let pause = self.duty.borrow().pause();
        let mut alarm = pause.map(|pause| Box::pin(tokio::time::sleep(pause)));
        let polled = alarm.as_mut().map_or(Poll::Pending, |alarm| alarm.as_mut().poll(context));
        *self.alarm.borrow_mut() = alarm;
        polled
    }

    /// The next bytes, if there are any.
    #[inline]
    fn next(&self) -> io::Result<Option<Bytes>> {
        self.check()?;
        self.arrived.set(false);
        let result = match &mut *self.duty.borrow_mut() {
            Duty::Express => self.pipe.take(),
            // Grants are processed with their completions. A bulk lane carries nothing else up.
            Duty::Fill(_) => Ok(None),
            Duty::Grant(granter) => granter.take(&self.pipe, &self.common),
        };
        // A credit or a grant may wait for room now.
        self.rearm();
        result.map_err(|error| self.end(error).into())
    }

    fn can_write(&self) -> io::Result<bool> {
        self.check()?;
        Ok(match &*self.duty.borrow() {
            Duty::Express | Duty::Grant(_) => self.pipe.has_room(),
            Duty::Fill(filler) => filler.is_ready(&self.pipe),
        })
    }

    #[inline]
    fn check(&self) -> io::Result<()> {
        if !self.has_ended.get() {
            return Ok(());
        }
        match &*self.why.borrow() {
            None => Ok(()),
            Some(error) => Err(Ended(error.clone()).into()),
        }
    }

    /// Ends the lane. Only the first reason is kept.
    fn end(&self, error: LaneError) -> Ended {
        let first = self.why.borrow().clone();
        if let Some(first) = first {
            return Ended(first);
        }
        let error = Arc::new(error);
        *self.why.borrow_mut() = Some(error.clone());
        self.has_ended.set(true);
        self.pipe.stop();
        match &*error {
            LaneError::Closed { .. } => {}
            error => tracing::warn!(peer = %self.pipe.peer, %error, "a lane has ended"),
        }
        self.something_came();
        self.writable.notify_one();
        Ended(error)
    }
}

impl Polled for Lane {
    fn device_gone(&self) {
        let device = self.common.adapter.device.name().to_owned();
        self.end(LaneError::DeviceGone { peer: self.pipe.peer, device });
    }

    fn notified(&self) {
        self.armed.set(None);
        self.progress();
    }

    /// Processes the completions present. Returns whether a waiting task can continue. Completions
    /// of own requests matter only if a writer has no room.
    fn progress(&self) -> bool {
        self.work(false)
    }

    fn revisit(&self) {
        self.work(true);
    }

    /// Arms the queue for the completions that this lane needs. Returns whether one had arrived
    /// before. Completions of own requests matter only if a writer has no room.
    fn arm(&self) -> bool {
        if self.has_ended.get() {
            return false;
        }
        if let Err(error) = self.pipe.say_farewell() {
            self.end(error);
            return true;
        }
        let waits = self.blocked.get()
            || !self.pipe.has_request()
            || self.pipe.waits()
            || self.duty.borrow().waits();
        let wanted = if waits { Wanted::All } else { Wanted::Arrivals };
        let is_armed = matches!(self.armed.get(), Some(now) if now == wanted || !waits);
        if is_armed {
            return false;
        }
        if let Err(error) = self.queue.arm(wanted) {
            self.end(error.into());
            return true;
        }
        self.armed.set(Some(wanted));
        // The notification does not cover earlier completions, so process them all. If a message is
        // found in memory, the queue is not polled, and completions that came with the message stay
        // in it. So loop until a round finds no message and polls the queue.
        let mut any = false;
        while self.progress() {
            any = true;
        }
        any
    }

    fn is_stuck(&self) -> bool {
        let first = self.pipe.first_request().filter(|_| !self.has_ended.get());
        let Some((id, is_signalled)) = first else {
            self.seen.set(None);
            return false;
        };
        let before = self.seen.get().filter(|(before, _)| *before == id);
        // An unsignalled request may have completed unnoticed, so report it only once.
        let is_stuck = before.is_some_and(|(_, looked)| is_signalled || !looked);
        self.seen.set(Some((id, is_stuck || before.is_some_and(|(_, looked)| looked))));
        is_stuck
    }
}

impl Carrier for Lane {
    fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        self.check()?;
        let result = match &mut *self.duty.borrow_mut() {
            Duty::Express | Duty::Grant(_) => self.pipe.put(out),
            Duty::Fill(filler) => filler.put(&self.pipe, &self.common, out),
        };
        result.map_err(|error| self.end(error).into())
    }

    fn writable(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            while !self.can_write()? {
                self.blocked.set(true);
                self.common.adapter.poller.expect_nobody();
                if !self.rearm() {
                    self.writable.notified().await;
                }
            }
            self.blocked.set(false);
            Ok(())
        })
    }

    fn poll_read(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            if !self.looking.is_under_way() {
                if let Some(bytes) = self.next()? {
                    return Poll::Ready(Ok(bytes));
                }
                if !self.is_looked_at() {
                    if !self.arrived.get() {
                        ready!(self.poll_sleep(context));
                    }
                    continue;
                }
            }
            let look = self.common.adapter.poller.poll_look(&self.looking, context, || self.look());
            let has_come = ready!(look);
            if !has_come && !self.arrived.get() {
                // The alarm asks for missing data; otherwise another task polls.
                ready!(self.poll_sleep(context));
            }
        }
    }

    fn stop_reading(&self) {
        self.common.adapter.poller.stop_looking(&self.looking);
        *self.reader.borrow_mut() = None;
        *self.alarm.borrow_mut() = None;
    }

    fn shutdown(&self) {
        self.end(LaneError::Closed { peer: self.pipe.peer });
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Ended {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Ended> for io::Error {
    fn from(ended: Ended) -> io::Error {
        io::Error::other(ended)
    }
}
