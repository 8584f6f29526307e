//! Heartbeats: Algorithms 4 and 5, trivial uses of the remote queue.
//!
//! The master sends commands to its slaves only through heartbeats, and only at instants that it
//! chooses. Unlike in the paper, the master waits for the status of each heartbeat before it issues
//! the next. A heartbeat that met a dead node has reached no node and must be repeated to the
//! survivors. The order of commands must survive the repetition.

use crate::GlobalPlan;
use crate::message::{Command, Heartbeat};
use crate::remote_queue::{DequeueError, EnqueueError, Item, Reader, Sequence, Writer};
use serde::{Deserialize, Serialize};
use storm_primitives::{LocalEvent, NodeId, NodeRuns, NodeSet, PrimitiveError, Primitives};
use thiserror::Error;

/// Why a heartbeat was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeartbeatError {
    /// The heartbeat cannot be encoded, or is too large.
    #[error("the heartbeat does not fit")]
    Enqueue(#[from] EnqueueError),
    /// The heartbeat reached nobody.
    #[error("the heartbeat was not delivered")]
    NotDelivered(#[from] PrimitiveError),
    /// A message that cannot be encoded.
    #[error("the heartbeat cannot be encoded")]
    Encoding(#[from] postcard::Error),
}

/// Why a heartbeat could not be received.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReceiveHeartbeatError {
    /// The queue failed.
    #[error("no heartbeat can be received")]
    Dequeue(#[from] DequeueError),
    /// The bytes are no heartbeat of this version.
    #[error("a heartbeat is malformed")]
    Malformed(#[from] postcard::Error),
}

/// The encoded form of a heartbeat. A node decodes the commands for itself and skips the others,
/// since few of the launches of hundreds of jobs are for one node.
#[derive(Serialize, Deserialize)]
struct Encoded<'a, Nodes> {
    number: u64,
    issued_ns: u64,
    #[serde(borrow)]
    commands: Vec<(Nodes, &'a [u8])>,
}

/// Encodes a heartbeat.
///
/// # Errors
/// The heartbeat cannot be encoded at all.
pub fn encode(heartbeat: &Heartbeat) -> Result<Vec<u8>, postcard::Error> {
    let Heartbeat { number, issued_ns, commands } = heartbeat;
    let encoded = commands.iter().map(|(_, command)| postcard::to_stdvec(command));
    let encoded = encoded.collect::<Result<Vec<Vec<u8>>, postcard::Error>>()?;
    let nodes = commands.iter().map(|(nodes, _)| nodes);
    let commands = nodes.zip(encoded.iter().map(Vec::as_slice)).collect();
    postcard::to_stdvec(&Encoded { number: *number, issued_ns: *issued_ns, commands })
}

/// Decodes the part of a heartbeat that is for a node.
///
/// # Errors
/// The heartbeat, or a command for the node, is not one of this version.
pub fn decode_for(node: NodeId, bytes: &[u8]) -> Result<Heartbeat, postcard::Error> {
    let Encoded::<NodeRuns> { number, issued_ns, commands } = postcard::from_bytes(bytes)?;
    let own = commands.into_iter().filter(|(nodes, _)| nodes.contains(node));
    let decoded = own.map(|(nodes, command)| Ok((nodes.into(), postcard::from_bytes(command)?)));
    let commands = decoded.collect::<Result<Vec<(NodeSet, Command)>, postcard::Error>>()?;
    Ok(Heartbeat { number, issued_ns, commands })
}

/// The size of a heartbeat as it travels, in bytes.
///
/// # Errors
/// When it cannot be encoded at all.
pub fn encoded_bytes(heartbeat: &Heartbeat) -> Result<usize, postcard::Error> {
    encode(heartbeat).map(|bytes| bytes.len())
}

/// ISSUE-HEARTBEAT (Algorithm 4): delivers a heartbeat to every node of `set`,
/// or to none.
///
/// # Errors
/// [`HeartbeatError`]; then no surviving node has received it.
pub async fn issue_heartbeat<P: Primitives>(
    primitives: &P,
    queue: &mut Writer<P>,
    set: &NodeSet,
    heartbeat: &Heartbeat,
) -> Result<(), HeartbeatError> {
    let issued = begin_heartbeat(primitives, queue, set, heartbeat).await?;
    let sequence = issued.sequence();
    let status = issued.delivered(primitives).await;
    if status.is_err() {
        queue.forget(sequence);
    }
    Ok(status?)
}

/// A heartbeat that is on its way.
#[derive(Debug)]
pub struct IssuedHeartbeat {
    sequence: Sequence,
    delivered: LocalEvent,
}

impl IssuedHeartbeat {
    /// Its place in the queue, to be [forgotten](Writer::forget) when it was not delivered.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Waits until every node of its set has it.
    ///
    /// # Errors
    /// [`PrimitiveError`]; then no surviving node has received it.
    pub async fn delivered<P: Primitives>(self, primitives: &P) -> Result<(), PrimitiveError> {
        primitives.await_event(self.delivered.id()).await
    }
}

/// The first half of [`issue_heartbeat`]: returns before the delivery is known, so that other
/// heartbeats may follow at once. Only for heartbeats without commands: one that meets a dead
/// node is repeated, and its commands would arrive behind later ones.
///
/// # Errors
/// [`HeartbeatError`]; then the heartbeat was not sent.
pub async fn begin_heartbeat<P: Primitives>(
    primitives: &P,
    queue: &mut Writer<P>,
    set: &NodeSet,
    heartbeat: &Heartbeat,
) -> Result<IssuedHeartbeat, HeartbeatError> {
    let data = encode(heartbeat)?;
    let delivered = primitives.events().local();
    let sequence = queue.enqueue_and_signal(set, &data, Some(delivered.id())).await?;
    Ok(IssuedHeartbeat { sequence, delivered })
}

/// RECEIVE-HEARTBEAT (Algorithm 5): waits for the next heartbeat, and decodes the part of it that
/// is for this node. The caller acts on its commands and then releases the item.
///
/// # Errors
/// [`ReceiveHeartbeatError`].
pub async fn receive_heartbeat<P: Primitives>(
    queue: &mut Reader<P>,
) -> Result<(Heartbeat, Item), ReceiveHeartbeatError> {
    let item = queue.dequeue().await?;
    let heartbeat = decode_for(queue.node(), &item.data)?;
    Ok((heartbeat, item))
}

/// Notes on this node that a heartbeat was handled, for failure detection.
pub fn heartbeat_handled<P: Primitives>(primitives: &P, plan: &GlobalPlan, heartbeat: &Heartbeat) {
    primitives.memory().store(plan.heartbeat_seen, heartbeat.number);
}
