//! The byte stream under every link. All sockets are opened and accepted here. They become sessions
//! if the member holds a key.

use bytes::{BufMut, Bytes, BytesMut};
use nix::libc;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use storm_session::{self as session, Sealed, SessionError, Trust};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The most slices for one write: more would gain nothing.
const MAX_SLICES: usize = 32;
/// Longer than the hello of a node that has no key.
const MAX_DISCARDED_BYTES: usize = 4096;

/// One connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcp: TcpStream,
    /// Encrypts the bytes to a peer on another host.
    sealed: Option<Sealed>,
}

impl Stream {
    /// Opens a connection to `addr`, and a session if there is a key. Falls back to the previous
    /// key if the other side does not have the new one yet.
    pub(crate) async fn connect(
        addr: SocketAddr,
        trust: Option<&Trust>,
    ) -> Result<Stream, SessionError> {
        let mut stream = Stream::new(TcpStream::connect(addr).await?)?;
        let Some(trust) = trust else { return Ok(stream) };
        match session::initiate(&mut stream.tcp, trust, trust.key()).await {
            Err(SessionError::RefusedKey { theirs, ours }) if theirs != ours => {
                let Some(key) = trust.find(theirs) else {
                    return Err(SessionError::RefusedKey { theirs, ours });
                };
                stream = Stream::new(TcpStream::connect(addr).await?)?;
                stream.sealed = session::initiate(&mut stream.tcp, trust, key).await?;
            }
            answer => stream.sealed = answer?,
        }
        Ok(stream)
    }

    /// Makes a session of an accepted connection. Nothing that the connection carries is trusted
    /// before.
    pub(crate) async fn authenticate(&mut self, trust: &Trust) -> Result<(), SessionError> {
        self.sealed = session::accept(&mut self.tcp, trust).await?;
        Ok(())
    }

    /// Discards bytes that have arrived. If the socket were closed with unread bytes, the last
    /// message to the peer could be lost.
    pub(crate) fn discard_arrived(&self) {
        // An error means that nothing has arrived.
        let _ = self.tcp.try_read(&mut [0; MAX_DISCARDED_BYTES]);
    }

    /// Replies to a peer that opened the connection with a key that this cluster has none.
    pub(crate) async fn refuse_keyed(&mut self) -> io::Result<()> {
        session::refuse_keyed(&mut self.tcp).await
    }

    /// Takes over an accepted connection.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<Stream> {
        session::configure(&tcp)?;
        Ok(Stream { tcp, sealed: None })
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Waits until bytes have arrived, and reads them into the spare room of `into`. Returns 0 at
    /// the end of the stream.
    pub(crate) async fn read(&self, into: &mut BytesMut) -> io::Result<usize> {
        loop {
            if let Some(sealed) = &self.sealed {
                match sealed.open(into)? {
                    0 => {}
                    len => return Ok(len),
                }
            }
            self.tcp.readable().await?;
            let result = match &self.sealed {
                Some(sealed) => sealed.fill(|records| self.read_arrived(records)),
                None => self.read_arrived(into),
            };
            match (result, &self.sealed) {
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => {}
                (Ok(0), Some(sealed)) if sealed.is_within_record() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                (Ok(1..), Some(_)) => {}
                (result, _) => return result,
            }
        }
    }

    /// Reads arrived bytes into the spare room of `into`. A read that leaves room has emptied the
    /// socket, so the socket is not asked again: the next arrival is a new edge of readiness. An
    /// arrival since the read began is not lost: returning `WouldBlock` clears only the older
    /// readiness.
    fn read_arrived(&self, into: &mut BytesMut) -> io::Result<usize> {
        // SAFETY: only `recv` gets the slice, and it writes nothing uninitialised to it.
        let spare = unsafe { into.chunk_mut().as_uninit_slice_mut() };
        let mut read = 0;
        let result = self.tcp.try_io(Interest::READABLE, || {
            read = SockRef::from(&self.tcp).recv(spare)?;
            if 0 < read && read < spare.len() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match result {
            Err(error) if read == 0 => Err(error),
            Ok(()) | Err(_) => {
                // SAFETY: `recv` has written this many bytes there.
                unsafe { into.advance_mut(read) };
                Ok(read)
            }
        }
    }

    /// Writes as much from the front of `out` as fits now. Returns true if everything was written.
    /// After a false, call it again even if `out` is empty.
    pub(crate) fn write_some(&self, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        if let Some(sealed) = &self.sealed {
            return self.write_sealed(sealed, out);
        }
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

    fn write_sealed(&self, sealed: &Sealed, out: &mut VecDeque<Bytes>) -> io::Result<bool> {
        loop {
            let written = {
                let records = sealed.seal(out)?;
                if records.is_empty() {
                    return Ok(true);
                }
                match self.tcp.try_write(&records) {
                    Ok(written) => written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            };
            sealed.written(written);
        }
    }

    /// Waits for the end of a stream on which no more data is expected. Unexpected data counts as
    /// the end, too.
    pub(crate) async fn ended(&self) {
        loop {
            if self.tcp.readable().await.is_err() {
                return;
            }
            match self.tcp.try_read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }

    /// Waits until something can be written.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.tcp.writable().await
    }

    /// How long the peer's host has acknowledged nothing although data waits for it; zero if no
    /// data waits. A host that acknowledges is well, and so is the way to it. The value tells
    /// nothing about the process that reads.
    pub(crate) fn unacknowledged_for(&self) -> Duration {
        // SAFETY: all zeros is a value of this struct of integers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the descriptor is open as long as `self`. The kernel writes at most `length`
        // bytes to `info`, which has that many, and then the length it wrote.
        let result = unsafe {
            libc::getsockopt(
                self.tcp.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        // A socket without status has ended. Its reader notices the end.
        if result != 0 || info.tcpi_unacked == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(info.tcpi_last_ack_recv.into())
    }

    /// Ends the stream so that the other side sees an error, because the other side has not
    /// received everything.
    pub(crate) fn break_off(&self) {
        let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
        let length = size_of::<libc::sockaddr>() as libc::socklen_t;
        // Connecting to no address resets a connection (connect(2), tcp_disconnect). SAFETY: the
        // descriptor is open as long as `self`, and the address is `length` bytes.
        let result = unsafe { libc::connect(self.tcp.as_raw_fd(), &raw const nowhere, length) };
        if result != 0 {
            // The socket is no longer connected.
            self.shutdown();
        }
    }

    /// Ends the stream in both directions, so that readers and writers on both sides notice.
    pub(crate) fn shutdown(&self) {
        // An error means that the socket is closed already.
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
