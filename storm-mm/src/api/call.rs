//! One request on its way to the manager's core.

use super::{ClientId, ManagerRequest, ReplySink};
use serde::{Deserialize, Serialize};

/// A request, its client, and the sink for its replies. Dropping the sink without a final reply
/// sends the client the error that the core failed.
#[derive(Debug)]
pub struct Call {
    /// The user of the client.
    pub peer: Peer,
    /// The client's connection.
    pub client: ClientId,
    /// The request.
    pub request: ManagerRequest,
    /// The sink for the replies.
    pub replies: ReplySink,
}

/// The client at the other end. It is a process that the kernel vouches for, or a user on another
/// host that has proved to hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Effective user id when it connected; that of the key's user in the manager's user
    /// database.
    pub uid: u32,
    /// Effective group id; the user's primary group.
    pub gid: u32,
    /// Process id; 0 when it lies outside of our pid namespace or on another host.
    pub pid: i32,
    /// A login host vouches for the user. The peer is then no administrator, even if the user is
    /// one.
    #[serde(default)]
    pub by_door: bool,
}
