//! The two directions of a connection, which is a Unix socket or a session with another host. The
//! rest of the module treats both alike.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use storm_session::SealedStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The direction to us.
#[derive(Debug)]
pub(super) enum ReadHalf {
    /// From a process of this host.
    Local(OwnedReadHalf),
    /// From another host, or from a client of this host that uses a session.
    Remote(tokio::io::ReadHalf<SealedStream>),
}

/// The direction from us. Written bytes must be flushed.
#[derive(Debug)]
pub(super) enum WriteHalf {
    /// To a process of this host.
    Local(OwnedWriteHalf),
    /// To another host, or to a client of this host that uses a session.
    Remote(tokio::io::WriteHalf<SealedStream>),
}

/// The two directions of a Unix socket.
pub(super) fn local_halves(stream: UnixStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::Local(read), WriteHalf::Local(write))
}

/// The two directions of a session.
pub(super) fn remote_halves(stream: SealedStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = tokio::io::split(stream);
    (ReadHalf::Remote(read), WriteHalf::Remote(write))
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadHalf::Local(half) => Pin::new(half).poll_read(context, into),
            ReadHalf::Remote(half) => Pin::new(half).poll_read(context, into),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Local(half) => Pin::new(half).poll_write(context, bytes),
            WriteHalf::Remote(half) => Pin::new(half).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Local(half) => Pin::new(half).poll_flush(context),
            WriteHalf::Remote(half) => Pin::new(half).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Local(half) => Pin::new(half).poll_shutdown(context),
            WriteHalf::Remote(half) => Pin::new(half).poll_shutdown(context),
        }
    }
}
