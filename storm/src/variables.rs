//! The environment variables that name a cluster.

/// The variable that names a socket.
pub(crate) const SOCKET_VARIABLE: &str = "STORM_SOCKET";
/// The variable that names a manager on another host.
pub(crate) const MANAGER_VARIABLE: &str = "STORM_MANAGER";
/// The variable that names the file of the user's key for that manager.
pub(crate) const KEY_VARIABLE: &str = "STORM_CLIENT_KEY";
