//! One connection in use. Outgoing frames are coalesced; a read may return many frames.
//!
//! Frames collect while a batch of input is processed. Then one call writes them, in the same turn
//! of the executor: no task wakes up unless the socket is full. While the socket is full, the
//! windows of the protocol bound the queue.

use crate::fabric::Carrier;
use crate::observer::{Direction, LinkKind, Observer};
use crate::stream::Stream;
use crate::wire::{DecodeError, Frame, FrameBuffer};
use bytes::Bytes;
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The pause between two long frames of one transfer is shorter than this.
const QUIET: Duration = Duration::from_secs(2);

/// A connection with a queue of frames. [`Link::flush`] writes them.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    /// Carries the frames instead of the stream. The stream then only reports the end of the
    /// connection.
    carrier: Option<Rc<dyn Carrier>>,
    kind: LinkKind,
    observer: Observer,
    out: RefCell<VecDeque<Bytes>>,
    /// The socket is full. The writer task continues when the socket has room.
    blocked: Cell<bool>,
    dirty: Cell<bool>,
    closed: Cell<bool>,
    /// Whether the other side has ended the stream on its own, without an error.
    ended: Cell<bool>,
    /// A frame that the other side should read before the end of the stream.
    last_word: RefCell<Option<Bytes>>,
    wake: Notify,
    /// Memory for long frames is freed when none has come for this long.
    quiet: Duration,
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.last_word.get_mut().is_some() {
            self.close();
        }
    }
}

impl Link {
    /// Takes over `stream`. `kind` is the kind of its frames.
    pub(crate) fn new(stream: Stream, kind: LinkKind, observer: Observer) -> Rc<Link> {
        Link::carried(stream, None, kind, observer)
    }

    /// Like [`new`](Self::new), for frames that `carrier` carries.
    pub(crate) fn carried(
        stream: Stream,
        carrier: Option<Rc<dyn Carrier>>,
        kind: LinkKind,
        observer: Observer,
    ) -> Rc<Link> {
        Rc::new(Link {
            stream,
            carrier,
            kind,
            observer,
            out: RefCell::default(),
            blocked: Cell::new(false),
            dirty: Cell::new(false),
            closed: Cell::new(false),
            ended: Cell::new(false),
            last_word: RefCell::default(),
            wake: Notify::new(),
            quiet: QUIET,
        })
    }

    /// From now on [`close`](Self::close) sends this frame before the end. If it cannot send the
    /// frame, it ends the link with an error.
    pub(crate) fn set_last_word(&self, frame: Option<Bytes>) {
        *self.last_word.borrow_mut() = frame;
    }

    /// Whether the other side ended the stream without an error, and before this side did.
    pub(crate) fn was_ended(&self) -> bool {
        self.ended.get()
    }

    /// Queues a frame. Returns true if the link needs a flush that was not scheduled yet.
    pub(crate) fn send(&self, frame: Bytes) -> bool {
        if self.closed.get() {
            return false;
        }
        self.observer.note(Direction::Send, self.kind, &frame);
        self.out.borrow_mut().push_back(frame);
        !self.dirty.replace(true)
    }

    /// Queues the payload of the frame whose header was just queued.
    pub(crate) fn send_payload(&self, payload: Bytes) {
        self.out.borrow_mut().push_back(payload);
    }

    /// Writes as much as the socket takes now.
    pub(crate) fn flush(&self) {
        self.dirty.set(false);
        if self.blocked.get() || self.closed.get() {
            return;
        }
        let result = self.write_some(&mut self.out.borrow_mut());
        match result {
            Ok(true) => {}
            Ok(false) => {
                self.blocked.set(true);
                self.wake.notify_one();
            }
            Err(_) => self.close(),
        }
    }

    /// Writes the rest when the socket has room again. Runs until the link closes.
    pub(crate) async fn write_rest(self: Rc<Self>) {
        while !self.closed.get() {
            if !self.blocked.get() {
                self.wake.notified().await;
                continue;
            }
            if self.writable().await.is_err() {
                return self.close();
            }
            self.blocked.set(false);
            self.flush();
        }
    }

    /// Bulk lane: writes the frames that `next` returns. Asks for another frame only when the
    /// socket has taken the previous one. Runs until the link closes.
    pub(crate) async fn write_from(
        self: Rc<Self>,
        mut next: impl FnMut() -> Option<(Bytes, Bytes)>,
    ) {
        let mut out = VecDeque::new();
        let mut blocked = false;
        while !self.closed.get() {
            if out.is_empty() && !blocked {
                let Some((head, payload)) = next() else {
                    self.wake.notified().await;
                    continue;
                };
                self.observer.note(Direction::Send, self.kind, &head);
                out.extend([head, payload]);
            }
            let result = self.write_some(&mut out);
            blocked = matches!(result, Ok(false));
            match result {
                // Lets other tasks run between two chunks.
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => {
                    if self.writable().await.is_err() {
                        return self.close();
                    }
                }
                Err(_) => return self.close(),
            }
        }
    }

