//! A connected lane: takes completions as they come, and wakes who reads and who writes.

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

/// Messages on the express lane between two looks at the clock, as each is short: what happens
/// before a message is in its time, and in half of all times if it happens before every eighth.
const MESSAGES_PER_CLOCK: u32 = 32;

/// A lane in use.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Before `duty`: whose blocks nobody writes to when it is gone.
    pipe: Pipe,
    duty: RefCell<Duty>,
    has_ended: Cell<bool>,
    why: RefCell<Option<Arc<LaneError>>>,
    queue: Arc<CompletionQueue>,
    /// Short messages may come in slots: on an express lane.
    has_slots: bool,
    /// Of which completions there will be a notification.
    armed: Cell<Option<Wanted>>,
    /// Somebody waits for room.
    blocked: Cell<bool>,
    /// The first request under way when it was last looked, and whether it made anybody look
    /// at the port.
    seen: Cell<Option<(u64, bool)>>,
    /// Something has arrived since it was last read.
    arrived: Cell<bool>,
    /// Who reads looks for completions himself as long as this is under way, and is told
    /// nothing: before he waits he reads what is there.
    looking: Looking,
    /// Who reads and waits, and until when.
    reader: RefCell<Option<Waker>>,
    alarm: RefCell<Option<Pin<Box<Sleep>>>>,
    writable: Notify,
    /// Takes the completions of this lane as long as it lives.
    common: Rc<Common>,
}

/// What this end does with frames.
#[derive(Debug)]
pub(super) enum Duty {
    /// Both ways through the rings.
    Express,
    /// The parent of a bulk lane.
    Fill(Box<Filler>),
    /// The child of a bulk lane.
    Grant(Granter),
}

impl Duty {
    /// Whether something waits to be sent that nobody calls for.
    fn waits(&self) -> bool {
        match self {
            Duty::Express => false,
            Duty::Fill(filler) => filler.waits(),
            Duty::Grant(granter) => granter.waits(),
        }
    }

    /// How long until something has to be done though nothing has come.
    fn pause(&self) -> Option<Duration> {
        match self {
            Duty::Express | Duty::Fill(_) => None,
            Duty::Grant(granter) => granter.pause(),
        }
    }
}

/// Why the lane has ended, for everybody who asks.
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
        common.poller.add(name, &polled);
        lane.arm();
        Ok(lane)
    }

    /// Something of the group has come.
    pub(crate) fn something_came(&self) {
        self.arrived.set(true);
        self.wake_reader();
    }

    /// A child of this member asks to hear something of the group.
    pub(crate) fn ask_for_probe(&self) {
        if let Duty::Grant(granter) = &mut *self.duty.borrow_mut() {
            granter.ask_for_probe();
        }
        // Who reads sends it.
        self.something_came();
    }

    fn wake_reader(&self) {
        let reader = self.reader.borrow_mut().take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// As [`arm`](Self::arm), unless it is looked for completions anyway.
    fn rearm(&self) -> bool {
        !self.common.poller.is_looking() && self.arm()
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
            (Duty::Grant(granter), Event::Told { slot, len }) => {
                granter.on_told(&self.pipe, slot, len)
            }
            (Duty::Grant(granter), Event::Repaired { slot }) => {
                granter.on_repaired(&self.pipe, slot)
            }
            (Duty::Express | Duty::Fill(_), _) | (Duty::Grant(_), Event::Delivered(_)) => {
                Err(self.pipe.breach("a block on a lane that grants none"))
            }
        }
    }

    /// Works off the completions that are here, and what follows from them or from something
    /// else that has `changed`; whether somebody who waited can go on.
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

    /// Looks for what this lane's reader waits for, in its own task; whether it is here. While
    /// the other side looks as well, that is found in memory, which is a fraction of a look at
    /// the queue.
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
        // Who looks himself is not to be woken.
        if !self.looking.is_under_way() {
            self.wake_reader();
        }
    }

    /// Works off what was found, and does what follows from it.
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

    /// Whether who reads this lane may look for completions himself.
    fn is_looked_at(&self) -> bool {
        let is_read = match &*self.duty.borrow() {
            Duty::Express => true,
            // There is nothing to read.
            Duty::Fill(_) => false,
            Duty::Grant(granter) => granter.pause().is_none(),
        };
        is_read && self.common.poller.is_looking()
    }

    /// Waits until this lane's reader is woken, or has to do something though nothing came.
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
            // Grants are taken as they come, and nothing else goes up a bulk lane.
            Duty::Fill(_) => Ok(None),
            Duty::Grant(granter) => granter.take(&self.pipe, &self.common),
        };
        // A credit or a grant may now wait for room.
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

    /// Ends the lane, for this reason if it is the first.
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
        let device = self.common.device.name().to_owned();
        self.end(LaneError::DeviceGone { peer: self.pipe.peer, device });
    }

    fn notified(&self) {
        self.armed.set(None);
        self.progress();
    }

    /// Works off the completions that are here; whether somebody who waited can go on. That
    /// a request is complete is of interest only to who has no room for another.
    fn progress(&self) -> bool {
        self.work(false)
    }

    fn revisit(&self) {
        self.work(true);
    }

    /// Sees to it that a notification comes for what is waited for; whether there was
    /// something already. Own requests that are complete are of interest only to who has
    /// no room for more.
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
        // What came before does not count: all of it, as a message that is found in memory hides
        // completions that came with it. The last round finds none, and asks the queue.
        let mut any = false;
        while self.progress() {
            any = true;
        }
        any
    }

    fn is_stuck(&self) -> bool {
        let first = self.pipe.first_request().filter(|_| !self.has_ended.get());
        let Some((id, is_told)) = first else {
            self.seen.set(None);
            return false;
        };
        let before = self.seen.get().filter(|(before, _)| *before == id);
        // Of requests that no completion tells of alone it is not known: once is enough.
        let is_stuck = before.is_some_and(|(_, looked)| is_told || !looked);
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
                self.common.poller.expect_nobody();
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
            let look = self.common.poller.poll_look(&self.looking, context, || self.look());
            let has_come = ready!(look);
            if !has_come && !self.arrived.get() {
                // What does not come is asked for; else somebody else looks.
                ready!(self.poll_sleep(context));
            }
        }
    }

    fn stop_reading(&self) {
        self.common.poller.stop_looking(&self.looking);
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
