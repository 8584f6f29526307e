//! Byte streams between nodes: TCP connections made on first use.
//!
//! A connection carries bytes one way, from the rank that made it, so two ranks that turn to each
//! other at the same moment need no tie-break. It opens with a [`Hello`]: who connects, and the
//! job's random token, which only the job's ranks know. A connection without it is dropped.
//! No time limits anywhere: a stopped peer is not a dead one.

use super::directory::Token;
use super::incoming::Incoming;
use super::poller::{Poller, Watched};
use crate::rank::Rank;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::MsgFlags;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

/// Connections waiting to be accepted; every other rank makes at most one.
const BACKLOG: i32 = 4096;
/// Strangers that may be connected, beyond the job's ranks, before the oldest is dropped.
const SPARE_STRANGERS: usize = 64;
/// Descriptors for all else than connections.
const OTHER_DESCRIPTORS: u64 = 128;
/// A message of so many bytes is copied and sent as one piece: that is less work for the kernel.
const TOGETHER_BYTES: usize = 256;
pub(super) const HELLO_BYTES: usize = 32;
const HELLO_MAGIC: [u8; 8] = *b"STORMPI1";

/// A place in the table of incoming connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex(pub(super) u32);

/// All TCP of one rank.
pub(super) struct Tcp {
    me: Rank,
    token: Token,
    listener: TcpListener,
    address: SocketAddr,
    incoming: Vec<Option<Incoming>>,
    /// By rank.
    slot_of: Vec<Option<SlotIndex>>,
    strangers: VecDeque<SlotIndex>,
    max_strangers: usize,
    /// By rank.
    outgoing: Vec<Option<Outgoing>>,
}

struct Outgoing {
    stream: TcpStream,
    connected: bool,
    hello_left: Vec<u8>,
    wants_write: bool,
}

/// What an event on an incoming connection means.
pub(super) enum Arrival {
    Nothing,
    From(Rank),
}

impl Tcp {
    /// Listens on a free port of `host`, for up to `peers` ranks of other nodes.
    pub(super) fn listen(
        me: Rank,
        host: IpAddr,
        peers: usize,
        poller: &Poller,
    ) -> io::Result<Self> {
        let strangers = peers + SPARE_STRANGERS;
        raise_descriptor_limit((2 * peers + strangers) as u64 + OTHER_DESCRIPTORS);
        let at = SocketAddr::new(host, 0);
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from(socket);
        poller.watch(&listener, Watched::Listener, false)?;
        Ok(Tcp {
            me,
            token: Token(0),
            address: listener.local_addr()?,
            listener,
            incoming: Vec::new(),
            slot_of: Vec::new(),
            strangers: VecDeque::new(),
            max_strangers: strangers,
            outgoing: Vec::new(),
        })
    }

    /// The address peers connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the token, once the job has one. No peer connects before that.
    pub(super) fn set_token(&mut self, token: Token) {
        self.token = token;
    }

    pub(super) fn knows(&self, peer: Rank) -> bool {
        self.outgoing.get(peer.index()).is_some_and(Option::is_some)
    }