    /// See [`Stream::unacknowledged_for`].
    pub(crate) fn unacknowledged_for(&self) -> Duration {
        self.stream.unacknowledged_for()
    }

    /// Wakes the writer of a bulk lane, which has something to write.
    pub(crate) fn poke(&self) {
        self.wake.notify_one();
    }

    /// The next batch of whole frames; `None` at the end of the stream.
    pub(crate) async fn read(
        &self,
        buffer: &mut FrameBuffer,
        kind: LinkKind,
    ) -> Result<Option<Vec<Frame>>, ReadError> {
        loop {
            let mut frames = Vec::new();
            while let Some(frame) = buffer.next_frame()? {
                self.observer.note(Direction::Receive, kind, &frame.raw);
                frames.push(frame);
            }
            if !frames.is_empty() {
                return Ok(Some(frames));
            }
            if self.closed.get() {
                return Ok(None);
            }
            let Some(carrier) = &self.carrier else {
                if self.fill(buffer).await? == 0 {
                    // The end of the stream means nothing if this side ended it first or a write
                    // failed.
                    self.ended.set(!self.closed.get());
                    return Ok(None);
                }
                continue;
            };
            match select(carrier.read(), pin!(self.stream.ended())).await {
                Either::Left((run, _)) => {
                    if let Some(frame) = buffer.take_run(run?)? {
                        self.observer.note(Direction::Receive, kind, &frame.raw);
                        return Ok(Some(vec![frame]));
                    }
                }
                Either::Right(_) => return Ok(None),
            }
        }
    }

    /// Reads the next bytes. If no bytes arrive for a while, frees the blocks kept for long frames:
    /// the next transfer may be hours away.
    async fn fill(&self, buffer: &mut FrameBuffer) -> io::Result<usize> {
        if buffer.has_blocks_ready() {
            match timeout(self.quiet, self.stream.read(buffer.spare())).await {
                Ok(read) => return read,
                Err(_) => buffer.let_go(),
            }
        }
        self.stream.read(buffer.spare()).await
    }

    /// Ends the link in both directions.
    pub(crate) fn close(&self) {
        if !self.closed.replace(true) {
            if self.last_word.take().is_none_or(|frame| self.say_last(frame)) {
                self.stream.shutdown();
            } else {
                self.stream.break_off();
            }
            self.carrier.iter().for_each(|carrier| carrier.shutdown());
            self.out.borrow_mut().clear();
            self.wake.notify_one();
        }
    }

    /// Writes `frame` as the last frame. Returns true if the socket has taken everything.
    fn say_last(&self, frame: Bytes) -> bool {
        let mut out = self.out.borrow_mut();
        out.push_back(frame);
        matches!(self.write_some(&mut out), Ok(true))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        match &self.carrier {
            None => self.stream.write_some(out),
            Some(carrier) => carrier.write_some(out),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.carrier {
            None => self.stream.writable().await,
            Some(carrier) => carrier.writable().await,
        }
    }
}

/// Why a link cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The peer sent a frame that no correct peer sends.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn memory_for_long_frames_goes_when_none_follow_and_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut sender = TcpStream::connect(address).await.expect("listening");
        let (accepted, _) = listener.accept().await.expect("connected");
        let stream = Stream::new(accepted).expect("a socket");
        let mut link = Link::new(stream, LinkKind::Down, Observer::default());
        Rc::get_mut(&mut link).expect("nobody else has it").quiet = Duration::from_millis(1);
        let mut buffer = FrameBuffer::new();
        buffer.admit();
        let frame = encode(&7_u64, &[1; 200 << 10]);
        for _ in 0..2 {
            sender.write_all(&frame).await.expect("it is read");
            let read = link.read(&mut buffer, LinkKind::Down).await.expect("own frames");
            assert_eq!(read.map(|frames| frames[0].raw.len()), Some(frame.len()));
            assert!(buffer.has_blocks_ready());
            // If both timers have expired, `timeout` polls the inner one first.
            let next =
                timeout(Duration::from_millis(10), link.read(&mut buffer, LinkKind::Down)).await;
            assert!(next.is_err(), "nothing was sent");
            assert!(!buffer.has_blocks_ready());
        }
    }
}
