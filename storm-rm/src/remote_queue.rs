//! Remote queues with global flow control: Algorithms 1 to 3.
//!
//! A master multicasts items into a ring of slots in the global memory of its slaves. It
//! never overwrites a slot that a slave has not released.
//!
//! Differences from the paper's text (`docs/decisions/0002-remote-queue.md`):
//! - Algorithm 1 loops while there *is* space; this one loops while there is none.
//! - Algorithm 3 releases a slot before its content is read. Here a slave takes an item
//!   ([`Reader::dequeue`]), uses it, and then releases it ([`Reader::release`]).
//! - All operations have one order, so a question travels behind the items sent before it. If the
//!   master sent a question only when no space is left, the pipeline would run empty each time.
//!   Therefore its questions about older items are sent while newer items are under way.
//! - Items may go to different subsets of the slaves. Each item carries its sequence number, and a
//!   slave releases the items sent to it in order. Before the master reuses a slot, it polls the
//!   set that held the slot's last item.

use crate::poll::{Backoff, await_condition};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use storm_primitives::{
    CompareAndWrite, EventId, GlobalAddr, LayoutBuilder, NodeId, NodeSet, PrimitiveError,
    Primitives, Region, Relation, Var, Xfer,
};
use thiserror::Error;

/// The number of questions that a master sends ahead of need in each round of its slots. Each is
/// about the items that have had that part of a round to be released.
const QUESTIONS_PER_ROUND: u32 = 4;

/// Bytes before an item: its sequence number and its length.
const HEADER_BYTES: u64 = 16;

/// Where a queue lies in global memory.
#[derive(Clone, Debug)]
pub struct QueuePlan {
    slots: u32,
    slot_bytes: u32,
    region: Region,
    /// One more than the last item that a slave released.
    dequeued: Var<u64>,
    event: EventId,
}

impl QueuePlan {
    /// Declares a queue of `slots` items of at most `slot_bytes` bytes.
    pub fn declare(
        builder: &mut LayoutBuilder,
        name: &str,
        slots: u32,
        slot_bytes: u32,
    ) -> QueuePlan {
        let stride = u64::from(slot_bytes).next_multiple_of(8) + HEADER_BYTES;
        QueuePlan {
            slots,
            slot_bytes,
            region: builder.region(&format!("{name}.slots"), stride * u64::from(slots)),
            dequeued: builder.var(&format!("{name}.dequeued")),
            event: builder.event(&format!("{name}.new")),
        }
    }

    /// Largest item in bytes.
    pub fn item_bytes(&self) -> u32 {
        self.slot_bytes
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Items between two questions that are sent ahead.
    fn questions_apart(&self) -> u64 {
        u64::from(self.slots / QUESTIONS_PER_ROUND).max(1)
    }

    fn slot_addr(&self, sequence: Sequence) -> GlobalAddr {
        self.region.addr.offset(sequence.0 % u64::from(self.slots) * self.stride())
    }

    /// Bytes from one slot to the next.
    fn stride(&self) -> u64 {
        self.region.len / u64::from(self.slots)
    }
}

/// Counts the items of a queue, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// Why an item could not be queued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EnqueueError {
    /// The item does not fit a slot.
    #[error("{bytes} bytes do not fit an item of {limit}")]
    TooLarge {
        /// Size of the item.
        bytes: usize,
        /// Largest size.
        limit: u32,
    },
    /// The network failed to answer whether there is space.
    #[error("cannot tell whether the queue has space")]
    Network(#[from] PrimitiveError),
}

/// Why no item could be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DequeueError {
    /// The event of the queue reported a failure, or does not exist any more.
    #[error("cannot wait for an item")]
    Network(#[from] PrimitiveError),
    /// A slot holds a length that it cannot hold.
    #[error("item {sequence:?} claims {len} bytes of a slot of {limit}")]
    Corrupt {
        /// The item.
        sequence: Sequence,
        /// The length claimed.
        len: u64,
        /// Bytes of a slot.
        limit: u32,
    },
}

/// The master's end of a queue.
#[derive(Debug)]
pub struct Writer<P> {
    primitives: P,
    plan: QueuePlan,
    next: Sequence,
    /// The sets of the items that may not have been released, the oldest first;
    /// the last one is of item `next - 1`.
    outstanding: VecDeque<NodeSet>,
    /// The questions that were sent ahead of need, the oldest first.
    asked: VecDeque<Asked>,
}

/// A question that is under way: have all items before this one been released?
struct Asked {
    before: Sequence,
    answer: LocalBoxFuture<'static, Result<bool, PrimitiveError>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("before", &self.before).finish_non_exhaustive()
    }
}

