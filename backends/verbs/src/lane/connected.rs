//! A connected lane: takes completions as they come, and wakes who reads and who writes.

use super::blocks::{Filler, Granter};
use super::pipe::{Event, Pipe};
use crate::error::LaneError;
use crate::fabric::Common;
use crate::guard::CompletionQueue;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use storm_backend_tcp::fabric::Carrier;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// A lane in use.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Before `duty`: whose blocks nobody writes to when it is gone.
    pipe: Pipe,
    duty: RefCell<Duty>,
    ended: RefCell<Option<Arc<LaneError>>>,
    device: String,
    readable: Notify,
    writable: Notify,
    driver: RefCell<Option<AbortHandle>>,
}

/// What this end does with frames.
#[derive(Debug)]
pub(super) enum Duty {
    /// Both ways through the rings.
    Express,
    /// The parent of a bulk lane.
    Fill(Filler),
    /// The child of a bulk lane.
    Grant(Granter),
}

/// Why the lane has ended, for everybody who asks.
#[derive(Clone, Debug)]
struct Ended(Arc<LaneError>);

impl Lane {
    pub(super) fn start(
        common: &Rc<Common>,
        pipe: Pipe,
        queue: Arc<CompletionQueue>,
        duty: Duty,
    ) -> Result<Rc<Lane>, LaneError> {
        let queue = queue.watch()?;
        let lane = Rc::new(Lane {
            pipe,
            duty: RefCell::new(duty),
            ended: RefCell::default(),
            device: common.device.name().to_owned(),
            readable: Notify::new(),
            writable: Notify::new(),
            driver: RefCell::default(),
        });
        if let Duty::Grant(granter) = &mut *lane.duty.borrow_mut() {
            granter.send_grants(&lane.pipe)?;
        }
        let driver = drive(Rc::downgrade(&lane), queue, common.config.spin);
        *lane.driver.borrow_mut() = Some(tokio::task::spawn_local(driver).abort_handle());
        Ok(lane)
    }

    /// The device is gone, and so is what goes through it.
    pub(crate) fn device_gone(&self) {
        let device = self.device.clone();
        self.end(LaneError::DeviceGone { peer: self.pipe.peer, device });
    }

    /// Works off the completions that are here; whether there were any.
    fn progress(&self) -> bool {
        if self.ended.borrow().is_some() {
            return false;
        }
        let result = self.pipe.poll(|event| self.on_event(event)).and_then(|any| {
            match &mut *self.duty.borrow_mut() {
                Duty::Express => {}
                Duty::Fill(filler) => filler.take_grants(&self.pipe)?,
                Duty::Grant(granter) => granter.send_grants(&self.pipe)?,
            }
            Ok(any)
        });
        let any = result.unwrap_or_else(|error| {
            self.end(error);
            true
        });
        if any {
            self.readable.notify_one();
            self.writable.notify_one();
        }
        any
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
            (Duty::Express | Duty::Fill(_), Event::Filled { .. })
            | (Duty::Express | Duty::Grant(_), Event::Delivered(_)) => {
                Err(self.pipe.breach("a block on a lane that grants none"))
            }
        }
    }

    /// The next bytes, if there are any.
    fn next(&self) -> io::Result<Option<Bytes>> {
        self.check()?;
        let result = match &mut *self.duty.borrow_mut() {
            Duty::Express => self.pipe.take(),
            // Grants are taken as they come, and nothing else goes up a bulk lane.
            Duty::Fill(_) => Ok(None),
            Duty::Grant(granter) => granter.take(&self.pipe),
        };
        result.map_err(|error| self.end(error).into())
    }

    fn can_write(&self) -> io::Result<bool> {
        self.check()?;
        Ok(match &*self.duty.borrow() {
            Duty::Express | Duty::Grant(_) => self.pipe.has_room(),
            Duty::Fill(filler) => filler.is_ready(&self.pipe),
        })
    }

    fn check(&self) -> io::Result<()> {
        match &*self.ended.borrow() {
            None => Ok(()),
            Some(error) => Err(Ended(error.clone()).into()),
        }
    }

    /// Ends the lane, for this reason if it is the first.
    fn end(&self, error: LaneError) -> Ended {
        let first = self.ended.borrow().clone();
        if let Some(first) = first {
            return Ended(first);
        }
        let error = Arc::new(error);
        *self.ended.borrow_mut() = Some(error.clone());
        self.pipe.stop();
        match &*error {
            LaneError::Closed { .. } => {}
            error => tracing::warn!(peer = %self.pipe.peer, %error, "a lane has ended"),
        }
        self.readable.notify_one();
        self.writable.notify_one();
        Ended(error)
    }
}

/// Takes completions as they come for as long as there is a lane.
async fn drive(lane: Weak<Lane>, queue: AsyncFd<Arc<CompletionQueue>>, spin: Duration) {
    loop {
        // What came before it was armed is only seen by looking once more.
        if let Err(error) = queue.get_ref().arm() {
            if let Some(lane) = lane.upgrade() {
                lane.end(error.into());
            }
            return;
        }
        let mut quiet_since = Instant::now();
        loop {
            let Some(lane) = lane.upgrade() else { return };
            let any = lane.progress();
            if lane.ended.borrow().is_some() {
                return;
            }
            drop(lane);
            if any {
                quiet_since = Instant::now();
            }
            if spin.is_zero() || quiet_since.elapsed() >= spin {
                break;
            }
            tokio::task::yield_now().await;
        }
        let Ok(mut guard) = queue.readable().await else { return };
        match queue.get_ref().take_notification() {
            // There is at most one for each time that it was armed.
            Ok(()) => guard.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
            Err(error) => {
                tracing::warn!(%error, "a completion channel cannot be read");
                if let Some(lane) = lane.upgrade() {
                    lane.device_gone();
                }
                return;
            }
        }
    }
}

impl Carrier for Lane {
    fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        self.check()?;
        let result = match &mut *self.duty.borrow_mut() {
            Duty::Express | Duty::Grant(_) => self.pipe.put(out),
            Duty::Fill(filler) => filler.put(&self.pipe, out),
        };
        result.map_err(|error| self.end(error).into())
    }

    fn writable(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            while !self.can_write()? {
                self.writable.notified().await;
            }
            Ok(())
        })
    }

    fn read(&self) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async {
            loop {
                if let Some(bytes) = self.next()? {
                    return Ok(bytes);
                }
                self.readable.notified().await;
            }
        })
    }

    fn shutdown(&self) {
        self.end(LaneError::Closed { peer: self.pipe.peer });
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.get_mut().take() {
            driver.abort();
        }
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
