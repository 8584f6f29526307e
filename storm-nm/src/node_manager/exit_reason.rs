//! Why a node manager ends.

use storm_primitives::NodeId;
use storm_rm::heartbeat::ReceiveHeartbeatError;
use storm_rm::remote_queue::{DequeueError, EnqueueError};
use thiserror::Error;

/// Why a node manager ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExitReason {
    /// The Machine Manager ordered it.
    #[error("the cluster was shut down")]
    Shutdown,
    /// The cluster is lost to this node, or this node to the cluster.
    #[error("this node is cut off from the cluster")]
    Disconnected,
    /// Reports cannot be delivered.
    #[error("reports cannot be delivered")]
    Unreachable(#[from] EnqueueError),
    /// Heartbeats cannot be decoded.
    #[error("no heartbeat can be received")]
    Heartbeat(#[from] ReceiveHeartbeatError),
    /// The node can run no processes any more.
    #[error("this node can run no process any more")]
    HostLost,
    /// The plan of global memory has no queue for this node.
    #[error("the cluster's plan of memory has no place for this node")]
    NoPlace {
        /// The node.
        node: NodeId,
    },
    /// The Machine Manager has no use for this node.
    #[error(
        "the Machine Manager refuses this node: it offers {offered} PEs, {configured} are configured"
    )]
    TooFewPes {
        /// The number of processing elements that it offers.
        offered: u32,
        /// The number in the manager's configuration.
        configured: u32,
    },
    /// A signal on the host requested the end.
    #[error("asked to end")]
    AskedToEnd,
}

impl ExitReason {
    /// Whether only the link to the Machine Manager was lost.
    pub(super) fn is_lost_link(&self) -> bool {
        match self {
            ExitReason::Disconnected
            | ExitReason::Unreachable(EnqueueError::Network(_))
            | ExitReason::Heartbeat(ReceiveHeartbeatError::Dequeue(DequeueError::Network(_))) => {
                true
            }
            ExitReason::Shutdown
            | ExitReason::Unreachable(EnqueueError::TooLarge { .. })
            | ExitReason::Heartbeat(_)
            | ExitReason::HostLost
            | ExitReason::NoPlace { .. }
            | ExitReason::TooFewPes { .. }
            | ExitReason::AskedToEnd => false,
        }
    }
}