impl<P: Primitives> Writer<P> {
    /// The master's end of a queue whose slaves have seen no item yet.
    pub fn new(primitives: P, plan: &QueuePlan) -> Writer<P> {
        Writer {
            primitives,
            plan: plan.clone(),
            next: Sequence(0),
            outstanding: VecDeque::new(),
            asked: VecDeque::new(),
        }
    }

    /// ENQUEUE (Algorithm 2): waits for space, then multicasts `data` to `set`
    /// and signals the queue's event there. Returns when the transfer is issued;
    /// its status is signalled on `local_event`. A failed transfer has reached
    /// nobody.
    ///
    /// # Errors
    /// [`EnqueueError`]; then nothing was sent.
    pub async fn enqueue_and_signal(
        &mut self,
        set: &NodeSet,
        data: &[u8],
        local_event: Option<EventId>,
    ) -> Result<Sequence, EnqueueError> {
        if data.len() > self.plan.slot_bytes as usize {
            return Err(EnqueueError::TooLarge { bytes: data.len(), limit: self.plan.slot_bytes });
        }
        self.await_space().await?;
        let sequence = self.next;
        let mut item = BytesMut::with_capacity(HEADER_BYTES as usize + data.len());
        item.put_u64_ne(sequence.0 + 1);
        item.put_u64_ne(data.len() as u64);
        item.put_slice(data);
        self.primitives.xfer_and_signal(Xfer {
            dest: set.clone(),
            addr: self.plan.slot_addr(sequence),
            data: item.freeze(),
            remote_event: Some(self.plan.event),
            local_event,
        });
        self.next.0 += 1;
        self.outstanding.push_back(set.clone());
        self.ask_ahead();
        Ok(sequence)
    }

    /// ENQUEUE for a master that does not need the status (as in Algorithms 4
    /// and 9: "no need to wait for completion").
    ///
    /// # Errors
    /// [`EnqueueError`]; then nothing was sent.
    pub async fn enqueue(&mut self, set: &NodeSet, data: Bytes) -> Result<Sequence, EnqueueError> {
        self.enqueue_and_signal(set, &data, None).await
    }

    /// Waits until [`enqueue_and_signal`](Self::enqueue_and_signal) has a free slot. The caller may
    /// drop the future to report [deaths](Self::nodes_died): a node that died and has rejoined
    /// never releases the items of its last incarnation.
    ///
    /// # Errors
    /// [`EnqueueError::Network`].
    pub async fn space(&mut self) -> Result<(), EnqueueError> {
        Ok(self.await_space().await?)
    }

    /// The transfer of `sequence` failed: it reached nobody, so nobody will
    /// release it.
    pub fn forget(&mut self, sequence: Sequence) {
        if let Some(index) = sequence.0.checked_sub(self.oldest().0)
            && let Some(set) = self.outstanding.get_mut(index as usize)
        {
            *set = NodeSet::new();
        }
    }

    /// Nodes died: the items that they held are released. Call it before the nodes can rejoin,
    /// since their next incarnations do not have the items of the last incarnations.
    pub fn nodes_died(&mut self, dead: &NodeSet) {
        self.released_by_death(dead, self.next);
    }

    /// Counts the items before `before` as released by the dead nodes.
    fn released_by_death(&mut self, dead: &NodeSet, before: Sequence) {
        let count = before.0.saturating_sub(self.oldest().0) as usize;
        for set in self.outstanding.iter_mut().take(count) {
            *set = set.difference(dead);
        }
    }

    /// The oldest item that may not have been released.
    fn oldest(&self) -> Sequence {
        Sequence(self.next.0 - self.outstanding.len() as u64)
    }

