//! Byte streams between nodes. A connection is made on first use and may use RDMA for its bytes
//! (`rdma`). Each pair of ranks has one connection for both directions, so bytes going back
//! acknowledge bytes that arrived.
//!
//! A rank dials another when it has bytes for it, unless the other has dialed before. It opens with
//! a hello: its rank, and the job's random token, which only the job's ranks know. A connection
//! without the token is dropped. The dialed rank answers with a welcome. If both dial at the same
//! time, both know that the connection of the lower rank remains, although neither knows yet that
//! the other dials:
//!
//! - The lower rank sends behind its hello at once, unless it offers a queue pair there. It leaves
//!   the other's connection unanswered.
//! - The higher rank sends nothing before it gets an answer. If it is dialed meanwhile, it welcomes
//!   that connection and closes its own, which has carried only its hello.
//!
//! Each direction therefore uses a single connection from its first byte to its last. While it is
//! undecided which connection remains, the end of either means the end of the other rank. There are
//! no time limits anywhere: a stopped peer is not dead.

mod by_rdma;

use super::connection::{Connection, Standing};
use super::directory::Token;
use super::greeting::{HELLO_BYTES, offer_behind, parse_hello};
use super::poller::{Happening, Poller, Watched};
use super::rdma::{Adapter, Offer};
use super::slot_index::SlotIndex;
use crate::rank::Rank;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// Connections waiting to be accepted; every other rank makes at most one.
const BACKLOG: i32 = 4096;
/// Connections accepted before other events get their turn; the rest are accepted at the next poll.
const ACCEPTED_AT_ONCE: usize = 64;
/// Number of unknown peers beyond the job's ranks that may be connected before one is dropped for
/// the next.
const SPARE_STRANGERS: usize = 64;
/// Descriptors for everything except connections.
const OTHER_DESCRIPTORS: u64 = 128;

/// All TCP of one rank.
pub(super) struct Tcp {
    me: Rank,
    token: Token,
    listener: TcpListener,
    address: SocketAddr,
    /// There was no descriptor or no watch for a peer at the listener. The listener is not watched
    /// until there is.
    deaf: bool,
    /// A stream that was accepted while there was no watch for it.
    aside: Option<TcpStream>,
    connections: Vec<Option<Connection>>,
    /// By rank: the connection that carries its bytes, or will.
    slot_of: Vec<Option<SlotIndex>>,
    strangers: VecDeque<SlotIndex>,
    max_strangers: usize,
    /// Carries the bytes of connections if the other rank has an adapter too.
    adapter: Option<Adapter>,
    /// Whether bytes must use RDMA and nothing else.
    only_rdma: bool,
    /// Time of the last check of requests under way by RDMA.
    looked: Option<Instant>,
}

/// The connection with a rank is dead.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) peer: Rank,
    pub(super) error: io::Error,
}

