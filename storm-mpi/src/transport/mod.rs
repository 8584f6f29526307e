//! Ordered byte streams between the ranks of a job: shared memory inside a node, TCP or RDMA
//! between nodes. Under buffered coscheduling, all streams pass through a segment that the node
//! serves (`buffered`).
//!
//! There is no helper thread: bytes move when the rank calls the library. A wait spins for a while
//! and then sleeps in the kernel, as `waiting` describes. No outcome depends on time, because a job
//! may be stopped at any instant. The engine interprets the bytes.

mod area;
mod awaiting;
mod buffered;
mod connection;
mod copying;
mod directory;
mod doorbell;
mod ends;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod giving_way;
mod greeting;
mod in_place;
mod inbox;
mod local;
mod mark;
mod measure;
mod poller;
mod processors;
mod rdma;
mod records;
pub(crate) mod ring;
mod short;
mod slot_index;
mod tcp;
mod tracer;
mod waiting;

use crate::error::{CommError, InitError, Violation};
use crate::page::OwnPlace;
use crate::pmi::client::PmiError;
use crate::rank::Rank;
use crate::segment::RankEnd;
pub(crate) use awaiting::Begun;
use directory::{Card, Directory, Place, random_u128};
use doorbell::BellName;
use inbox::LocalIndex;
use local::Local;
use poller::{Happening, Poller, Watched};
pub use rdma::DEVICE_VARIABLE as RDMA_DEVICE_VARIABLE;
pub(crate) use short::NeighbourRing;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use tcp::Tcp;
use waiting::{Waiting, Wish};

/// Names the address where peers on other nodes reach this node.
const NODE_ADDR_VARIABLE: &str = "STORM_NODE_ADDR";

/// The event that a rank waits for, if it waits. It decides which source the rank polls first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// The rank does not wait.
    Nothing,
    /// Any news from any peer.
    Anyone,
    /// The beginning of a message from this rank.
    From(Rank),
}

/// News from a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The peer, which may have sent and may accept more.
    pub(crate) peer: Rank,
}

/// The connections of one rank.
pub(crate) struct Transport {
    directory: Directory,
    poller: Poller,
    local: Option<Local>,
    tcp: Option<Tcp>,
    /// The segment under buffered coscheduling; `local` and `tcp` are empty then.
    buffered: Option<RankEnd>,
    waiting: Waiting,
    /// The place where the rank reports its behaviour, if the node wants reports.
    place: Option<OwnPlace>,
    since_socket_poll: u32,
    /// A wait whose first polls found nothing.
    begun: Option<Begun>,
    /// Kept for its allocation.
    happenings: Vec<Happening>,
    /// Number of events at sockets so far.
    socket_events: u64,
    /// An event at the sockets has ended a sleep and was not handled yet.
    has_slept: bool,
    closing: bool,
}

