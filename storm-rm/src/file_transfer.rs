//! File transfer: Algorithms 6 and 7.
//!
//! The master multicasts a file in chunks through a channel (a remote queue of a few slots). While
//! one chunk travels, the next is read and the one before is written. Nodes that already have the
//! content are left out. At the end, the master checks with COMPARE-AND-WRITE whether all have
//! written the file.

use crate::message::ReceiveFile;
use crate::poll::{Backoff, await_condition};
use crate::remote_queue::{DequeueError, EnqueueError, Reader, Writer};
use crate::{Channel, ContentSum, Generation, GlobalPlan};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::time::Duration;
use storm_primitives::{
    CompareAndWrite, LocalEvent, NodeSet, PrimitiveError, Primitives, Relation, Runtime, Var,
};
use thiserror::Error;

/// Most chunks that are sent and not yet delivered: enough to fill a tree
/// (`docs/decisions/0002-remote-queue.md`). The master's next operation waits behind them in the
/// network. There may be more slots than this number, for nodes that write later than others.
const MOST_ON_THE_WAY: usize = 8;

/// Where the master reads a file, in order.
pub trait ChunkSource {
    /// The next bytes of the file, exactly `len` of them.
    fn read(&mut self, len: usize) -> impl Future<Output = io::Result<Bytes>>;

    /// The checksum of the whole content, if the sender has verified the content's hash. A
    /// receiver then checks only the checksum.
    fn sum(&self) -> Option<ContentSum> {
        None
    }
}

/// Where a slave writes a file, in order.
pub trait ChunkSink {
    /// Writes the next bytes of the file: chunks that arrived together, in order.
    fn write(&mut self, chunks: Vec<Bytes>) -> impl Future<Output = io::Result<()>>;

    /// All bytes are written: checks the content and makes the file visible.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>>;
}

/// A node's progress with the file of a channel. A larger state is a later one, so that one
/// comparison shows whether all nodes have reached a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// The content is missing, and chunks may arrive.
    Ready = 1,
    /// The content is there, checked and visible.
    Written = 2,
    /// The file will never be there; the node reports the reason.
    Failed = 3,
}

/// States per generation, so that every state of a later use of a channel is larger than all states
/// of an earlier use.
const STATES: u64 = 4;

impl FileState {
    fn word(self, generation: Generation) -> u64 {
        // No cluster runs long enough for a generation to overflow, so wrapping is harmless.
        generation.0.wrapping_mul(STATES).wrapping_add(self as u64)
    }
}

/// The times of a transfer (paper, section 4.4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTimes {
    /// Waiting for the source of the file.
    pub read: Duration,
    /// From the first chunk issued to the last chunk delivered, without the reads that were not
    /// overlapped.
    pub send: Duration,
    /// From the last chunk delivered to the file written everywhere.
    pub write: Duration,
    /// The nodes that lacked the content.
    pub sent_to: NodeSet,
}

/// Why a file is not on all nodes.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The master cannot read it.
    #[error("the file cannot be read")]
    Source(#[source] io::Error),
    /// A chunk could not be sent.
    #[error("a chunk could not be sent")]
    Enqueue(#[from] EnqueueError),
    /// The network failed, or a node died.
    #[error("the transfer was interrupted")]
    Network(#[from] PrimitiveError),
    /// Nodes could not write it; their reports give the reason.
    #[error("{nodes} could not write the file")]
    NotWritten {
        /// The nodes.
        nodes: NodeSet,
    },
    /// There is no such channel in the plan.
    #[error("there is no channel {0:?}")]
    NoSuchChannel(Channel),
}

/// TRANSFER-FILE (Algorithm 6). The heartbeat with the announcement `info` must have been issued to
/// `set`. Returns when every node of the set has the file.
///
/// # Errors
/// A [`TransferError`]; some nodes may then have the file.
pub async fn transfer_file<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    set: &NodeSet,
    info: &ReceiveFile,
    source: &mut impl ChunkSource,
) -> Result<TransferTimes, TransferError> {
    let no_channel = || TransferError::NoSuchChannel(info.channel);
    let state = plan.file_state(info.channel).ok_or_else(no_channel)?;
    let queue = plan.chunks(info.channel).ok_or_else(no_channel)?;
    let part_of_wait = plan.config.part_of_wait;
    let ask = Inquiry { primitives, state, generation: info.generation, part_of_wait };

    if ask.all_have(set).await? {
        return Ok(TransferTimes::default());
    }
    ask.all_reach(set, FileState::Ready).await?;
    let sent_to = ask.nodes_not_in(set, FileState::Written).await?;
    if sent_to.is_empty() {
        return Ok(TransferTimes::default());
    }
    ask.none_failed(&sent_to).await?;
    let mut sender = ChunkSender {
        primitives,
        queue: Writer::new(primitives.clone(), queue),
        most_on_the_way: MOST_ON_THE_WAY.min(queue.slots() as usize),
        on_the_way: VecDeque::new(),
    };
    let mut times = sender.send_all(&sent_to, info, source).await?;
    let delivered = primitives.runtime().now();
    ask.all_reach(&sent_to, FileState::Written).await?;
    ask.none_failed(&sent_to).await?;
    times.write = primitives.runtime().now() - delivered;
    times.sent_to = sent_to;
    Ok(times)
}

struct ChunkSender<'a, P> {
    primitives: &'a P,
    queue: Writer<P>,
    most_on_the_way: usize,
    on_the_way: VecDeque<LocalEvent>,
}

