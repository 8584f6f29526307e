//! One request on its way to the manager's core.

use super::{ManagerRequest, ReplySink};
use serde::{Deserialize, Serialize};

/// A request, who made it, and where the answer goes. Dropping the sink
/// unanswered tells the client that the core failed.
#[derive(Debug)]
pub struct Call {
    /// Who asks.
    pub peer: Peer,
    /// What.
    pub request: ManagerRequest,
    /// Where the replies go.
    pub replies: ReplySink,
}

/// The process at the other end of the socket, as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Effective user id when it connected.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id; 0 when it lies outside of our pid namespace.
    pub pid: i32,
}
