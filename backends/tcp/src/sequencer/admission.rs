//! Admission: when an operation gets its place in the order.

use super::conflict::OpenCompare;
use super::queue::Progress;
use super::{RequestError, Sequencer};
use crate::wire::{Operation, Primitive, Request};
use bytes::Bytes;
use storm_primitives::{GlobalAddr, NodeId, OutOfBounds, PrimitiveError};

/// Length of a variable in bytes.
const WORD_BYTES: u64 = 8;

/// Whether the head of a queue was placed.
enum Turn {
    Moved,
    Blocked,
    WindowFull,
}

/// Checks an operation against the layout. Both sides check: the initiator must know the result at
/// once, and the root trusts no node.
pub(crate) fn check(primitive: &Primitive, size: u64, events: u32) -> Result<(), PrimitiveError> {
    let in_bounds = |addr: GlobalAddr, len: u64| match addr.0.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(PrimitiveError::from(OutOfBounds { addr, len, size })),
    };
    let word = |addr: GlobalAddr| {
        if !addr.0.is_multiple_of(WORD_BYTES) {
            return Err(PrimitiveError::Misaligned { addr });
        }
        in_bounds(addr, WORD_BYTES)
    };
    match primitive {
        Primitive::Xfer { addr, len, event, .. } => {
            in_bounds(*addr, *len)?;
            match *event {
                Some(event) if event.0 >= events => Err(PrimitiveError::UnknownEvent { event }),
                _ => Ok(()),
            }
        }
        Primitive::Compare(caw) => {
            word(caw.var)?;
            caw.write.map_or(Ok(()), |(addr, _)| word(addr))
        }
    }
}

impl Sequencer {
    pub(super) fn enqueue(
        &mut self,
        from: NodeId,
        request: Request,
        data: Bytes,
    ) -> Result<(), RequestError> {
        let id = request.id;
        if !self.queues.in_order(from, id) {
            return Err(RequestError::OutOfOrder { request: id });
        }
        let window = self.limits.request_window as usize;
        let unanswered = self.queues.len(from) + self.answers.held_for(from);
        if from != NodeId::MM && unanswered >= window {
            return Err(RequestError::WindowExceeded);
        }
        let inline = u64::from(self.limits.inline_limit_bytes);
        let expected = match &request.primitive {
            Primitive::Xfer { len, .. } if from == NodeId::MM || *len <= inline => *len,
            Primitive::Xfer { .. } | Primitive::Compare(_) => 0,
        };
        if data.len() as u64 != expected {
            return Err(RequestError::WrongLength { request: id, len: data.len() as u64 });
        }
        let checked = check(&request.primitive, self.layout.size(), self.layout.events());
        let progress = match (checked, &request.primitive) {
            (Err(error), _) => Progress::Failed(error),
            (Ok(()), Primitive::Xfer { len, dest, .. }) if *len > inline && !dest.is_empty() => {
                self.stage_queue.push_back((from, id));
                Progress::AwaitingRoom
            }
            (Ok(()), _) => Progress::Ready,
        };
        self.queues.push(from, request, data, progress);
        Ok(())
    }

    /// Places all operations that may be placed now.
    pub(super) fn advance(&mut self) {
        self.serve_all();
        while std::mem::take(&mut self.room_made) {
            self.start_stages();
            self.serve_all();
        }
        for to in self.answers.take_free(&self.queues) {
            self.finish(Some(to), Ok(true));
        }
    }

    fn serve_all(&mut self) {
        let mut from = 0;
        let mut blocked: Vec<Primitive> = Vec::new();
        while let Some((arrival, node)) = self.queues.head_from(from) {
            from = arrival + 1;
            match self.serve(node, &blocked) {
                // The next request of this queue is now its head, and arrived later.
                Turn::Moved => {}
                Turn::Blocked => {
                    if let Some(head) = self.queues.head(node) {
                        blocked.push(head.request.primitive.clone());
                    }
                }
                Turn::WindowFull => return,
            }
        }
    }

    /// Serves the head of one queue. `earlier` are waiting requests that arrived before the head.
    /// The head must not pass a request that would then have to wait for it, again and again.
    fn serve(&mut self, node: NodeId, earlier: &[Primitive]) -> Turn {
        let Some(head) = self.queues.head(node) else { return Turn::Moved };
        let origin = Some((node, head.request.id));
        match &head.progress {
            Progress::AwaitingRoom | Progress::Staging(_) | Progress::Comparing => {
                return Turn::Blocked;
            }
            Progress::Failed(error) => {
                let error = error.clone();
                self.queues.pop(node);
                self.finish(origin, Err(error));
                return Turn::Moved;
            }
            Progress::Ready | Progress::Staged(_) | Progress::Lent => {}
        }
        let primitive = &head.request.primitive;
        if primitive.set().is_empty() {
            self.queues.pop(node);
            self.finish(origin, Ok(true));
            return Turn::Moved;
        }
        if let Some(error) = self.dead_of(primitive.set()) {
            if let (Primitive::Xfer { len, .. }, Progress::Lent) = (primitive, &head.progress) {
                self.lent_bytes -= *len;
                self.room_made = true;
            }
            self.queues.pop(node);
            self.finish(origin, Err(error));
            return Turn::Moved;
        }
        if self.pending.len() >= self.limits.operation_window as usize {
            return Turn::WindowFull;
        }
        if self.must_wait(primitive, earlier) {
            return Turn::Blocked;
        }
        self.place(node);
        Turn::Moved
    }

    fn must_wait(&self, primitive: &Primitive, earlier: &[Primitive]) -> bool {
        let own = match primitive {
            Primitive::Compare(caw) => OpenCompare::of(caw),
            Primitive::Xfer { .. } => None,
        };
        self.open.values().any(|open| open.conflicts_with(primitive))
            || own.is_some_and(|own| earlier.iter().any(|other| own.conflicts_with(other)))
    }

    /// Gives the head of the queue of `node` its place.
    fn place(&mut self, node: NodeId) {
        let Some(head) = self.queues.head_mut(node) else { return };
        let origin = Some((node, head.request.id));
        if let Primitive::Compare(caw) = &head.request.primitive
            && let Some(open) = OpenCompare::of(caw)
        {
            // The operation stays at the head until its comparison is known, and the requests
            // behind it wait.
            head.progress = Progress::Comparing;
            let (set, compare) = (caw.set.clone(), Self::compare_of(caw));
            let seq = self.sequence(set, compare, Bytes::new(), origin);
            self.open.insert(seq, open);
            return;
        }
        let Some(queued) = self.queues.pop(node) else { return };
        match (queued.request.primitive, queued.progress) {
            (Primitive::Xfer { dest, addr, event, .. }, Progress::Staged(stage)) => {
                if let Some(stage) = self.stages.get_mut(&stage) {
                    stage.committed = true;
                }
                let commit = Operation::Commit { stage, addr, event };
                self.sequence(dest, commit, Bytes::new(), origin);
            }
            (Primitive::Xfer { dest, addr, event, .. }, _) => {
                self.sequence(dest, Operation::Put { addr, event }, queued.data, origin);
            }
            (Primitive::Compare(caw), _) => {
                let compare = Self::compare_of(&caw);
                self.sequence(caw.set, compare, Bytes::new(), origin);
            }
        }
    }
}
