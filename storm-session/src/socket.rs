//! Options of all TCP sockets of a cluster.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A peer that acknowledges nothing for this long is cut off, even if no task waits for the link.
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Most connections that wait to be accepted: all children of a node and all nodes of a cluster may
/// connect at once.
const BACKLOG: u32 = 4096;

/// Makes small messages leave at once, and detects a peer that is gone.
///
/// # Errors
/// The system refuses.
pub fn configure(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(USER_TIMEOUT))
}

/// Listens at `addr`.
///
/// # Errors
/// The address is not this host's, or in use.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}
