//! Byte streams between nodes: TCP connections made on first use.
//!
//! A connection carries bytes one way, from the rank that made it, so two ranks that turn to each
//! other at the same moment need no tie-break. It opens with a [`Hello`]: who connects, and the
//! job's random token, which only the job's ranks know. A connection without it is dropped.
//! No time limits anywhere: a stopped peer is not a dead one.

use super::directory::Token;
use super::poller::{Poller, Watched};
use crate::rank::Rank;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

/// Connections waiting to be accepted; every other rank makes at most one.
const BACKLOG: i32 = 4096;
/// Strangers that may be connected, beyond the job's ranks, before the oldest is dropped.
const SPARE_STRANGERS: usize = 64;
/// Descriptors for all else than connections.
const OTHER_DESCRIPTORS: u64 = 128;
/// Read from the kernel at once; larger payloads go straight to their place.
const READ_BUFFER_BYTES: usize = 32 << 10;
const HELLO_BYTES: usize = 32;
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
    slot_of: HashMap<Rank, SlotIndex>,
    strangers: VecDeque<SlotIndex>,
    max_strangers: usize,
    outgoing: HashMap<Rank, Outgoing>,
}

struct Incoming {
    stream: TcpStream,
    from: Option<Rank>,
    hello: Vec<u8>,
    buffer: Vec<u8>,
    start: usize,
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
        raise_descriptor_limit(2 * peers as u64 + OTHER_DESCRIPTORS);
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
            slot_of: HashMap::new(),
            strangers: VecDeque::new(),
            max_strangers: peers + SPARE_STRANGERS,
            outgoing: HashMap::new(),
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
        self.outgoing.contains_key(&peer)
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
        self.outgoing.insert(peer, out);
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
        let Some(out) = self.outgoing.get_mut(&peer) else { return Ok(0) };
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
        let Some(out) = self.outgoing.get_mut(&peer) else { return Ok(()) };
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
        self.outgoing.remove(&peer);
        if let Some(slot) = self.slot_of.remove(&peer) {
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
            return Arrival::From(from);
        }
        let accepted = match incoming.read_hello() {
            Ok(None) => return Arrival::Nothing,
            Ok(Some(hello)) => parse_hello(&hello, self.token)
                .filter(|&from| is_remote(from) && !self.slot_of.contains_key(&from)),
            Err(_) => None,
        };
        self.strangers.retain(|&s| s != slot);
        match accepted {
            Some(from) => {
                incoming.from = Some(from);
                self.slot_of.insert(from, slot);
                Arrival::From(from)
            }
            None => {
                self.incoming[slot.0 as usize] = None;
                Arrival::Nothing
            }
        }
    }

    /// Reads what `peer` has sent; 0 when there is nothing now. `Err` when it closed.
    pub(super) fn read(&mut self, peer: Rank, into: &mut [u8]) -> io::Result<usize> {
        let slot = self.slot_of.get(&peer);
        match slot.and_then(|slot| self.incoming[slot.0 as usize].as_mut()) {
            Some(incoming) => incoming.read(into),
            None => Ok(0),
        }
    }

    fn admit(&mut self, stream: TcpStream, poller: &Poller) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.strangers.len() >= self.max_strangers
            && let Some(oldest) = self.strangers.pop_front()
        {
            self.incoming[oldest.0 as usize] = None;
        }
        let free = self.incoming.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.incoming.push(None);
            self.incoming.len() - 1
        });
        // The table is bounded by the ranks and `max_strangers`, so the index fits.
        let slot = SlotIndex(index as u32);
        poller.watch(&stream, Watched::Incoming(slot), false)?;
        self.incoming[index] =
            Some(Incoming { stream, from: None, hello: Vec::new(), buffer: Vec::new(), start: 0 });
        self.strangers.push_back(slot);
        Ok(())
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
            let slices = [IoSlice::new(&buffers[0][first..]), IoSlice::new(&buffers[1][second..])];
            match self.stream.write_vectored(&slices) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(sent)
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

impl Incoming {
    fn read_hello(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = [0; HELLO_BYTES];
        let missing = HELLO_BYTES - self.hello.len();
        match read_some(&mut self.stream, &mut chunk[..missing])? {
            0 => Ok(None),
            n => {
                self.hello.extend_from_slice(&chunk[..n]);
                Ok((self.hello.len() == HELLO_BYTES).then(|| std::mem::take(&mut self.hello)))
            }
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.buffer.len() {
            if into.len() >= READ_BUFFER_BYTES {
                return read_some(&mut self.stream, into);
            }
            self.buffer.resize(READ_BUFFER_BYTES, 0);
            self.start = 0;
            let filled = read_some(&mut self.stream, &mut self.buffer);
            self.buffer.truncate(*filled.as_ref().unwrap_or(&0));
            filled?;
        }
        let n = into.len().min(self.buffer.len() - self.start);
        into[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        Ok(n)
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

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
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

/// Two descriptors per peer may exceed the usual soft limit. Not fatal here: a connection that finds
/// no descriptor says so.
fn raise_descriptor_limit(needed: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < needed
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_needs_the_token() {
        let bytes = hello(Token(7), Rank(3));
        assert_eq!(bytes.len(), HELLO_BYTES);
        assert_eq!(parse_hello(&bytes, Token(7)), Some(Rank(3)));
        assert_eq!(parse_hello(&bytes, Token(8)), None);
        assert_eq!(parse_hello(&bytes[1..], Token(7)), None);
    }

    /// Turns the events of `count` arrivals into who they are from; ends when all have been judged.
    fn judge(tcp: &mut Tcp, poller: &Poller, count: usize) -> Vec<Rank> {
        let mut admitted = Vec::new();
        let mut accepted = 0;
        while accepted < count || !tcp.strangers.is_empty() {
            for happening in poller.wait(true).unwrap() {
                match happening.watched {
                    Watched::Listener => {
                        let before = tcp.strangers.len();
                        tcp.accept(poller).unwrap();
                        accepted += tcp.strangers.len() - before;
                    }
                    Watched::Incoming(slot) => match tcp.incoming_event(slot, |r| r == Rank(1)) {
                        Arrival::From(rank) if !admitted.contains(&rank) => admitted.push(rank),
                        _ => {}
                    },
                    other => panic!("{other:?}"),
                }
            }
        }
        admitted
    }

    #[test]
    fn only_the_jobs_ranks_are_admitted() {
        let poller = Poller::new().unwrap();
        let host = std::net::Ipv4Addr::LOCALHOST.into();
        let mut tcp = Tcp::listen(Rank(0), host, 1, &poller).unwrap();
        tcp.set_token(Token(7));
        let connect = |bytes: Vec<u8>| {
            let mut stream = TcpStream::connect(tcp.address()).unwrap();
            stream.write_all(&bytes).unwrap();
            stream
        };
        let hostile =
            [vec![0; 64], hello(Token(8), Rank(1)), hello(Token(7), Rank(2))].map(connect);
        let silent = connect(Vec::new());
        drop(silent);
        let friend = connect([hello(Token(7), Rank(1)), b"frame".to_vec()].concat());
        assert_eq!(judge(&mut tcp, &poller, 5), [Rank(1)]);
        for mut stranger in hostile {
            assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)), "dropped");
        }
        let mut bytes = [0; 16];
        assert_eq!(tcp.read(Rank(1), &mut bytes).unwrap(), 5);
        assert_eq!(&bytes[..5], b"frame");
        drop(friend);
        let end = tcp.read(Rank(1), &mut bytes).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }
}
