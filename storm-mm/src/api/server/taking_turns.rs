//! When a client's next request is read: not while it, or all together, leave too much
//! unread, and those whose answers are long a few at a time.

use super::ServerLimits;
use crate::api::reply_sink::reply_channel_among;
use crate::api::unread::Unread;
use crate::api::{ManagerRequest, ReplyStream};
use std::future::poll_fn;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Long answers that the core owes at a time: while the journal stands still it keeps them. One
/// takes it some milliseconds.
const LONG_AT_A_TIME: usize = 16;

/// Jobs named in a request from which on its answer is long.
const MANY_JOBS: usize = 64;

/// What all connections of a server share.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    unread: Arc<Unread>,
    long: Arc<Semaphore>,
}

impl Turns {
    pub(super) fn new(limits: &ServerLimits) -> Turns {
        Turns {
            unread: Arc::new(Unread::new(limits.unread_bytes)),
            long: Arc::new(Semaphore::new(LONG_AT_A_TIME)),
        }
    }

    /// Where the replies to one client wait.
    pub(super) fn reply_channel(&self, limits: &ServerLimits) -> ReplyStream {
        reply_channel_among(limits.outgoing_bytes, &self.unread)
    }

    /// Waits until the next request of a client may be read.
    pub(super) async fn may_read(&self, replies: &ReplyStream, limits: &ServerLimits) {
        let outgoing = &replies.outgoing;
        poll_fn(|context| outgoing.poll_may_ask(context, limits.pending_requests)).await;
        if !outgoing.is_read() {
            self.room(replies, limits).await;
        }
    }

    /// Waits until it is the turn of a request whose answer is long. `None` when the client is
    /// gone meanwhile, or the server ends.
    pub(super) async fn may_ask_long(
        &self,
        replies: &ReplyStream,
        limits: &ServerLimits,
    ) -> Option<OwnedSemaphorePermit> {
        poll_fn(|context| replies.outgoing.poll_may_ask_long(context)).await;
        let turn = Arc::clone(&self.long).acquire_owned().await.ok();
        self.room(replies, limits).await;
        turn
    }

    /// Waits until less is unread than may be. Who has taken nothing for longest gives way.
    async fn room(&self, replies: &ReplyStream, limits: &ServerLimits) {
        while self.unread.is_crowded() && !replies.outgoing.is_closed(false) {
            let stalest = self.unread.stalest();
            if timeout(limits.crowded_timeout, self.unread.relieved()).await.is_err() {
                self.unread.drop_stale(stalest);
            }
        }
    }
}

/// Whether the answer may take far more than a line.
pub(super) fn is_long(request: &ManagerRequest) -> bool {
    match request {
        ManagerRequest::Jobs(_)
        | ManagerRequest::History(_)
        | ManagerRequest::Wait { .. }
        | ManagerRequest::Reservations
        | ManagerRequest::Show { .. }
        | ManagerRequest::Nodes
        | ManagerRequest::Priority { .. }
        | ManagerRequest::Shares => true,
        ManagerRequest::Cancel { jobs, .. }
        | ManagerRequest::Hold { jobs }
        | ManagerRequest::Release { jobs } => jobs.len() > MANY_JOBS,
        ManagerRequest::Submit { .. }
        | ManagerRequest::Attach { .. }
        | ManagerRequest::Input { .. }
        | ManagerRequest::Reserve(_)
        | ManagerRequest::Unreserve { .. }
        | ManagerRequest::Explain { .. }
        | ManagerRequest::SetPartition { .. }
        | ManagerRequest::Partitions
        | ManagerRequest::Status
        | ManagerRequest::Drain { .. }
        | ManagerRequest::Resume { .. }
        | ManagerRequest::Shutdown => false,
    }
}