    /// Puts the next question while there still is space, behind an item that was just sent; takes
    /// the answers that have arrived.
    fn ask_ahead(&mut self) {
        while let Some(mut asked) = self.asked.pop_front() {
            match (&mut asked.answer).now_or_never() {
                // A failed question is repeated, and reported, when the space is needed.
                Some(answer) => drop(self.answered(asked.before, answer)),
                None => {
                    self.asked.push_front(asked);
                    break;
                }
            }
        }
        let fresh = self.plan.questions_apart();
        if !self.next.0.is_multiple_of(fresh) {
            return;
        }
        let ripe = self.outstanding.len().saturating_sub(fresh as usize);
        if let Some((before, question)) = self.question_about(ripe) {
            let mut answer = self.primitives.compare_and_write(question).boxed_local();
            // The first poll gives the question its place in the order.
            match (&mut answer).now_or_never() {
                None => self.asked.push_back(Asked { before, answer }),
                Some(at_once) => drop(self.answered(before, at_once)),
            }
        }
    }

    /// AWAIT-SPACE (Algorithm 1): returns when a slot is free on all nodes that
    /// last used it. Dead nodes use nothing.
    async fn await_space(&mut self) -> Result<(), PrimitiveError> {
        while self.outstanding.len() >= self.plan.slots as usize {
            if let Some(asked) = self.asked.front_mut() {
                let (before, answer) = (asked.before, asked.answer.as_mut().await);
                self.asked.pop_front();
                self.answered(before, answer)?;
                continue;
            }
            // The slaves are behind: half of the slots at once saves questions.
            let half = self.outstanding.len().div_ceil(2);
            let about = self.question_about(half).or_else(|| self.question_about(1));
            let Some((before, question)) = about else { return Ok(()) };
            let released = await_condition(&self.primitives, &question, Backoff::default()).await;
            self.answered(before, released.map(|()| true))?;
        }
        Ok(())
    }

    /// The paper's question, `enqueued - length < dequeued` on every node, about the oldest `count`
    /// items, all of which precede the sequence number. One comparison can only be about items that
    /// all nodes of its set had.
    fn question_about(&self, count: usize) -> Option<(Sequence, CompareAndWrite)> {
        let set = self.outstanding.get(count.checked_sub(1)?)?;
        if !self.outstanding.range(..count).all(|older| older.is_subset(set)) {
            return None;
        }
        let before = Sequence(self.oldest().0 + count as u64);
        let relation = Relation::GreaterOrEqual;
        let question = CompareAndWrite::new(set.clone(), self.plan.dequeued, relation, before.0);
        Some((before, question))
    }

    /// Takes the answer to the question whether all items before `before` were released. An error
    /// that names dead nodes releases the items of their last incarnations; items from `before` on
    /// may be for the next incarnations.
    fn answered(
        &mut self,
        before: Sequence,
        answer: Result<bool, PrimitiveError>,
    ) -> Result<(), PrimitiveError> {
        match answer {
            Err(PrimitiveError::NodesDead { nodes }) => self.released_by_death(&nodes, before),
            Err(error) => return Err(error),
            Ok(false) => {}
            Ok(true) => {
                let count = before.0.saturating_sub(self.oldest().0) as usize;
                self.outstanding.drain(..count.min(self.outstanding.len()));
            }
        }
        Ok(())
    }
}

/// The slave's end of a queue.
#[derive(Debug)]
pub struct Reader<P> {
    primitives: P,
    plan: QueuePlan,
    next: Sequence,
    /// The first item whose slot may still be in use here.
    held: Sequence,
}

/// An item of a queue; its slot is the reader's until it is released.
#[derive(Debug)]
pub struct Item {
    /// Its place in the queue.
    pub sequence: Sequence,
    /// Its content.
    pub data: Bytes,
}

impl<P: Primitives> Reader<P> {
    /// The slave's end of a queue from which nothing was taken yet.
    pub fn new(primitives: P, plan: &QueuePlan) -> Reader<P> {
        Reader { primitives, plan: plan.clone(), next: Sequence(0), held: Sequence(0) }
    }

    /// The node of this end.
    pub fn node(&self) -> NodeId {
        self.primitives.node()
    }