impl<P: Primitives> ChunkSender<'_, P> {
    /// The buffered loop of Algorithm 6: reads a chunk while earlier chunks are on their way, at
    /// most as many as there are slots.
    async fn send_all(
        &mut self,
        set: &NodeSet,
        info: &ReceiveFile,
        source: &mut impl ChunkSource,
    ) -> Result<TransferTimes, TransferError> {
        let runtime = self.primitives.runtime().clone();
        let started = runtime.now();
        let mut read = Duration::ZERO;
        let mut left = info.file.size_bytes;
        while left > 0 {
            // With chunks of no bytes the loop would never end.
            let len = left.min(u64::from(info.chunk_bytes.max(1)));
            let asked = runtime.now();
            let chunk = source.read(len as usize).await.map_err(TransferError::Source)?;
            if chunk.len() as u64 != len {
                // The receivers count bytes, so they would wait for the rest for ever.
                return Err(TransferError::Source(io::ErrorKind::UnexpectedEof.into()));
            }
            read += runtime.now() - asked;
            if self.on_the_way.len() == self.most_on_the_way {
                self.await_oldest().await?;
            }
            let sent = self.primitives.events().local();
            self.queue.enqueue_and_signal(set, &chunk, Some(sent.id())).await?;
            self.on_the_way.push_back(sent);
            left -= len;
        }
        while !self.on_the_way.is_empty() {
            self.await_oldest().await?;
        }
        let total = runtime.now() - started;
        Ok(TransferTimes { read, send: total.saturating_sub(read), ..TransferTimes::default() })
    }

    /// TEST-EVENT, blocking, on the oldest chunk that was sent.
    async fn await_oldest(&mut self) -> Result<(), PrimitiveError> {
        match self.on_the_way.pop_front() {
            Some(sent) => self.primitives.await_event(sent.id()).await,
            None => Ok(()),
        }
    }
}

/// Questions about the state of a file on a set of nodes.
struct Inquiry<'a, P> {
    primitives: &'a P,
    state: Var<u64>,
    generation: Generation,
    part_of_wait: Option<u32>,
}

impl<P: Primitives> Inquiry<'_, P> {
    fn question(&self, set: &NodeSet, relation: Relation, state: FileState) -> CompareAndWrite {
        CompareAndWrite::new(set.clone(), self.state, relation, state.word(self.generation))
    }

    async fn holds(
        &self,
        set: &NodeSet,
        relation: Relation,
        state: FileState,
    ) -> Result<bool, PrimitiveError> {
        self.primitives.compare_and_write(self.question(set, relation, state)).await
    }

    async fn all_reach(&self, set: &NodeSet, state: FileState) -> Result<(), PrimitiveError> {
        let question = self.question(set, Relation::GreaterOrEqual, state);
        await_condition(self.primitives, &question, Backoff::patient(self.part_of_wait)).await
    }

    /// Whether all nodes have the file already. Usually all have it or none has, so the node that
    /// most likely answers last is polled first. All nodes are polled only if that node has the
    /// file.
    async fn all_have(&self, set: &NodeSet) -> Result<bool, PrimitiveError> {
        let Some(last) = set.iter().last().map(NodeSet::single) else { return Ok(true) };
        self.all_reach(&last, FileState::Ready).await?;
        let it_has = self.holds(&last, Relation::Equal, FileState::Written).await?;
        Ok(it_has && (last == *set || self.holds(set, Relation::Equal, FileState::Written).await?))
    }

    async fn none_failed(&self, set: &NodeSet) -> Result<(), TransferError> {
        if self.holds(set, Relation::NotEqual, FileState::Failed).await? {
            return Ok(());
        }
        let sound = self.nodes_not_in(set, FileState::Failed).await?;
        Err(TransferError::NotWritten { nodes: set.difference(&sound) })
    }

    /// The nodes that are not in `state`, by bisection: two questions if all nodes agree.
    async fn nodes_not_in(
        &self,
        set: &NodeSet,
        state: FileState,
    ) -> Result<NodeSet, PrimitiveError> {
        let mut found = NodeSet::new();
        let mut parts = vec![set.clone()];
        while let Some(part) = parts.pop() {
            if self.holds(&part, Relation::Equal, state).await? {
                continue;
            }
            if part.len() == 1 || self.holds(&part, Relation::NotEqual, state).await? {
                found = found.union(&part);
                continue;
            }
            let (low, high) = part.halves();
            parts.extend([low, high]);
        }
        Ok(found)
    }
}

