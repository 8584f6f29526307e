//! A session as a stream of bytes, for code that reads and writes lines.
//!
//! Like any buffered writer it must be flushed: the last record may wait for room in the socket
//! until then.
//!
//! A shutdown of the stream tells the other end that the end is meant. A reader gets the end of the
//! stream only then. If the connection ends otherwise, for example with the process that held it,
//! the reader gets `UnexpectedEof`.

use crate::record::{MAX_PLAIN_BYTES, Sealed};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes decrypted at a time: a record.
const PLAIN_BYTES: usize = 64 << 10;

/// A TCP connection that carries records.
#[derive(Debug)]
pub struct SealedStream {
    tcp: TcpStream,
    sealed: Sealed,
    /// Plain text that was not read yet.
    plain: BytesMut,
}

impl SealedStream {
    pub(super) fn new(tcp: TcpStream, sealed: Sealed) -> SealedStream {
        SealedStream { tcp, sealed, plain: BytesMut::new() }
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    /// Decrypts records until there are bytes to read. Returns 0 at the end that the other side
    /// meant.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if !self.plain.is_empty() {
                return Poll::Ready(Ok(self.plain.len()));
            }
            self.plain.reserve(PLAIN_BYTES);
            if self.sealed.open(&mut self.plain)? > 0 {
                continue;
            }
            // An idle connection holds no memory.
            self.plain = BytesMut::new();
            if self.sealed.peer_has_ended() {
                return Poll::Ready(Ok(0));
            }
            ready!(self.tcp.poll_read_ready(context))?;
            match self.sealed.fill(|records| self.tcp.try_read_buf(records)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes earlier records, then seals and writes `out`.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        out: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        loop {
            let written = {
                let records = self.sealed.seal(out)?;
                if records.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                ready!(Pin::new(&mut self.tcp).poll_write(context, &records))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sealed.written(written);
        }
    }
}

impl AsyncRead for SealedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let opened = ready!(self.poll_open(context))?;
        let length = opened.min(into.remaining());
        into.put_slice(&self.plain[..length]);
        self.plain.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SealedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(context, &mut VecDeque::new()))?;
        let length = bytes.len().min(MAX_PLAIN_BYTES);
        let mut out = VecDeque::from([Bytes::copy_from_slice(&bytes[..length])]);
        // The data fit in one record, so all of it is taken even if no byte is sent now.
        match self.poll_send(context, &mut out) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context, &mut VecDeque::new())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // After this call is repeated, the end record is not sealed again.
        self.sealed.seal_end()?;
        ready!(self.poll_send(context, &mut VecDeque::new()))?;
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