    /// Empties this node's copy of the queue, for a new master that starts at
    /// item 0. The old master must have stopped.
    pub fn reset(primitives: P, plan: &QueuePlan) -> Reader<P> {
        let memory = primitives.memory();
        for slot in 0..u64::from(plan.slots) {
            // The plan's own addresses lie in the memory made for it.
            let _ = memory.store_word(plan.slot_addr(Sequence(slot)), 0);
        }
        memory.store(plan.dequeued, 0);
        while primitives.test_event(plan.event).is_some() {}
        Reader::new(primitives, plan)
    }

    /// DEQUEUE (Algorithm 3), first half: waits for the next item and takes it.
    /// The slot stays the item's until [`release`](Self::release).
    ///
    /// # Errors
    /// [`DequeueError`] when the network fails or the slot makes no sense.
    pub async fn dequeue(&mut self) -> Result<Item, DequeueError> {
        loop {
            self.primitives.await_event(self.plan.event).await?;
            if let Some(item) = self.take_next()? {
                return Ok(item);
            }
        }
    }

    /// [`dequeue`](Self::dequeue) for a queue of which every item is for this node: takes the item
    /// after the last one, and no other. An item with another number is a former master's, which
    /// was under way when that master died. The present master counts from 0.
    ///
    /// # Errors
    /// The errors of [`dequeue`](Self::dequeue).
    pub async fn dequeue_in_turn(&mut self) -> Result<Item, DequeueError> {
        loop {
            self.primitives.await_event(self.plan.event).await?;
            if self.find_next() == Some(self.next)
                && let Some(item) = self.take_next()?
            {
                return Ok(item);
            }
        }
    }

    /// [`dequeue`](Self::dequeue) of an item that has arrived already: TEST-EVENT that does not
    /// block.
    ///
    /// # Errors
    /// The errors of [`dequeue`](Self::dequeue).
    pub fn try_dequeue(&mut self) -> Result<Option<Item>, DequeueError> {
        while let Some(signalled) = self.primitives.test_event(self.plan.event) {
            signalled?;
            if let Some(item) = self.take_next()? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn take_next(&mut self) -> Result<Option<Item>, DequeueError> {
        let Some(sequence) = self.find_next() else { return Ok(None) };
        self.next = Sequence(sequence.0 + 1);
        self.read(sequence).map(Some)
    }

    /// Items that can be taken together while the master still has slots to fill.
    pub(crate) fn half(&self) -> usize {
        (self.plan.slots / 2).max(1) as usize
    }

    /// DEQUEUE (Algorithm 3), second half: the slot may be overwritten. Items
    /// are released in the order in which they were taken.
    pub fn release(&mut self, item: Item) {
        let memory = self.primitives.memory();
        let after = item.sequence.0 + 1;
        // Each slot once: items further back were overwritten.
        for number in self.held.0.max(after.saturating_sub(u64::from(self.plan.slots)))..after {
            let slot = self.plan.slot_addr(Sequence(number));
            // If that item was not for this node, the slot may hold a later one already.
            if memory.load_word(slot) == Ok(number + 1) {
                // The plan's own addresses lie in the memory made for it.
                let _ = memory.discard(slot, self.plan.stride());
            }
        }
        self.held = Sequence(after);
        memory.store(self.plan.dequeued, after);
    }

    /// The earliest item not taken yet: items in between were not for this node.
    fn find_next(&self) -> Option<Sequence> {
        let memory = self.primitives.memory();
        let slots = u64::from(self.plan.slots);
        (0..slots)
            .filter_map(|slot| {
                let word = memory.load_word(self.plan.slot_addr(Sequence(slot))).ok()?;
                // An item that claims another slot's number is none.
                word.checked_sub(1).filter(|number| number % slots == slot)
            })
            .map(Sequence)
            .filter(|sequence| *sequence >= self.next)
            .min()
    }

    fn read(&self, sequence: Sequence) -> Result<Item, DequeueError> {
        let memory = self.primitives.memory();
        let slot = self.plan.slot_addr(sequence);
        let len = memory.load_word(slot.offset(8)).map_err(PrimitiveError::from)?;
        if len > u64::from(self.plan.slot_bytes) {
            return Err(DequeueError::Corrupt { sequence, len, limit: self.plan.slot_bytes });
        }
        let data = memory
            .read_bytes(slot.offset(HEADER_BYTES), len as usize)
            .map_err(PrimitiveError::from)?;
        Ok(Item { sequence, data })
    }
}
