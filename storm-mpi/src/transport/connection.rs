//! One connection. Its bytes use the socket, or RDMA if both ends have an adapter. Bytes from the
//! socket are read ahead into a buffer, unless many of them have one destination.

use super::greeting::{
    BY_SOCKET, HELLO_BYTES, READY, WELCOME, greeting_bytes, parse_welcome, welcome_by_rdma,
};
use super::poller::{Poller, Watched};
use super::rdma::{Adapter, OFFER_BYTES, Offer, Pair};
use super::slot_index::SlotIndex;
use crate::rank::Rank;
use nix::sys::socket::MsgFlags;
use socket2::SockRef;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

/// Bytes read from the kernel at once; larger payloads go straight to their destination.
const READ_BUFFER_BYTES: usize = 32 << 10;
/// A message of up to this many bytes is copied and sent as one piece, which is less work for the
/// kernel.
const TOGETHER_BYTES: usize = 256;
/// Longest single write. A congestion window often holds 16 segments of 64 KiB if nothing was lost.
/// Beyond them, the kernel stops until they are acknowledged, and accepts nothing new meanwhile.
const AT_ONCE_MAX_BYTES: usize = 960 << 10;
/// Longer messages are written in parts of this many bytes. The acknowledgements of a part have
/// arrived when the next part is written.
const PART_BYTES: usize = 768 << 10;

/// The peer of a connection, and the state of the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The connection was accepted and has not sent a hello.
    Stranger,
    /// This rank has dialed that rank, which has not answered.
    Dialed(Rank),
    /// The connection with that rank, for both ways.
    Open(Rank),
    /// The other rank dialed this connection while this rank dialed its own, which remains. The
    /// other rank will close this connection.
    Yielding(Rank),
}

/// The carrier of a connection's bytes.
enum Way {
    Socket,
    /// Undecided: this half of a queue pair was offered.
    Offered(Box<Pair>),
    Rdma(Box<Rdma>),
}

/// A connection whose bytes use RDMA. Its socket only reports, by its end, that the other rank is
/// gone.
struct Rdma {
    pair: Pair,
    /// The other end can be sent to.
    ready: bool,
    /// The other rank is gone.
    ended: bool,
}

/// News from the socket of a connection by RDMA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SocketNews {
    Nothing,
    /// The other end cannot use RDMA: bytes use the socket.
    BySocket,
}

/// A connection with another rank, or with an unknown peer.
pub(super) struct Connection {
    stream: TcpStream,
    way: Way,
    pub(super) standing: Standing,
    /// The kernels have shaken hands.
    connected: bool,
    /// The part of the greeting that is still to be sent.
    greeting: Vec<u8>,
    /// The part of the other's greeting that has arrived.
    heard: Vec<u8>,
    /// The poller reports when the socket can be written to.
    watches_writing: bool,
    /// Empty until something is read ahead.
    buffer: Box<[u8]>,
    /// The part of `buffer` that was read and not taken.
    ahead: Range<usize>,
    /// The last read left nothing behind. Until there is news, another read would return nothing.
    dry: bool,
}

impl Connection {
    /// Makes the connection of a caller that was accepted.
    pub(super) fn accepted(stream: TcpStream) -> Self {
        Self::new(stream, Standing::Stranger, Vec::new())
    }

    /// Makes a connection that was begun to a rank, with the pair that was offered in its hello.
    /// Writing is watched.
    pub(super) fn dialed(
        stream: TcpStream,
        peer: Rank,
        hello: Vec<u8>,
        offered: Option<Pair>,
    ) -> Self {
        let way = offered.map_or(Way::Socket, |pair| Way::Offered(Box::new(pair)));
        let dialed = Self::new(stream, Standing::Dialed(peer), hello);
        Connection { connected: false, watches_writing: true, way, ..dialed }
    }

    fn new(stream: TcpStream, standing: Standing, greeting: Vec<u8>) -> Self {
        Connection {
            stream,
            way: Way::Socket,
            standing,
            connected: true,
            greeting,
            heard: Vec::new(),
            watches_writing: false,
            buffer: Box::default(),
            ahead: 0..0,
            dry: false,
        }
    }

    /// Turns an accepted connection into a rank's and answers its hello. The bytes use RDMA if
    /// `joined` holds a half that was joined with the offered one; its offer is then part of the
    /// answer.
    pub(super) fn welcome(
        &mut self,
        peer: Rank,
        joined: Option<(Pair, Offer)>,
        slot: SlotIndex,
        poller: &Poller,
    ) -> io::Result<()> {
        self.standing = Standing::Open(peer);
        self.stream.set_nodelay(true)?;
        self.greeting = WELCOME.to_vec();
        if let Some((pair, own)) = joined {
            self.greeting = welcome_by_rdma(&own);
            self.way = Way::Rdma(Box::new(Rdma { pair, ready: false, ended: false }));
        }
        self.go_on_greeting(slot, poller)
    }

    /// Whether its bytes go by RDMA.
    pub(super) fn is_by_rdma(&self) -> bool {
        matches!(self.way, Way::Rdma(_))
    }

