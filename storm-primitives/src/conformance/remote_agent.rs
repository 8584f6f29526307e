//! The suite's end of a stream to an agent in another process: matches
//! responses with requests. Does no I/O.

use super::wire::{Decoder, Request, Response, WireError, encode};
use super::{Command, NodeGone, Reply};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// An agent at the far end of a stream. Clones share the stream.
///
/// The owner of the stream sends the bytes of [`request`](Self::request) and passes the bytes it
/// reads to [`received`](Self::received). It reports the end of the stream by
/// [`closed`](Self::closed).
#[derive(Clone, Default)]
pub struct RemoteAgent {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    closed: bool,
    decoder: Decoder,
    calls: HashMap<u64, Call>,
}

#[derive(Default)]
struct Call {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl RemoteAgent {
    /// The end of a fresh stream.
    pub fn new() -> RemoteAgent {
        RemoteAgent::default()
    }

    /// The bytes to send for `command`, and the id with which to wait for its reply.
    ///
    /// # Errors
    /// [`WireError`] if the command is too long for the stream.
    pub fn request(&self, command: Command) -> Result<(u64, Vec<u8>), WireError> {
        let mut inner = self.inner.borrow_mut();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.calls.insert(id, Call::default());
        Ok((id, encode(&Request { id, command })?))
    }

    /// The reply to the request `id`.
    ///
    /// # Errors
    /// [`NodeGone`] if the stream ended before the reply arrived.
    pub async fn reply(&self, id: u64) -> Result<Reply, NodeGone> {
        std::future::poll_fn(|cx| {
            let mut inner = self.inner.borrow_mut();
            let closed = inner.closed;
            let Some(call) = inner.calls.get_mut(&id) else { return Poll::Ready(Err(NodeGone)) };
            if call.reply.is_none() && !closed {
                call.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let reply = call.reply.take();
            inner.calls.remove(&id);
            Poll::Ready(reply.ok_or(NodeGone))
        })
        .await
    }

    /// Takes bytes from the agent.
    ///
    /// # Errors
    /// [`WireError`] if they do not follow the protocol.
    pub fn received(&self, bytes: &[u8]) -> Result<(), WireError> {
        let mut wakers = Vec::new();
        let mut inner = self.inner.borrow_mut();
        inner.decoder.push(bytes);
        while let Some(Response { id, reply }) = inner.decoder.pop()? {
            // A call that was dropped has no entry, or no poller: ignore its reply.
            if let Some(call) = inner.calls.get_mut(&id) {
                call.reply = Some(reply);
                wakers.extend(call.waker.take());
            }
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Fails all waiting calls with [`NodeGone`], because the stream has ended.
    pub fn closed(&self) {
        let wakers: Vec<Waker> = {
            let mut inner = self.inner.borrow_mut();
            inner.closed = true;
            inner.calls.values_mut().filter_map(|call| call.waker.take()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteAgent").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Epoch;
    use futures_util::FutureExt;

    #[test]
    fn replies_find_their_requests_and_the_end_of_the_stream_the_rest() {
        let agent = RemoteAgent::new();
        let (first, _) = agent.request(Command::Membership).expect("short");
        let (second, _) = agent.request(Command::Membership).expect("short");
        let reply = Reply::Members { epoch: Epoch(3), alive: Default::default() };
        let frame = encode(&Response { id: second, reply: reply.clone() }).expect("short");
        assert_eq!(agent.reply(second).now_or_never(), None);
        agent.received(&frame).expect("well formed");
        assert_eq!(agent.reply(second).now_or_never(), Some(Ok(reply)));
        assert_eq!(agent.reply(first).now_or_never(), None);
        agent.closed();
        assert_eq!(agent.reply(first).now_or_never(), Some(Err(NodeGone)));
    }
}