/// The fate of a connection on which a rank sent its hello.
enum Verdict {
    /// It becomes the connection with the rank.
    Welcome,
    /// The rank will close it.
    Yields,
    /// The rank has connected before.
    Refused,
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
        // If both dial, there are two connections for a while.
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
            deaf: false,
            aside: None,
            connections: Vec::new(),
            slot_of: Vec::new(),
            strangers: VecDeque::new(),
            max_strangers: strangers,
            adapter: None,
            only_rdma: false,
            looked: None,
        })
    }

    /// The address peers connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the token, once the job has it. No peer connects before.
    pub(super) fn set_token(&mut self, token: Token) {
        self.token = token;
    }

    /// Whether there is a connection with `peer`, or one is on its way.
    pub(super) fn knows(&self, peer: Rank) -> bool {
        self.slot_of(peer).is_some()
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
        let slot = self.free_slot();
        poller.watch(&stream, Watched::Connection(slot), true)?;
        let (hello, offered) = self.hello(slot)?;
        let dialed = Connection::dialed(stream, peer, hello, offered);
        self.connections[slot.0 as usize] = Some(dialed);
        self.set_slot_of(peer, slot);
        Ok(())
    }

    /// Sends as much as the connection accepts now. If bytes are left, an event tells when to try
    /// again.
    pub(super) fn send(
        &mut self,
        peer: Rank,
        buffers: [&[u8]; 2],
        poller: &Poller,
    ) -> io::Result<usize> {
        let (me, Some(slot)) = (self.me, self.slot_of(peer)) else { return Ok(0) };
        match &mut self.connections[slot.0 as usize] {
            Some(connection) => connection.send(me, buffers, slot, poller),
            None => Ok(0),
        }
    }

    /// Forgets the connection with `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        if let Some(slot) = self.slot_of.get_mut(peer.index()).and_then(Option::take) {
            self.close(slot);
        }
    }

    /// Whether a peer waits at the listener and got no descriptor or watch. The poller does not
    /// report when it could get them.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Accepts the peers at the listener, up to the limit of one poll.
    pub(super) fn accept(&mut self, poller: &Poller) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.accept_one(poller) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A connection that died in the queue, or an interruption: the next call may
                // succeed.
                Err(e) if is_passing(&e) => {}
                // Any process may connect, so a lack of resources is no reason to end. Many silent
                // peers must not keep ranks out either, so beyond some number the oldest is
                // dropped. Up to that number they are kept, because an unknown peer may be a rank
                // that has not sent its hello yet; the new peer then waits.
                Err(e) if is_exhausted(&e) => {
                    if self.strangers.len() <= SPARE_STRANGERS || !self.drop_a_stranger() {
                        return self.set_deaf(true, poller);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        self.set_deaf(self.aside.is_some(), poller)
    }

    /// Handles an event on a connection. Returns the rank with news.
    pub(super) fn event(
        &mut self,
        slot: SlotIndex,
        happening: Happening,
        is_remote: impl Fn(Rank) -> bool,
        poller: &Poller,
    ) -> Result<Option<Rank>, Lost> {
        let Some(Some(connection)) = self.connections.get_mut(slot.0 as usize) else {
            return Ok(None);
        };
        let Happening { readable, writable, .. } = happening;
        match connection.standing {
            Standing::Stranger => self.hear_stranger(slot, is_remote, poller),
            Standing::Dialed(peer) => connection
                .go_on_dialing(
                    self.me,
                    (readable, writable),
                    (self.adapter.as_ref(), self.only_rdma),
                    (slot, poller),
                )
                .and_then(|news| self.check_way(slot).map(|()| news.then_some(peer)))
                .map_err(|error| Lost { peer, error }),
            Standing::Open(peer) => {
                let heard = if readable { connection.has_news() } else { Ok(()) };
                let greeted = heard.and_then(|()| match writable {
                    true => connection.go_on_greeting(slot, poller),
                    false => Ok(()),
                });
                let goes_on = greeted.and_then(|()| self.check_way(slot));
                goes_on.map(|()| Some(peer)).map_err(|error| Lost { peer, error })
            }
            Standing::Yielding(_) => {
                if connection.is_over() {
                    self.close(slot);
                }
                Ok(None)
            }
        }
    }

    /// Whether bytes of `peer` arrive on a known socket.
    pub(super) fn hears(&self, peer: Rank) -> bool {
        self.open(peer).is_some()
    }

    /// Reads ahead from `peer`. Returns whether there is anything, including its end.
    pub(super) fn look_at(&mut self, peer: Rank) -> bool {
        let Some(connection) = self.open_mut(peer) else { return false };
        if !connection.is_by_rdma() && connection.has_news().is_err() {
            return true;
        }
        // Another read reports the same end or error again.
        connection.unread().map_or(true, |bytes| bytes > 0)
    }

    /// Number of bytes of `peer` that were read ahead; reads ahead when there are none. `Err` when
    /// it closed.
    pub(super) fn unread(&mut self, peer: Rank) -> io::Result<usize> {
        self.open_mut(peer).map_or(Ok(0), Connection::unread)
    }

    /// Copies bytes that were read ahead, from the `skip`-th on.
    pub(super) fn copy(&self, peer: Rank, skip: usize, into: &mut [u8]) {
        if let Some(connection) = self.open(peer) {
            connection.copy(skip, into);
        }
    }

    /// Releases bytes that were read ahead.
    pub(super) fn advance(&mut self, peer: Rank, bytes: usize) -> io::Result<()> {
        self.open_mut(peer).map_or(Ok(()), |connection| connection.advance(bytes))
    }

    /// Reads a large payload straight to its destination. `None` when it is small, or something was
    /// read ahead.
    pub(super) fn read_directly(
        &mut self,
        peer: Rank,
        into: &mut [u8],
    ) -> Option<io::Result<usize>> {
        self.open_mut(peer)?.read_directly(into)
    }

    fn slot_of(&self, peer: Rank) -> Option<SlotIndex> {
        self.slot_of.get(peer.index()).copied().flatten()
    }

    fn set_slot_of(&mut self, peer: Rank, slot: SlotIndex) {
        if self.slot_of.len() <= peer.index() {
            self.slot_of.resize(peer.index() + 1, None);
        }
        self.slot_of[peer.index()] = Some(slot);
    }

    /// The connection by which `peer` sends.
    fn open(&self, peer: Rank) -> Option<&Connection> {
        let connection = self.connections[self.slot_of(peer)?.0 as usize].as_ref()?;
        (connection.standing == Standing::Open(peer)).then_some(connection)
    }

    fn open_mut(&mut self, peer: Rank) -> Option<&mut Connection> {
        let slot = self.slot_of(peer)?;
        let connection = self.connections[slot.0 as usize].as_mut()?;
        (connection.standing == Standing::Open(peer)).then_some(connection)
    }

    /// Admits the first peer, if there is a descriptor and a watch for it.
    fn accept_one(&mut self, poller: &Poller) -> io::Result<()> {
        let stream = match self.aside.take() {
            Some(stream) => stream,
            None => self.listener.accept()?.0,
        };
        stream.set_nonblocking(true)?;
        if self.strangers.len() >= self.max_strangers && !self.drop_a_stranger() {
            // There are more valid hellos than ranks, and each rank connects once.
            return Ok(());
        }
        let slot = self.free_slot();
        if let Err(error) = poller.watch(&stream, Watched::Connection(slot), false) {
            self.aside = Some(stream);
            return Err(error);
        }
        self.connections[slot.0 as usize] = Some(Connection::accepted(stream));
        self.strangers.push_back(slot);
        Ok(())
    }

    /// Reads the hello. Returns the rank that is welcome.
    fn hear_stranger(
        &mut self,
        slot: SlotIndex,
        is_remote: impl Fn(Rank) -> bool,
        poller: &Poller,
    ) -> Result<Option<Rank>, Lost> {
        let Some(connection) = &mut self.connections[slot.0 as usize] else { return Ok(None) };
        let heard = match connection.hear(HELLO_BYTES) {
            Ok(None) => return Ok(None),
            Ok(Some(hello)) => {
                let from =
                    parse_hello(&hello[..HELLO_BYTES], self.token).filter(|&from| is_remote(from));
                from.zip(offer_behind(HELLO_BYTES, &hello).ok())
            }
            Err(_) => None,
        };
        self.strangers.retain(|&s| s != slot);
        match heard.map(|(from, offer)| (from, offer, self.judge(from))) {
            None | Some((_, _, Verdict::Refused)) => {
                self.close(slot);
                Ok(None)
            }
            Some((from, _, Verdict::Yields)) => {
                if let Some(connection) = &mut self.connections[slot.0 as usize] {
                    connection.standing = Standing::Yielding(from);
                }
                Ok(None)
            }
            Some((from, offer, Verdict::Welcome)) => {
                let welcome = self.welcome(from, offer, slot, poller);
                let welcome = welcome.and_then(|()| self.check_way(slot));
                welcome.map(|()| Some(from)).map_err(|error| Lost { peer: from, error })
            }
        }
    }

    /// Decides the fate of a connection that `from` has dialed.
    fn judge(&self, from: Rank) -> Verdict {
        let here = self.slot_of(from).and_then(|slot| self.connections[slot.0 as usize].as_ref());
        let yields = |c: &Connection| c.standing == Standing::Yielding(from);
        match here.map(|connection| connection.standing) {
            None => Verdict::Welcome,
            Some(Standing::Dialed(_)) if from < self.me => Verdict::Welcome,
            Some(Standing::Dialed(_)) if !self.connections.iter().flatten().any(yields) => {
                Verdict::Yields
            }
            Some(_) => Verdict::Refused,
        }
    }

    /// Makes this connection the connection with `from`. A connection that this rank has dialed has
    /// carried nothing.
    fn welcome(
        &mut self,
        from: Rank,
        offer: Option<Offer>,
        slot: SlotIndex,
        poller: &Poller,
    ) -> io::Result<()> {
        self.forget(from);
        self.set_slot_of(from, slot);
        let joined = offer.map_or(Ok(None), |theirs| self.joined(theirs, slot))?;
        match &mut self.connections[slot.0 as usize] {
            Some(connection) => connection.welcome(from, joined, slot, poller),
            None => Ok(()),
        }
    }

    fn free_slot(&mut self) -> SlotIndex {
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        // The table is bounded by the ranks and `max_strangers`, so the index fits.
        SlotIndex(index as u32)
    }

    fn close(&mut self, slot: SlotIndex) {
        self.connections[slot.0 as usize] = None;
    }

    /// Drops the oldest peer that is not a rank; returns false if every one is a rank. A rank's
    /// hello may have arrived without having been read. Its connection becomes the youngest, so the
    /// others are checked first.
    fn drop_a_stranger(&mut self) -> bool {
        for _ in 0..self.strangers.len() {
            let Some(oldest) = self.strangers.pop_front() else { return false };
            if !self.knows_the_token(oldest) {
                self.close(oldest);
                return true;
            }
            self.strangers.push_back(oldest);
        }
        false
    }

    fn knows_the_token(&self, slot: SlotIndex) -> bool {
        let hello =
            self.connections[slot.0 as usize].as_ref().and_then(|c| c.overhear(HELLO_BYTES));
        hello.is_some_and(|hello| parse_hello(&hello, self.token).is_some())
    }

    fn set_deaf(&mut self, deaf: bool, poller: &Poller) -> io::Result<()> {
        match (self.deaf, deaf) {
            (false, true) => poller.ignore(&self.listener, Watched::Listener)?,
            (true, false) => poller.change(&self.listener, Watched::Listener, false)?,
            (true, true) | (false, false) => {}
        }
        self.deaf = deaf;
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

/// Whether the cause was a lack of descriptors, memory or poller watches (`ENOSPC`). This process,
/// another process or the kernel may free some.
fn is_exhausted(error: &io::Error) -> bool {
    use nix::errno::Errno::{EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC};
    let code = error.raw_os_error();
    [EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC].iter().any(|&errno| code == Some(errno as i32))
}

/// Raises the soft limit of descriptors, because ranks and unknown peers may exceed it. A failure
/// is not fatal: a connection that gets no descriptor reports it.
fn raise_descriptor_limit(needed: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < needed
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    }
}

#[cfg(test)]
mod tests;
