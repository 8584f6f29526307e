//! Large transfers. Their data first reaches all destinations, a bounded amount at a time. Only
//! then is a transfer placed in the order.
//!
//! A transfer from the root to members on its own host needs only a short message, which refers to
//! the sender's memory, for any length of data. It is placed as soon as there is room for it.

use super::queue::Progress;
use super::{Output, RequestError, Sequencer};
use crate::wire::{Chunk, Primitive, RequestId, StageId};
use bytes::Bytes;
use storm_primitives::{Instant, NodeId, NodeSet};

/// A large transfer that has begun and is not complete everywhere.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) initiator: NodeId,
    pub(super) request: RequestId,
    pub(super) dest: NodeSet,
    total: u64,
    /// The bytes that the root has from the initiator.
    received: u64,
    since: Instant,
    held_by_all: bool,
    /// The transfer has its place in the order: nothing can undo it.
    pub(super) committed: bool,
}

impl Stage {
    /// Whether the root has had all of the data since before `limit` while a destination still
    /// lacks some.
    pub(super) fn is_waiting_since(&self, limit: Instant) -> bool {
        !self.held_by_all && self.received == self.total && self.since < limit
    }
}

impl Sequencer {
    /// Begins the transfers that have room, in order of arrival.
    pub(super) fn start_stages(&mut self) {
        while let Some((node, request)) = self.stage_queue.front().copied() {
            let Some(queued) = self.queues.find_mut(node, request) else {
                self.stage_queue.pop_front();
                continue;
            };
            let Primitive::Xfer { dest, len, .. } = &queued.request.primitive else { return };
            let (dest, total) = (dest.clone(), *len);
            let staged: u64 = self.stages.values().map(|stage| stage.total).sum();
            let used = staged + self.lent_bytes;
            if used > 0 && used.saturating_add(total) > self.limits.stage_window_bytes {
                return;
            }
            self.stage_queue.pop_front();
            if let Some(error) = self.dead_of(&dest) {
                self.set_progress(node, request, Progress::Failed(error));
                continue;
            }
            if node == NodeId::MM && self.is_lent(total) {
                self.lent_bytes += total;
                self.set_progress(node, request, Progress::Lent);
                continue;
            }
            self.start_stage(node, request, dest, total);
        }
    }

    /// Whether a transfer of `bytes` from the root travels by reference all the way, in one piece.
    fn is_lent(&self, bytes: u64) -> bool {
        let all_here = self.elsewhere.is_empty() && self.refusing.is_empty();
        all_here && bytes <= u64::from(self.limits.chunk_bytes)
    }

    fn start_stage(&mut self, node: NodeId, request: RequestId, dest: NodeSet, total: u64) {
        let id = self.next_stage;
        self.next_stage = StageId(id.0 + 1);
        let stage = Stage {
            initiator: node,
            request,
            dest,
            total,
            received: 0,
            since: self.now,
            held_by_all: false,
            committed: false,
        };
        self.stages.insert(id, stage);
        let data = match self.queues.find_mut(node, request) {
            Some(queued) => {
                queued.progress = Progress::Staging(id);
                std::mem::take(&mut queued.data)
            }
            None => Bytes::new(),
        };
        if node == NodeId::MM {
            self.feed(id, &data);
        } else {
            self.output.push_back(Output::Grant { to: node, request });
        }
    }

    /// Takes data of a transfer of `from` that was granted.
    ///
    /// # Errors
    /// [`RequestError::WrongLength`] if the data does not fit the rest of the transfer.
    pub fn data(
        &mut self,
        from: NodeId,
        request: RequestId,
        offset: u64,
        payload: &Bytes,
    ) -> Result<(), RequestError> {
        let found = self.stages.iter().find(|(_, s)| s.initiator == from && s.request == request);
        // The transfer was dropped in the meantime: late data does no harm.
        let Some((id, stage)) = found else { return Ok(()) };
        let len = payload.len() as u64;
        if stage.received != offset || len > stage.total - stage.received || len == 0 {
            return Err(RequestError::WrongLength { request, len });
        }
        self.feed(*id, payload);
        Ok(())
    }

    /// Sends the data of a transfer that the root holds down the tree.
    fn feed(&mut self, id: StageId, data: &Bytes) {
        let Some(stage) = self.stages.get_mut(&id) else { return };
        let step = self.limits.chunk_bytes.max(1) as usize;
        for start in (0..data.len()).step_by(step) {
            let payload = data.slice(start..(start + step).min(data.len()));
            let (dest, total, offset) = (stage.dest.clone(), stage.total, stage.received);
            stage.received += payload.len() as u64;
            let chunk = Chunk { epoch: self.epoch, stage: id, dest, total, offset, shared: None };
            self.output.push_back(Output::Chunk(chunk, payload));
        }
        stage.since = self.now;
    }

    /// All destinations hold the transfer.
    pub fn staged(&mut self, id: StageId) {
        let Some(stage) = self.stages.get_mut(&id) else { return };
        stage.held_by_all = true;
        let (node, request) = (stage.initiator, stage.request);
        if !stage.committed {
            self.set_progress(node, request, Progress::Staged(id));
            self.advance();
        }
    }

    pub(super) fn set_progress(&mut self, node: NodeId, request: RequestId, to: Progress) {
        if let Some(queued) = self.queues.find_mut(node, request) {
            queued.progress = to;
        }
    }
}