    /// Whether the rank `me` may send over this connection. If two ranks dial at the same time, the
    /// connection of the lower rank remains, so the lower rank needs no answer before it sends.
    fn carries(&self, me: Rank) -> bool {
        match self.standing {
            Standing::Open(_) => match &self.way {
                Way::Rdma(rdma) => rdma.ready,
                Way::Socket | Way::Offered(_) => true,
            },
            Standing::Dialed(peer) => {
                self.connected && me < peer && matches!(self.way, Way::Socket)
            }
            Standing::Stranger | Standing::Yielding(_) => false,
        }
    }

    /// Sends as much as the connection accepts now. If bytes are left, an event tells when to try
    /// again.
    pub(super) fn send(
        &mut self,
        me: Rank,
        buffers: [&[u8]; 2],
        slot: SlotIndex,
        poller: &Poller,
    ) -> io::Result<usize> {
        if !self.carries(me) {
            return Ok(0);
        }
        if let Way::Rdma(rdma) = &mut self.way {
            return rdma.pair.send(buffers);
        }
        let sent = self.write(buffers)?;
        self.watch_writing(sent < buffers[0].len() + buffers[1].len(), slot, poller)?;
        Ok(sent)
    }

    /// Handles news of a dialed connection: that it is connected, or the answer. Returns whether it
    /// may carry more than before.
    pub(super) fn go_on_dialing(
        &mut self,
        me: Rank,
        (readable, writable): (bool, bool),
        (adapter, only_rdma): (Option<&Adapter>, bool),
        (slot, poller): (SlotIndex, &Poller),
    ) -> io::Result<bool> {
        let Standing::Dialed(peer) = self.standing else { return Ok(false) };
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if writable {
            self.connected = true;
            self.go_on_greeting(slot, poller)?;
        }
        if readable && let Some(answer) = self.hear(WELCOME.len())? {
            let strange = || io::Error::other("who listens at its address is not of this job");
            let theirs = parse_welcome(&answer).ok_or_else(strange)?;
            self.standing = Standing::Open(peer);
            match (std::mem::replace(&mut self.way, Way::Socket), theirs, adapter) {
                (Way::Offered(mut pair), Some(theirs), Some(adapter)) => {
                    let joined = adapter.join(&mut pair, theirs);
                    self.greeting = vec![if joined.is_ok() { READY } else { BY_SOCKET }];
                    if joined.is_ok() {
                        let rdma = Rdma { pair: *pair, ready: true, ended: false };
                        self.way = Way::Rdma(Box::new(rdma));
                    } else if only_rdma {
                        return joined.map(|()| false);
                    }
                    self.go_on_greeting(slot, poller)?;
                }
                (_, None, _) => {}
                // The other end answers an offer that was not made.
                _ => return Err(strange()),
            }
            return Ok(true);
        }
        Ok(writable && self.carries(me))
    }

    /// Sends the rest of the greeting. If bytes are left, writing is watched.
    pub(super) fn go_on_greeting(&mut self, slot: SlotIndex, poller: &Poller) -> io::Result<()> {
        // An error is ignored here. A read will report that the other is gone, after the last bytes
        // that it sent.
        let _ = self.write([&[], &[]]);
        self.watch_writing(!self.greeting.is_empty(), slot, poller)
    }

    fn watch_writing(
        &mut self,
        writable: bool,
        slot: SlotIndex,
        poller: &Poller,
    ) -> io::Result<()> {
        if writable != self.watches_writing {
            poller.change(&self.stream, Watched::Connection(slot), writable)?;
            self.watches_writing = writable;
        }
        Ok(())
    }

