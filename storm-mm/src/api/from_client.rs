//! Messages that the API server passes from the clients to the manager's core.

use super::Call;

/// A request, or the news that a client has left.
#[derive(Debug)]
pub enum FromClient {
    /// A request.
    Call(Call),
    /// A client left. No request of it follows. It is reported once for each client that has asked
    /// for anything.
    Left {
        /// The client.
        client: ClientId,
        /// How it left.
        end: ClientEnd,
    },
}

/// A connection of a client. No two connections of a manager's life have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ClientId {
    /// The manager itself, which asks without a connection and never leaves.
    pub const MANAGER: ClientId = ClientId(0);
}

/// How a client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// It asks for nothing more. On this host its process may also have been killed. On another
    /// host it said so in an authenticated record, or its relay did for it.
    Meant,
    /// The connection broke, or the manager gave it up. The client may connect again.
    Broken,
}