impl Transport {
    /// Joins the job and makes this rank reachable. With `has_threads`, several of its threads call
    /// the library.
    pub(crate) fn open(has_threads: bool) -> Result<Self, InitError> {
        // An error must be reported here, before the conversation with the process manager begins.
        // A rank that breaks off that conversation is ended at once, and its error is lost.
        let wish = Wish::from_environment()?;
        let buffered = buffered::is_wanted()?;
        let one_copy = in_place::is_wanted()?;
        let network = rdma::Wish::from_environment()?;
        let only = matches!(network, rdma::Wish::Verbs(_));
        let demanded = if buffered { None } else { network.demanded(node_address()?)? };
        let mut directory = Directory::join(has_threads)?;
        let poller = Poller::new().map_err(InitError::os("epoll"))?;
        if buffered && directory.pmi().is_some() {
            return Transport::open_buffered(directory, poller, &wish);
        }
        let (me, here) = (directory.me(), directory.local_ranks().len());
        let bell = BellName(random_u128().map_err(InitError::os("reading random bytes"))?);
        let local = match directory.place(me) {
            Some(Place::Here(index)) if here > 1 => {
                Some(Local::open(index, here, bell, one_copy, &poller)?)
            }
            _ => None,
        };
        let elsewhere = directory.size() - here;
        let mut tcp = if elsewhere > 0 {
            let tcp = Tcp::listen(me, node_address()?, elsewhere, &poller);
            let mut tcp = tcp.map_err(InitError::os("listening for peers"))?;
            let adapter = match demanded {
                Some(adapter) => Some(adapter),
                None => network.adapter(node_address()?, directory.size())?,
            };
            if let Some(adapter) = adapter {
                let used = tcp.use_adapter(adapter, only, &poller);
                used.map_err(InitError::os("waiting for completions"))?;
            }
            Some(tcp)
        } else {
            None
        };
        let token = directory.publish(&Card {
            pid: std::process::id(),
            inbox_fd: local.as_ref().map_or(-1, Local::inbox_fd),
            mark: local.as_ref().map_or(0, Local::mark),
            bell,
            address: tcp.as_ref().map(Tcp::address),
        })?;
        if let Some(tcp) = &mut tcp {
            tcp.set_token(token);
        }
        let waiting = wish.waiting(here > processors::of_this_node(), elsewhere > 0);
        let place = OwnPlace::from_environment();
        if let Some(place) = &place {
            place.introduce(std::process::id(), poller.as_raw_fd());
        }
        Ok(Transport {
            directory,
            poller,
            local,
            tcp,
            buffered: None,
            waiting,
            place,
            since_socket_poll: 0,
            begun: None,
            happenings: Vec::new(),
            socket_events: 0,
            has_slept: false,
            closing: false,
        })
    }

    /// Sets whether waits from now on are for all members of a communicator.
    pub(crate) fn wait_for_all(&mut self, all: bool) {
        self.waiting.for_all(all);
        if all {
            self.say_communicating();
        }
    }

    /// Reports that a message has arrived, or was taken by its receiver. All messages of a
    /// collective count as one.
    pub(crate) fn has_communicated(&self) {
        if !self.waiting.is_for_all() {
            self.say_communicating();
        }
    }

    fn say_communicating(&self) {
        if let Some(place) = &self.place {
            place.communicates();
        }
    }

    pub(crate) fn me(&self) -> Rank {
        self.directory.me()
    }

    pub(crate) fn size(&self) -> usize {
        self.directory.size()
    }

    /// The ranks of this node, in order.
    pub(crate) fn node_ranks(&self) -> &[Rank] {
        self.directory.local_ranks()
    }

    /// Sends as much of the two buffers as the connection to `peer` accepts now. If bytes are left,
    /// news from `peer` tells when to try again.
    pub(crate) fn send(&mut self, peer: Rank, buffers: [&[u8]; 2]) -> Result<usize, CommError> {
        if let Some(buffered) = &mut self.buffered {
            return buffered.send(peer, buffers);
        }
        let place = self.place(peer)?;
        if !self.knows(peer, place) {
            if self.closing {
                return Ok(buffers[0].len() + buffers[1].len());
            }
            self.introduce(peer, place)?;
        }
        let sent = match (place, &mut self.local, &mut self.tcp) {
            (Place::Here(index), Some(local), _) => {
                let sent = local.send(index, buffers);
                if let Some(place) = &self.place {
                    place.has_sent(index.0);
                }
                sent
            }
            (Place::Elsewhere, _, Some(tcp)) => tcp.send(peer, buffers, &self.poller),
            _ => return Err(CommError::NoAddress { rank: peer }),
        };
        match sent {
            Ok(n) => Ok(n),
            // A peer leaves only when no rank needs anything from it or for it.
            Err(_) if self.closing => Ok(buffers[0].len() + buffers[1].len()),
            Err(error) => Err(lost(peer, error)),
        }
    }

