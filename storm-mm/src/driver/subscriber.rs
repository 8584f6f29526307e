//! A client attached to a job: its events in order, its output under flow
//! control.

use crate::api::{Reply, ReplySink, TrySendError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use storm_primitives::Bell;

/// Output held for one client before the job's nodes are ordered to hold its output back.
const HIGH_BYTES: usize = 4 << 20;
/// Output left when the job may continue.
const LOW_BYTES: usize = 1 << 20;

/// One attached client.
pub(super) struct Subscriber {
    sink: ReplySink,
    queue: RefCell<VecDeque<Reply>>,
    queued_bytes: Cell<usize>,
    behind: Cell<bool>,
    bell: Bell,
}

impl Subscriber {
    pub(super) fn new(sink: ReplySink) -> Subscriber {
        Subscriber {
            sink,
            queue: RefCell::default(),
            queued_bytes: Cell::new(0),
            behind: Cell::new(false),
            bell: Bell::default(),
        }
    }

    /// Whether the job's output must be held for it to catch up.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.get()
    }

    /// Queues an event or output.
    pub(super) fn push(&self, reply: Reply) {
        self.queued_bytes.set(self.queued_bytes.get() + bytes_of(&reply));
        if self.queued_bytes.get() >= HIGH_BYTES {
            self.behind.set(true);
        }
        self.queue.borrow_mut().push_back(reply);
        self.bell.ring();
    }

    /// Passes on the queue until the last event or until the client has disconnected; calls
    /// `caught_up` when the client is no longer behind.
    pub(super) async fn pass_on(&self, caught_up: impl Fn()) {
        loop {
            let Some(reply) = self.queue.borrow_mut().pop_front() else {
                if self.sink.is_closed() {
                    return;
                }
                let heard = std::pin::pin!(self.bell.heard());
                let closed = std::pin::pin!(self.sink.closed());
                futures_util::future::select(heard, closed).await;
                continue;
            };
            let bytes = bytes_of(&reply);
            let last = matches!(reply, Reply::Ended { .. });
            if self.deliver(reply).await.is_err() {
                return;
            }
            self.queued_bytes.set(self.queued_bytes.get() - bytes);
            if self.behind.get() && self.queued_bytes.get() < LOW_BYTES {
                self.behind.set(false);
                caught_up();
            }
            if last {
                return;
            }
        }
    }

    async fn deliver(&self, reply: Reply) -> Result<(), crate::api::Gone> {
        if !matches!(reply, Reply::Output { .. }) {
            return self.sink.send(reply);
        }
        let mut reply = reply;
        loop {
            match self.sink.try_send(reply) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Gone(_)) => return Err(crate::api::Gone),
                Err(TrySendError::Full(back)) => {
                    reply = back;
                    self.sink.room().await?;
                }
            }
        }
    }
}

fn bytes_of(reply: &Reply) -> usize {
    match reply {
        Reply::Output { data, .. } => data.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{JobState, reply_channel};
    use bytes::Bytes;
    use futures_util::FutureExt;
    use storm_rm::message::Stream;
    use storm_rm::{JobId, JobIncarnation, Rank};

    const JOB: JobId = JobId(1);

    fn output(len: usize) -> Reply {
        let data = Bytes::from(vec![b'x'; len]);
        let (run, rank, stream) = (JobIncarnation(1), Rank(0), Stream::Stdout);
        Reply::Output { job: JOB, run, rank, stream, offset: 0, data }
    }

    fn ended() -> Reply {
        let state = JobState::Completed;
        Reply::Ended { job: JOB, state, exit_code: 0, reason: None, breakdown: None }
    }

    #[test]
    fn a_client_that_reads_slowly_is_behind_until_it_has_caught_up() {
        let replies = reply_channel(LOW_BYTES / 4);
        let subscriber = Subscriber::new(replies.sink(1, true));
        let caught_up = Cell::new(0);
        for _ in 0..HIGH_BYTES / (LOW_BYTES / 4) {
            assert!(!subscriber.is_behind());
            subscriber.push(output(LOW_BYTES / 4));
        }
        assert!(subscriber.is_behind());
        subscriber.push(ended());
        let mut passing = Box::pin(subscriber.pass_on(|| caught_up.set(caught_up.get() + 1)));
        let mut passed = false;
        let mut read = 0;
        while let Some(reply) = {
            passed = passed || passing.as_mut().now_or_never().is_some();
            replies.next().now_or_never()
        } {
            read += bytes_of(&reply.unwrap().reply);
            assert!(subscriber.is_behind() || HIGH_BYTES - read < 2 * LOW_BYTES);
        }
        assert!(passed && !subscriber.is_behind());
        assert_eq!((read, caught_up.get()), (HIGH_BYTES, 1));
    }

    #[test]
    fn passing_on_ends_with_the_client_and_with_the_job() {
        let replies = reply_channel(1 << 20);
        let subscriber = Subscriber::new(replies.sink(1, true));
        let mut passing = Box::pin(subscriber.pass_on(|| ()));
        assert!(passing.as_mut().now_or_never().is_none());
        drop(replies);
        assert!(passing.as_mut().now_or_never().is_some());
        let replies = reply_channel(1 << 20);
        let subscriber = Subscriber::new(replies.sink(1, true));
        subscriber.push(ended());
        assert!(subscriber.pass_on(|| ()).now_or_never().is_some());
    }
}
