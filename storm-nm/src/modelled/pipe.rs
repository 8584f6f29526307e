//! A modelled pipe: a bounded buffer with a writer and a reader that wait.

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use storm_primitives::Bell;

/// The capacity of a Linux pipe.
const CAPACITY_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Pipe {
    buffer: RefCell<VecDeque<u8>>,
    closed: Cell<bool>,
    /// Number of bytes written since the last reset.
    pub(super) written_bytes: Cell<u64>,
    pub(super) changed: Bell,
}

impl Pipe {
    /// Writes all data, and waits for room. The data are lost if the pipe is closed.
    pub(super) async fn write(&self, mut data: Bytes) {
        while !data.is_empty() {
            let room = || {
                let free = CAPACITY_BYTES - self.buffer.borrow().len();
                (free > 0 || self.closed.get()).then_some(free)
            };
            let free = self.changed.until(room).await;
            if self.closed.get() {
                return;
            }
            let piece = data.split_to(free.min(data.len()));
            self.written_bytes.set(self.written_bytes.get() + piece.len() as u64);
            self.buffer.borrow_mut().extend(piece);
            self.changed.ring();
        }
    }

    /// The available data, at most `limit` bytes; `None` if the pipe is empty and closed.
    pub(super) async fn read(&self, limit: usize) -> Option<Bytes> {
        let ready = || {
            let data = self.take(limit);
            match (data.is_empty(), self.closed.get()) {
                (true, true) => Some(None),
                (true, false) => None,
                (false, _) => Some(Some(data)),
            }
        };
        let data = self.changed.until(ready).await;
        self.changed.ring();
        data
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.ring();
    }

    fn take(&self, limit: usize) -> Bytes {
        let mut buffer = self.buffer.borrow_mut();
        let len = limit.min(buffer.len());
        buffer.drain(..len).collect()
    }
}