    /// Takes up to `into.len()` of the bytes that `peer` has sent; 0 if there are none now.
    pub(crate) fn read(&mut self, peer: Rank, into: &mut [u8]) -> Result<usize, CommError> {
        if let Some(buffered) = &mut self.buffered {
            return Ok(buffered.read(peer, into));
        }
        if let (Place::Elsewhere, Some(tcp)) = (self.place(peer)?, &mut self.tcp)
            && let Some(read) = tcp.read_directly(peer, into)
        {
            return match read {
                Err(_) if self.closing => {
                    tcp.forget(peer);
                    Ok(0)
                }
                read => read.map_err(|error| lost(peer, error)),
            };
        }
        let bytes = self.unread(peer)?.unwrap_or(0).min(into.len());
        if bytes > 0 {
            self.copy(peer, 0, &mut into[..bytes]);
            self.advance(peer, bytes)?;
        }
        Ok(bytes)
    }

    /// Number of bytes from `peer` that can be copied now; of a socket, the number that was read
    /// ahead. `None` if the node moves the bytes: they can only be read.
    #[inline]
    pub(crate) fn unread(&mut self, peer: Rank) -> Result<Option<usize>, CommError> {
        match (self.place(peer)?, &mut self.local, &mut self.tcp) {
            (Place::Here(index), Some(local), _) => match local.unread(index) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => Err(lost(peer, error)),
            },
            (Place::Elsewhere, _, Some(tcp)) => match tcp.unread(peer) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(_) if self.closing => {
                    tcp.forget(peer);
                    Ok(Some(0))
                }
                Err(error) => Err(lost(peer, error)),
            },
            _ => Ok(None),
        }
    }

    /// Copies the header of a frame from the bytes that `peer` has sent. As many bytes must be
    /// unread.
    #[inline]
    pub(crate) fn copy_head<const N: usize>(&self, peer: Rank, into: &mut [u8; N]) {
        match (self.directory.place(peer), &self.local) {
            (Some(Place::Here(index)), Some(local)) => local.copy(index, 0, into),
            _ => self.copy(peer, 0, into),
        }
    }

    /// Copies bytes that `peer` has sent, from the `skip`-th on. As many must be unread.
    #[inline]
    pub(crate) fn copy(&self, peer: Rank, skip: usize, into: &mut [u8]) {
        match (self.directory.place(peer), &self.local, &self.tcp) {
            (Some(Place::Here(index)), Some(local), _) => local.copy(index, skip, into),
            (Some(Place::Elsewhere), _, Some(tcp)) => tcp.copy(peer, skip, into),
            _ => {}
        }
    }

    /// Releases `bytes` unread bytes.
    #[inline]
    pub(crate) fn advance(&mut self, peer: Rank, bytes: usize) -> Result<(), CommError> {
        match (self.place(peer)?, &mut self.local, &mut self.tcp) {
            (Place::Here(index), Some(local), _) => {
                let wanted = local.advance(index, bytes);
                if wanted { self.poke(peer, index) } else { Ok(()) }
            }
            (Place::Elsewhere, _, Some(tcp)) => match tcp.advance(peer, bytes) {
                Err(error) if !self.closing => Err(lost(peer, error)),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether the node moves this rank's bytes, in slices.
    pub(crate) fn is_buffered(&self) -> bool {
        self.buffered.is_some()
    }

    /// Whether `peer` may read messages in this rank's memory.
    pub(crate) fn lends_to(&self, peer: Rank) -> bool {
        let here = matches!(self.directory.place(peer), Some(Place::Here(_)));
        here && self.local.as_ref().is_some_and(|local| local.mark() != 0)
    }

    /// Records that peers read `bytes` bytes of this rank's announced messages before they answer.
    pub(crate) fn are_read(&mut self, bytes: usize) {
        self.waiting.are_read(bytes as u64);
    }

    /// From here on, no peer finds anything in this rank's memory.
    pub(crate) fn lend_no_more(&mut self) {
        if let Some(local) = &mut self.local {
            local.lend_no_more();
        }
    }

    /// Fills `into` from the memory of `peer`. Returns false if the memory cannot be read; the
    /// contents of `into` are then undefined.
    pub(crate) fn read_in_place(
        &mut self,
        peer: Rank,
        from: u64,
        into: &mut [u8],
    ) -> Result<bool, CommError> {
        let place = self.place(peer)?;
        if !self.knows(peer, place) {
            self.introduce(peer, place)?;
        }
        match (place, &mut self.local) {
            (Place::Here(index), Some(local)) => {
                local.read_in_place(index, from, into).map_err(|error| lost(peer, error))
            }
            _ => Ok(false),
        }
    }

    /// Enters the job's last barrier. From here on a peer that closes its connection has finished.
    pub(crate) fn begin_close(&mut self) -> Result<(), CommError> {
        self.closing = true;
        if let Some(pmi) = self.directory.pmi() {
            self.poller.watch(&*pmi, Watched::ProcessManager, false).map_err(CommError::Wait)?;
            pmi.barrier_in()?;
        }
        Ok(())
    }

    /// Whether the last barrier is over.
    pub(crate) fn try_close(&mut self) -> Result<bool, CommError> {
        match self.directory.pmi() {
            None => Ok(true),
            Some(pmi) => Ok(pmi.try_barrier_out()?),
        }
    }

    /// Takes leave of the process manager.
    pub(crate) fn leave(&mut self) -> Result<(), PmiError> {
        self.directory.pmi().map_or(Ok(()), |pmi| pmi.finalize())
    }

    /// Requests the end of the whole job.
    pub(crate) fn abort(&mut self, exit_code: i32) -> Result<(), PmiError> {
        self.directory.pmi().map_or(Ok(()), |pmi| pmi.abort(exit_code))
    }

    fn place(&self, peer: Rank) -> Result<Place, CommError> {
        let size = self.size() as u32;
        self.directory.place(peer).ok_or(CommError::NoSuchRank { rank: peer, size })
    }

    fn knows(&self, peer: Rank, place: Place) -> bool {
        match place {
            Place::Here(index) => self.local.as_ref().is_some_and(|local| local.knows(index)),
            Place::Elsewhere => self.tcp.as_ref().is_some_and(|tcp| tcp.knows(peer)),
        }
    }

    /// Opens the connection to a peer at the address on its card.
    fn introduce(&mut self, peer: Rank, place: Place) -> Result<(), CommError> {
        if self.closing {
            // Inside the last barrier the process manager answers nothing else.
            return Err(CommError::NoAddress { rank: peer });
        }
        let card = self.directory.card(peer)?;
        let opened = match (place, &mut self.local, &mut self.tcp) {
            (Place::Here(index), Some(local), _) => local.attach(index, &card),
            (Place::Elsewhere, _, Some(tcp)) => match card.address {
                Some(address) => tcp.connect(peer, address, &self.poller),
                None => return Err(CommError::NoAddress { rank: peer }),
            },
            _ => return Err(CommError::NoAddress { rank: peer }),
        };
        opened.map_err(|source| CommError::Unreachable { rank: peer, source })
    }

    fn poke(&mut self, peer: Rank, index: LocalIndex) -> Result<(), CommError> {
        let place = Place::Here(index);
        if !self.knows(peer, place) {
            self.introduce(peer, place)?;
        }
        match self.local.as_ref().map_or(Ok(()), |local| local.poke(index)) {
            Err(error) if !self.closing => Err(lost(peer, error)),
            _ => Ok(()),
        }
    }
}

/// The address of this node that peers reach: from the environment, else loopback.
fn node_address() -> Result<IpAddr, InitError> {
    match std::env::var(NODE_ADDR_VARIABLE) {
        Err(_) => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Ok(value) => value.trim().parse().map_err(|_| InitError::NodeAddress { value }),
    }
}

#[cold]
fn lost(rank: Rank, source: io::Error) -> CommError {
    match source.kind() {
        io::ErrorKind::InvalidData => {
            CommError::Protocol { rank, violation: Violation::CorruptRing }
        }
        _ => CommError::PeerLost { rank, source },
    }
}
