//! Heartbeats: Algorithms 4 and 5, trivial uses of the remote queue.
//!
//! The master talks to its slaves only through heartbeats, and only at the
//! instants that it chooses. Unlike the paper's, the master learns the status of
//! each heartbeat before it issues the next one: a heartbeat that met a dead node
//! has reached nobody and must be repeated to the survivors, and the order of
//! commands must survive that.

use crate::GlobalPlan;
use crate::message::Heartbeat;
use crate::remote_queue::{DequeueError, EnqueueError, Item, Reader, Writer};
use storm_primitives::{NodeSet, PrimitiveError, Primitives};
use thiserror::Error;

/// Why a heartbeat was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeartbeatError {
    /// It cannot be encoded, or is too large.
    #[error("the heartbeat does not fit")]
    Enqueue(#[from] EnqueueError),
    /// It reached nobody.
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
    /// It is not a heartbeat of this version.
    #[error("a heartbeat is malformed")]
    Malformed(#[from] postcard::Error),
}

/// The size of a heartbeat as it travels, in bytes.
///
/// # Errors
/// When it cannot be encoded at all.
pub fn encoded_bytes(heartbeat: &Heartbeat) -> Result<usize, postcard::Error> {
    postcard::to_stdvec(heartbeat).map(|bytes| bytes.len())
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
    let data = postcard::to_stdvec(heartbeat)?;
    let delivered = primitives.events().local();
    let sequence = queue.enqueue_and_signal(set, &data, Some(delivered.id())).await?;
    let status = primitives.await_event(delivered.id()).await;
    if status.is_err() {
        queue.forget(sequence);
    }
    Ok(status?)
}

/// RECEIVE-HEARTBEAT (Algorithm 5): waits for the next heartbeat. The caller
/// acts on its commands and then releases the item.
///
/// # Errors
/// [`ReceiveHeartbeatError`].
pub async fn receive_heartbeat<P: Primitives>(
    queue: &mut Reader<P>,
) -> Result<(Heartbeat, Item), ReceiveHeartbeatError> {
    let item = queue.dequeue().await?;
    let heartbeat = postcard::from_bytes(&item.data)?;
    Ok((heartbeat, item))
}

/// Notes on this node that a heartbeat was handled, for failure detection.
pub fn heartbeat_handled<P: Primitives>(primitives: &P, plan: &GlobalPlan, heartbeat: &Heartbeat) {
    primitives.memory().store(plan.heartbeat_seen, heartbeat.number);
}