    /// Begins the connection to `peer`; sending may start at once.
    pub(super) fn connect(
        &mut self,
        peer: Rank,
        at: SocketAddr,
        poller: &Poller,
    ) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&at.into()) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) => {}
            Err(e) => return Err(e),
        }
        let stream = TcpStream::from(socket);
        poller.watch(&stream, Watched::Outgoing(peer), true)?;
        let hello_left = hello(self.token, self.me);
        let out = Outgoing { stream, connected: false, hello_left, wants_write: true };
        if self.outgoing.len() <= peer.index() {
            self.outgoing.resize_with(peer.index() + 1, || None);
        }
        self.outgoing[peer.index()] = Some(out);
        Ok(())
    }

    /// Sends as much as the connection takes now. When that is not all, an event tells when to try
    /// again.
    pub(super) fn send(
        &mut self,
        peer: Rank,
        buffers: [&[u8]; 2],
        poller: &Poller,
    ) -> io::Result<usize> {
        let Some(Some(out)) = self.outgoing.get_mut(peer.index()) else { return Ok(0) };
        if !out.connected {
            return Ok(0);
        }
        let sent = out.write(buffers)?;
        let wants_write = sent < buffers[0].len() + buffers[1].len();
        if wants_write != out.wants_write {
            out.wants_write = wants_write;
            poller.change(&out.stream, Watched::Outgoing(peer), wants_write)?;
        }
        Ok(sent)
    }

    /// Handles an event on the connection to `peer`. `Err` when the connection is dead.
    pub(super) fn outgoing_event(
        &mut self,
        peer: Rank,
        readable: bool,
        poller: &Poller,
    ) -> io::Result<()> {
        let Some(Some(out)) = self.outgoing.get_mut(peer.index()) else { return Ok(()) };
        if let Some(error) = out.stream.take_error()? {
            return Err(error);
        }
        // The peer never sends on this connection: to read is to learn that it closed.
        if readable && out.is_closed()? {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        out.connected = true;
        if out.write([&[], &[]]).is_ok() && out.hello_left.is_empty() && out.wants_write {
            out.wants_write = false;
            poller.change(&out.stream, Watched::Outgoing(peer), false)?;
        }
        Ok(())
    }

    /// Forgets the connections with `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        if let Some(out) = self.outgoing.get_mut(peer.index()) {
            *out = None;
        }
        if let Some(slot) = self.slot_of.get_mut(peer.index()).and_then(Option::take) {
            self.incoming[slot.0 as usize] = None;
        }
    }

    /// Accepts what waits at the listener.
    pub(super) fn accept(&mut self, poller: &Poller) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, poller)?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A connection that died in the queue, or an interruption: the next one may do.
                Err(e) if is_passing(&e) => {}
                // Anybody may connect, so that is no reason to end; nor are ranks to be kept out by many who
                // say nothing.
                Err(e) if is_exhausted(&e) && self.strangers.len() > SPARE_STRANGERS => {
                    self.drop_oldest_stranger();
                }
                // It stays in the queue: a stranger may be a rank that has not come to say hello. The poller
                // says at each look that it is there: who waits spins meanwhile, and takes it once it can.
                Err(e) if is_exhausted(&e) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// Handles an event on an incoming connection: reads the hello, or tells whose news it is.
    pub(super) fn incoming_event(
        &mut self,
        slot: SlotIndex,
        is_remote: impl Fn(Rank) -> bool,
    ) -> Arrival {
        let Some(Some(incoming)) = self.incoming.get_mut(slot.0 as usize) else {
            return Arrival::Nothing;
        };
        if let Some(from) = incoming.from {
            incoming.has_news();
            return Arrival::From(from);
        }
        let accepted = match incoming.read_hello() {
            Ok(None) => return Arrival::Nothing,
            Ok(Some(hello)) => parse_hello(&hello, self.token)
                .filter(|&from| is_remote(from) && socket_of(&self.slot_of, from).is_none()),
            Err(_) => None,
        };
        self.strangers.retain(|&s| s != slot);
        match accepted {
            Some(from) => {
                incoming.from = Some(from);
                if self.slot_of.len() <= from.index() {
                    self.slot_of.resize(from.index() + 1, None);
                }
                self.slot_of[from.index()] = Some(slot);
                Arrival::From(from)
            }
            None => {
                self.incoming[slot.0 as usize] = None;
                Arrival::Nothing
            }
        }
    }

    /// Whether `peer` has said hello: what it sends comes by a known socket.
    pub(super) fn hears(&self, peer: Rank) -> bool {
        socket_of(&self.slot_of, peer).is_some()
    }

    /// Reads ahead from `peer`; whether there is anything, also its end.
    pub(super) fn look_at(&mut self, peer: Rank) -> bool {
        let Some(incoming) = self.incoming(peer) else { return false };
        incoming.has_news();
        // At an end or error reading it again says so again.
        incoming.unread().map_or(true, |bytes| bytes > 0)
    }

    /// Bytes of `peer` that were read ahead; reads ahead when there are none. `Err` when it closed.
    pub(super) fn unread(&mut self, peer: Rank) -> io::Result<usize> {
        self.incoming(peer).map_or(Ok(0), Incoming::unread)
    }

    /// Copies bytes that were read ahead, from the `skip`-th on.
    pub(super) fn copy(&self, peer: Rank, skip: usize, into: &mut [u8]) {
        let slot = socket_of(&self.slot_of, peer);
        if let Some(incoming) = slot.and_then(|slot| self.incoming[slot.0 as usize].as_ref()) {
            incoming.copy(skip, into);
        }
    }

    /// Lets go of bytes that were read ahead.
    pub(super) fn advance(&mut self, peer: Rank, bytes: usize) {
        if let Some(incoming) = self.incoming(peer) {
            incoming.advance(bytes);
        }
    }

    /// Reads much to where it belongs; `None` when it is little, or something was read ahead.
    pub(super) fn read_directly(
        &mut self,
        peer: Rank,
        into: &mut [u8],
    ) -> Option<io::Result<usize>> {
        self.incoming(peer)?.read_directly(into)
    }

    fn incoming(&mut self, peer: Rank) -> Option<&mut Incoming> {
        self.incoming[socket_of(&self.slot_of, peer)?.0 as usize].as_mut()
    }

    fn admit(&mut self, stream: TcpStream, poller: &Poller) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.strangers.len() >= self.max_strangers {
            self.drop_oldest_stranger();
        }
        let free = self.incoming.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.incoming.push(None);
            self.incoming.len() - 1
        });
        // The table is bounded by the ranks and `max_strangers`, so the index fits.
        let slot = SlotIndex(index as u32);
        match poller.watch(&stream, Watched::Incoming(slot), false) {
            Err(error) if is_exhausted(&error) => return Ok(()),
            watched => watched?,
        }
        self.incoming[index] = Some(Incoming::new(stream));
        self.strangers.push_back(slot);
        Ok(())
    }

    fn drop_oldest_stranger(&mut self) {
        if let Some(oldest) = self.strangers.pop_front() {
            self.incoming[oldest.0 as usize] = None;
        }
    }
}

