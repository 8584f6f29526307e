//! The byte stream under every link. All sockets are opened, accepted and
//! configured here: an authenticated session has this one place to go.

use bytes::{Bytes, BytesMut};
use nix::libc;
use socket2::{SockRef, TcpKeepalive};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A peer that acknowledges nothing for this long is cut off even by a link
/// that nobody waits on: the root's pings find it out much sooner.
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Slices given to one write: more gain nothing.
const MAX_SLICES: usize = 32;
/// Connections that wait to be accepted: all children of a node and all nodes
/// of a cluster may come at once.
const BACKLOG: u32 = 4096;

/// One connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcp: TcpStream,
}

impl Stream {
    /// Opens a connection to `addr`.
    pub(crate) async fn connect(addr: SocketAddr) -> io::Result<Stream> {
        Stream::new(TcpStream::connect(addr).await?)
    }

    /// Takes over an accepted connection.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<Stream> {
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(&tcp);
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(USER_TIMEOUT))?;
        Ok(Stream { tcp })
    }

    /// Listens at `addr`.
    pub(crate) fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
        let socket = match addr {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Waits until something can be read, and reads it into the spare room of
    /// `into`; 0 at the end of the stream.
    pub(crate) async fn read(&self, into: &mut BytesMut) -> io::Result<usize> {
        loop {
            self.tcp.readable().await?;
            match self.tcp.try_read_buf(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    /// Writes from the front of `out` what fits now; whether all of it did.
    pub(crate) fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        while !out.is_empty() {
            let written = {
                let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                let count = out.len().min(MAX_SLICES);
                for (slice, bytes) in slices.iter_mut().zip(out.iter()) {
                    *slice = IoSlice::new(bytes);
                }
                match self.tcp.try_write_vectored(&slices[..count]) {
                    Ok(written) => written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            };
            consume(out, written);
        }
        Ok(true)
    }

    /// Waits until something can be written.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.tcp.writable().await
    }

    /// For how long the peer's host has acknowledged nothing although something
    /// waits for it; zero when nothing waits. A host that acknowledges is well, and
    /// so is the way to it; of the process that is to read it says nothing.
    pub(crate) fn unacknowledged_for(&self) -> Duration {
        // SAFETY: all zeros is a value of this struct of integers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the descriptor is open as long as `self`; the kernel writes at
        // most `length` bytes to `info`, which has them, and the length it wrote.
        let result = unsafe {
            libc::getsockopt(
                self.tcp.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        // A socket that cannot be asked has ended, which its reader finds out.
        if result != 0 || info.tcpi_unacked == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(info.tcpi_last_ack_recv.into())
    }

    /// Ends the stream in both directions, so that whoever reads or writes it
    /// on either side learns of it.
    pub(crate) fn shutdown(&self) {
        // It may be closed already, which is what is wanted.
        let _ = SockRef::from(&self.tcp).shutdown(std::net::Shutdown::Both);
    }
}

/// Takes `written` bytes from the front of `out`.
fn consume(out: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(front) = out.front_mut() {
        if front.len() > written {
            bytes::Buf::advance(front, written);
            return;
        }
        written -= front.len();
        out.pop_front();
    }
}