    /// Takes the other's greeting of `bytes` bytes, and the offer behind it, once it has arrived as
    /// a whole.
    pub(super) fn hear(&mut self, bytes: usize) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = [0; HELLO_BYTES + OFFER_BYTES];
        loop {
            let all =
                if self.heard.len() < bytes { bytes } else { greeting_bytes(bytes, &self.heard) };
            let missing = all - self.heard.len();
            if missing == 0 {
                return Ok(Some(std::mem::take(&mut self.heard)));
            }
            let got = read_some(&mut self.stream, &mut chunk[..missing])?;
            self.heard.extend_from_slice(&chunk[..got]);
            if got < missing {
                return Ok(None);
            }
        }
    }

    /// Like [`Connection::hear`] without an offer, but leaves the bytes in the kernel, so their
    /// event still arrives.
    pub(super) fn overhear(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut chunk = [0; HELLO_BYTES];
        if self.heard.len() >= bytes {
            return Some(self.heard[..bytes].to_vec());
        }
        let missing = bytes - self.heard.len();
        let got = self.stream.peek(&mut chunk[..missing]).ok()?;
        (got == missing).then(|| [&self.heard, &chunk[..missing]].concat())
    }

    /// For a yielding connection: whether its rank has closed it, or has broken the protocol.
    pub(super) fn is_over(&mut self) -> bool {
        read_some(&mut self.stream, &mut [0; 1]).map_or(true, |bytes| bytes > 0)
    }

    /// Records news of the socket: another read may return something.
    pub(super) fn has_news(&mut self) -> io::Result<()> {
        self.dry = false;
        if let Way::Rdma(rdma) = &mut self.way
            && rdma.hear(&mut self.stream)? == SocketNews::BySocket
        {
            self.way = Way::Socket;
        }
        Ok(())
    }

    /// Handles news of the adapter.
    pub(super) fn has_news_by_rdma(&mut self) -> io::Result<()> {
        self.pair_mut().map_or(Ok(()), Pair::hear)
    }

    /// The queue pair, if bytes go by RDMA.
    pub(super) fn pair_mut(&mut self) -> Option<&mut Pair> {
        match &mut self.way {
            Way::Rdma(rdma) => Some(&mut rdma.pair),
            Way::Socket | Way::Offered(_) => None,
        }
    }

    /// Copies bytes that were read ahead, from the `skip`-th on.
    pub(super) fn copy(&self, skip: usize, into: &mut [u8]) {
        if let Way::Rdma(rdma) = &self.way {
            return rdma.pair.copy(skip, into);
        }
        let ahead = &self.buffer[self.ahead.clone()];
        into.copy_from_slice(&ahead[skip..skip + into.len()]);
    }

    /// Releases bytes that were read ahead.
    pub(super) fn advance(&mut self, bytes: usize) -> io::Result<()> {
        if let Way::Rdma(rdma) = &mut self.way {
            return rdma.pair.advance(bytes);
        }
        self.ahead.start = (self.ahead.start + bytes).min(self.ahead.end);
        Ok(())
    }

    /// Reads a large payload straight to its destination. `None` when it is small, or something was
    /// read ahead.
    pub(super) fn read_directly(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        let by_socket = matches!(self.way, Way::Socket);
        let direct = by_socket && into.len() >= READ_BUFFER_BYTES && self.ahead.is_empty();
        direct.then(|| self.read(into))
    }

    /// Number of bytes that were read ahead; reads ahead when there are none.
    pub(super) fn unread(&mut self) -> io::Result<usize> {
        if let Way::Rdma(rdma) = &mut self.way {
            return rdma.unread();
        }
        if self.ahead.is_empty() && !self.dry {
            if self.buffer.is_empty() {
                self.buffer = vec![0; READ_BUFFER_BYTES].into_boxed_slice();
            }
            let filled = read_some(&mut self.stream, &mut self.buffer)?;
            self.dry = filled < READ_BUFFER_BYTES;
            self.ahead = 0..filled;
        }
        Ok(self.ahead.len())
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.dry {
            return Ok(0);
        }
        let read = read_some(&mut self.stream, into)?;
        self.dry = read < into.len();
        Ok(read)
    }

    /// Writes the rest of the greeting, then the buffers.
    fn write(&mut self, buffers: [&[u8]; 2]) -> io::Result<usize> {
        while !self.greeting.is_empty() {
            match self.stream.write(&self.greeting) {
                Ok(n) => drop(self.greeting.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let total = buffers[0].len() + buffers[1].len();
        let mut sent = 0;
        while sent < total {
            let first = sent.min(buffers[0].len());
            let second = sent - first;
            match self.write_once(&buffers[0][first..], &buffers[1][second..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(sent)
    }

    /// Writes once. A peer that is gone causes an error; with a plain `writev`, the program would
    /// get a signal.
    fn write_once(&mut self, head: &[u8], payload: &[u8]) -> io::Result<usize> {
        let (bytes, mut together) = (head.len() + payload.len(), [0; TOGETHER_BYTES]);
        if bytes <= TOGETHER_BYTES {
            together[..head.len()].copy_from_slice(head);
            together[head.len()..bytes].copy_from_slice(payload);
            return self.stream.write(&together[..bytes]);
        }
        let part = if bytes <= AT_ONCE_MAX_BYTES { payload.len() } else { PART_BYTES };
        let slices = [IoSlice::new(head), IoSlice::new(&payload[..part])];
        SockRef::from(&self.stream).send_vectored_with_flags(&slices, MsgFlags::MSG_NOSIGNAL.bits())
    }
}

impl Rdma {
    /// Reads what the socket reports: that the other end can be sent to, and how, or that it is
    /// gone.
    fn hear(&mut self, stream: &mut TcpStream) -> io::Result<SocketNews> {
        let mut byte = [0];
        loop {
            match read_some(stream, &mut byte) {
                Ok(0) => return Ok(SocketNews::Nothing),
                Ok(_) if byte == [READY] && !self.ready => self.ready = true,
                // The bytes behind it are the first of the payload.
                Ok(_) if byte == [BY_SOCKET] && !self.ready => return Ok(SocketNews::BySocket),
                Ok(_) => return Err(io::Error::other("it says what it should not")),
                // Bytes that arrived before are still taken.
                Err(_) => {
                    self.ended = true;
                    return Ok(SocketNews::Nothing);
                }
            }
        }
    }

    fn unread(&mut self) -> io::Result<usize> {
        let bytes = self.pair.unread()?;
        if bytes == 0 && self.ended {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(bytes)
    }
}

/// Reads once; 0 when there is nothing now, `ConnectionReset` at the end of the stream.
fn read_some(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Ok(0) if !into.is_empty() => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
