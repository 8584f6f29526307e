//! TCP sockets as all connections of a cluster want them.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A peer that acknowledges nothing for this long is cut off even by a link
/// that nobody waits on.
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Connections that wait to be accepted: all children of a node and all nodes
/// of a cluster may come at once.
const BACKLOG: u32 = 4096;

/// Small messages leave at once, and a peer that is gone is noticed.
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