/// Why a node did not receive a file.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The queue of chunks failed.
    #[error("the transfer was interrupted")]
    Dequeue(#[from] DequeueError),
    /// The chunks do not add up to the announced length.
    #[error("{got_bytes} bytes came of a file of {announced_bytes}")]
    WrongLength {
        /// Bytes received.
        got_bytes: u64,
        /// Bytes announced.
        announced_bytes: u64,
    },
    /// The file could not be written, or its content is not what was announced.
    #[error("the file cannot be written")]
    Sink(#[source] io::Error),
    /// There is no such channel in the plan.
    #[error("there is no channel {0:?}")]
    NoSuchChannel(Channel),
}

/// A node's preparation for RECEIVE-FILE: empties the channel and reports to the master that chunks
/// may be sent.
///
/// # Errors
/// [`ReceiveError::NoSuchChannel`].
pub fn prepare_channel<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    info: &ReceiveFile,
) -> Result<Reader<P>, ReceiveError> {
    let queue = plan.chunks(info.channel).ok_or(ReceiveError::NoSuchChannel(info.channel))?;
    let reader = Reader::reset(primitives.clone(), queue);
    set_state(primitives, plan, info, FileState::Ready);
    Ok(reader)
}

/// Reports to the master that the content is there.
pub fn mark_present<P: Primitives>(primitives: &P, plan: &GlobalPlan, info: &ReceiveFile) {
    set_state(primitives, plan, info, FileState::Written);
}

/// Reports to the master that the file will not be there.
pub fn mark_failed<P: Primitives>(primitives: &P, plan: &GlobalPlan, info: &ReceiveFile) {
    set_state(primitives, plan, info, FileState::Failed);
}

fn set_state<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    info: &ReceiveFile,
    state: FileState,
) {
    if let Some(var) = plan.file_state(info.channel) {
        primitives.memory().store(var, state.word(info.generation));
    }
}

/// RECEIVE-FILE (Algorithm 7): dequeues the chunks into `sink`. A slot is released only after its
/// chunk is written. Chunks that have already arrived are written together, but at most half of the
/// slots, so that the master fills the others meanwhile. When the sink fails, the remaining chunks
/// are still taken, so that the other nodes are not held up. The caller marks the outcome with
/// [`mark_present`] or [`mark_failed`].
///
/// # Errors
/// The first [`ReceiveError`] that occurred.
pub async fn receive_file<P: Primitives>(
    queue: &mut Reader<P>,
    info: &ReceiveFile,
    sink: &mut impl ChunkSink,
) -> Result<(), ReceiveError> {
    let mut failed = None;
    let mut got_bytes = 0;
    while got_bytes < info.file.size_bytes {
        let mut item = queue.dequeue().await?;
        let mut chunks = Vec::with_capacity(queue.half());
        loop {
            if item.data.is_empty() {
                return Err(ReceiveError::WrongLength {
                    got_bytes,
                    announced_bytes: info.file.size_bytes,
                });
            }
            got_bytes += item.data.len() as u64;
            chunks.push(std::mem::take(&mut item.data));
            if chunks.len() == queue.half() || got_bytes >= info.file.size_bytes {
                break;
            }
            match queue.try_dequeue()? {
                Some(next) => item = next,
                None => break,
            }
        }
        if failed.is_none() {
            failed = sink.write(chunks).await.err();
        }
        // Releasing the last item releases all items before it.
        queue.release(item);
    }
    if got_bytes > info.file.size_bytes {
        let announced_bytes = info.file.size_bytes;
        return Err(ReceiveError::WrongLength { got_bytes, announced_bytes });
    }
    match failed {
        Some(error) => Err(ReceiveError::Sink(error)),
        None => sink.finish().await.map_err(ReceiveError::Sink),
    }
}