impl Outgoing {
    /// Writes what is left of the hello, then the buffers.
    fn write(&mut self, buffers: [&[u8]; 2]) -> io::Result<usize> {
        while !self.hello_left.is_empty() {
            match self.stream.write(&self.hello_left) {
                Ok(n) => drop(self.hello_left.drain(..n)),
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

    /// A peer that is gone is an error here and no signal to the program, as a plain `writev` has it.
    fn write_once(&mut self, head: &[u8], payload: &[u8]) -> io::Result<usize> {
        let (bytes, mut together) = (head.len() + payload.len(), [0; TOGETHER_BYTES]);
        if bytes <= TOGETHER_BYTES {
            together[..head.len()].copy_from_slice(head);
            together[head.len()..bytes].copy_from_slice(payload);
            return self.stream.write(&together[..bytes]);
        }
        let slices = [IoSlice::new(head), IoSlice::new(payload)];
        SockRef::from(&self.stream).send_vectored_with_flags(&slices, MsgFlags::MSG_NOSIGNAL.bits())
    }

    fn is_closed(&mut self) -> io::Result<bool> {
        match self.stream.read(&mut [0; 64]) {
            Ok(n) => Ok(n == 0),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock || is_passing(&e) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The socket by which a rank sends.
fn socket_of(slot_of: &[Option<SlotIndex>], peer: Rank) -> Option<SlotIndex> {
    slot_of.get(peer.index()).copied().flatten()
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

/// Whether it was for want of a descriptor, of memory or of watches of the poller (`ENOSPC`), which this process,
/// another or the kernel may have again.
fn is_exhausted(error: &io::Error) -> bool {
    use nix::errno::Errno::{EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC};
    let code = error.raw_os_error();
    [EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC].iter().any(|&errno| code == Some(errno as i32))
}

fn hello(token: Token, me: Rank) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HELLO_BYTES);
    bytes.extend_from_slice(&HELLO_MAGIC);
    bytes.extend_from_slice(&token.0.to_le_bytes());
    bytes.extend_from_slice(&u64::from(me.0).to_le_bytes());
    bytes
}

/// The rank that says hello, if it knows the token.
pub(super) fn parse_hello(bytes: &[u8], token: Token) -> Option<Rank> {
    let expected = hello(token, Rank(0));
    let (fixed, rank) = bytes.split_at_checked(HELLO_BYTES - 8)?;
    // Compared without an early end, so that its time tells nothing of the token.
    let differ = fixed.iter().zip(&expected).fold(0, |acc, (a, b)| acc | (a ^ b));
    let rank = u64::from_le_bytes(rank.try_into().ok()?);
    if differ == 0 { u32::try_from(rank).ok().map(Rank) } else { None }
}

/// What peers and strangers take may exceed the usual soft limit. Not fatal here: a connection that finds
/// no descriptor says so.
fn raise_descriptor_limit(needed: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < needed
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    }
}

#[cfg(test)]
mod tests;
