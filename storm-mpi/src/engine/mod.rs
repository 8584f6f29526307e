//! Point-to-point messages over the transport's byte streams: protocol, matching, progress.
//!
//! The engine knows bytes, not types, and ranks, not nodes. The Rust API and the C ABI are thin
//! layers over `start_*`, [`Engine::wait`] and [`Engine::test`]. After any error of the transport
//! or the protocol, the engine ends. It forgets all requests, so it never touches lent memory
//! again, and every later call fails.

mod arrivals;
mod cancel;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod giving_way;
mod matching;
mod peer;
mod requests;
mod short;

use crate::envelope::{Address, Context, Envelope, Pattern, SendMode, Source, Status};
use crate::error::{CommError, InitError};
use crate::pmi::client::PmiError;
use crate::rank::Rank;
use crate::segment::Call;
use crate::transport::{Awaits, News, Transport};
use frame::{Announced, FRAME_BYTES, Frame};
pub use matching::MessageId;
use matching::{Body, Matching, Unexpected};
pub(crate) use peer::EAGER_MAX_BYTES_BUFFERED;
use peer::{EAGER_MAX_BYTES, OutItem, Payload, Peer, eager_cost};
pub(crate) use requests::{Lent, LentMut};
pub use requests::{Received, RequestId};
use requests::{Requests, State};

/// The message engine of a rank.
pub(crate) struct Engine {
    transport: Transport,
    me: Rank,
    peers: Vec<Peer>,
    matching: Matching,
    requests: Requests,
    news: Vec<News>,
    /// Bytes of this rank's memory that peers may read.
    lent: usize,
    /// Number of times that there was news.
    heard: u64,
    ended: bool,
}

impl Engine {
    /// Joins the job. `has_threads` means that several of its threads call the library.
    pub(crate) fn open(has_threads: bool) -> Result<Self, InitError> {
        let transport = Transport::open(has_threads)?;
        Ok(Engine {
            me: transport.me(),
            peers: (0..transport.size()).map(|_| Peer::new()).collect(),
            matching: Matching::default(),
            requests: Requests::default(),
            news: Vec::new(),
            lent: 0,
            heard: 0,
            ended: false,
            transport,
        })
    }

    /// Sets whether waits from now on are for all members of a communicator.
    pub(crate) fn wait_for_all(&mut self, all: bool) {
        self.transport.wait_for_all(all);
    }

    pub(crate) fn me(&self) -> Rank {
        self.me
    }

    pub(crate) fn size(&self) -> usize {
        self.peers.len()
    }

    /// Whether nodes move the bytes, in slices.
    pub(crate) fn is_in_slices(&self) -> bool {
        self.transport.is_buffered()
    }

    /// Starts a send.
    ///
    /// # Safety
    /// `data` must be valid for reads, and not written, until the request is done or a call has
    /// failed with anything but an argument error.
    pub(crate) unsafe fn start_send(
        &mut self,
        address: Address,
        mode: SendMode,
        data: Lent,
    ) -> Result<RequestId, CommError> {
        // SAFETY: the caller vouches for the memory.
        let bytes = unsafe { data.bytes() };
        if mode == SendMode::Standard && self.send_short(address, bytes)? {
            return Ok(self.requests.add(State::Done { received: None }));
        }
        // SAFETY: the caller vouches for the memory, under the same contract.
        let request = unsafe { self.begin_send(address, mode, data)? };
        Ok(request.unwrap_or_else(|| self.requests.add(State::Done { received: None })))
    }

    /// Starts a send. Returns `None` if nothing more must be done; most sends need no request.
    ///
    /// # Safety
    /// Like [`Engine::start_send`].
    pub(crate) unsafe fn begin_send(
        &mut self,
        Address { to, context, tag }: Address,
        mode: SendMode,
        data: Lent,
    ) -> Result<Option<RequestId>, CommError> {
        self.check_rank(to)?;
        let envelope = Envelope { context, tag, bytes: data.bytes };
        let sent = if to == self.me {
            Ok(Some(self.send_to_self(envelope, mode, data)))
        } else {
            self.send_to_peer(to, envelope, mode, data)
        };
        self.end_if_failed(sent)
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// `into` must be valid for writes, and not otherwise touched, until the request is done or a
    /// call has failed with anything but an argument error.
    pub(crate) unsafe fn start_recv(
        &mut self,
        pattern: Pattern,
        into: LentMut,
    ) -> Result<RequestId, CommError> {
        if let Source::Rank(rank) = pattern.source {
            self.check_rank(rank)?;
        }
        let recv = self.requests.add(State::RecvPosted { into, from: pattern.source });
        let matched = match self.matching.take_unexpected(&pattern) {
            None => {
                self.matching.post(pattern, recv);
                Ok(())
            }
            Some(message) => self.receive_unexpected(recv, into, message),
        };
        self.end_if_failed(matched.map(|()| recv))
    }

    /// Starts a receive of a message that [`Engine::hold`] has taken.
    ///
    /// # Safety
    /// Like [`Engine::start_recv`].
    pub(crate) unsafe fn start_recv_of(
        &mut self,
        message: MessageId,
        into: LentMut,
    ) -> Result<RequestId, CommError> {
        let message = self.matching.take_held(message).ok_or(CommError::Ended)?;
        let recv = self.requests.add(State::RecvPosted { into, from: message.from.into() });
        let matched = self.receive_unexpected(recv, into, message);
        self.end_if_failed(matched.map(|()| recv))
    }

    /// Searches as [`Engine::look_for`] does, and takes the message: no other receive or probe gets
    /// it.
    pub(crate) fn hold(
        &mut self,
        pattern: &Pattern,
    ) -> Result<Option<(MessageId, Status)>, CommError> {
        self.look_for(pattern)?;
        Ok(self.matching.hold(pattern))
    }

    /// Waits until a request is done and collects it. A send gives `None`.
    pub(crate) fn wait(&mut self, id: RequestId) -> Result<Option<Received>, CommError> {
        let mut waited = false;
        loop {
            if let Some(done) = self.collect(id)? {
                // A send counts only if it is answered.
                if waited && done.is_none() {
                    self.transport.has_communicated();
                }
                return Ok(done);
            }
            self.progress_for(self.awaits(id))?;
            waited = true;
        }
    }

    /// Collects a request if it is done. Does not wait.
    pub(crate) fn test(&mut self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        if let Some(done) = self.collect(id)? {
            return Ok(Some(done));
        }
        self.progress(false)?;
        self.collect(id)
    }

    /// Whether a request is done. Neither collects it nor moves bytes.
    pub(crate) fn is_done(&self, id: RequestId) -> Result<bool, CommError> {
        match self.requests.get(id) {
            Some(State::Done { .. } | State::Cancelled) => Ok(true),
            Some(_) => Ok(false),
            None => Err(CommError::Ended),
        }
    }

    /// The oldest message that the pattern accepts and no receive has taken. It stays there. Moves
    /// no bytes.
    pub(crate) fn look_for(&self, pattern: &Pattern) -> Result<Option<Status>, CommError> {
        if self.ended {
            return Err(CommError::Ended);
        }
        if let Source::Rank(rank) = pattern.source {
            self.check_rank(rank)?;
        }
        Ok(self.matching.look_for(pattern))
    }

    /// The ranks of this node, in order.
    pub(crate) fn node_ranks(&self) -> &[Rank] {
        self.transport.node_ranks()
    }

    /// Sends everything in the outboxes, then waits until every rank has called `finish`.
    ///
    /// Peers are served until the end, because a peer may still wait for this rank to take its
    /// messages.
    pub(crate) fn finish(&mut self) -> Result<(), CommError> {
        while self.peers.iter().any(|peer| !peer.outbox.is_empty()) {
            self.progress(true)?;
        }
        let begun = self.transport.begin_close();
        self.end_if_failed(begun)?;
        loop {
            let closed = self.transport.try_close();
            if self.end_if_failed(closed)? {
                break;
            }
            self.progress(true)?;
        }
        self.end();
        Ok(self.transport.leave()?)
    }

    /// The descriptor of a collective that the nodes carry out. `None` if they do not.
    pub(crate) fn call_frame(
        &mut self,
        context: Context,
        members: &[Rank],
        call: Call<'_>,
    ) -> Result<Option<Vec<u8>>, CommError> {
        if self.ended {
            return Err(CommError::Ended);
        }
        Ok(self.transport.call_frame(context, members, call))
    }

    /// Posts the collective to the node. Returns false if there is no room now; news tells when to
    /// try again.
    pub(crate) fn post_call(
        &mut self,
        context: Context,
        descriptor: &[u8],
    ) -> Result<bool, CommError> {
        let posted = self.transport.post_call(context, descriptor);
        self.end_if_failed(posted)
    }

    /// Takes the result of a collective that is over.
    pub(crate) fn take_result(&mut self) -> Option<Option<Vec<u8>>> {
        self.transport.take_result()
    }

    /// Requests the end of the whole job.
    pub(crate) fn abort(&mut self, exit_code: i32) -> Result<(), PmiError> {
        self.end();
        self.transport.abort(exit_code)
    }

    fn check_rank(&self, rank: Rank) -> Result<(), CommError> {
        if self.ended {
            return Err(CommError::Ended);
        }
        if rank.index() < self.peers.len() {
            return Ok(());
        }
        Err(CommError::NoSuchRank { rank, size: self.peers.len() as u32 })
    }

    fn end(&mut self) {
        self.ended = true;
        self.transport.lend_no_more();
        self.requests.clear();
        self.matching.clear();
        self.peers.iter_mut().for_each(|peer| *peer = Peer::new());
    }

    fn end_if_failed<T>(&mut self, outcome: Result<T, CommError>) -> Result<T, CommError> {
        if outcome.is_err() {
            self.end();
        }
        outcome
    }

    /// Collects a request if it is done. Moves no bytes.
    pub(crate) fn collect(&mut self, id: RequestId) -> Result<Option<Option<Received>>, CommError> {
        match self.requests.get(id) {
            Some(State::Done { received }) => {
                let received = *received;
                self.requests.remove(id);
                if received.is_some() {
                    self.transport.has_communicated();
                }
                Ok(Some(received))
            }
            Some(State::Cancelled) => {
                self.requests.remove(id);
                Ok(Some(None))
            }
            Some(_) => Ok(None),
            None => Err(CommError::Ended),
        }
    }

    /// Moves bytes. With `block` it waits for the first news.
    pub(crate) fn progress(&mut self, block: bool) -> Result<(), CommError> {
        self.progress_for(if block { Awaits::Anyone } else { Awaits::Nothing })
    }

    /// The source to poll first for a request that is not done: the peer from which the beginning
    /// of a message is awaited.
    fn awaits(&self, id: RequestId) -> Awaits {
        let from = match self.requests.get(id) {
            Some(&State::RecvPosted { from: Source::Rank(rank), .. }) => rank,
            Some(&(State::SendAnnounced { to, .. } | State::SendAskedBack { to, .. })) => to,
            _ => return Awaits::Anyone,
        };
        let peer = &self.peers[from.index()];
        // A long payload is better read straight to its destination, and unsent bytes need
        // attention, too.
        if peer.reading.is_between_frames() && peer.outbox.is_empty() {
            Awaits::From(from)
        } else {
            Awaits::Anyone
        }
    }

    /// Moves bytes, and waits for the first news when anything is awaited.
    fn progress_for(&mut self, awaits: Awaits) -> Result<(), CommError> {
        if self.ended {
            return Err(CommError::Ended);
        }
        let mut news = std::mem::take(&mut self.news);
        news.clear();
        let outcome = self.transport.poll(awaits, &mut news).and_then(|()| {
            news.iter().try_for_each(|&News { peer }| {
                self.drain(peer)?;
                self.flush(peer)
            })
        });
        self.heard += u64::from(!news.is_empty());
        self.news = news;
        self.end_if_failed(outcome)
    }

    fn send_to_peer(
        &mut self,
        to: Rank,
        envelope: Envelope,
        mode: SendMode,
        data: Lent,
    ) -> Result<Option<RequestId>, CommError> {
        let cost = eager_cost(&envelope);
        let may_be_eager = self.may_be_eager(&envelope, mode);
        let peer = &mut self.peers[to.index()];
        if may_be_eager && cost <= peer.credit {
            peer.credit -= cost;
            self.send_eagerly(to, envelope, data)?;
            return Ok(None);
        }
        let send = self.requests.add(State::SendAnnounced { to, data });
        let at = if self.transport.lends_to(to) { data.start.expose_provenance() } else { 0 };
        self.lend(to, |lent| lent.wrapping_add(data.bytes));
        let announced = Announced { send, at: at as u64 };
        self.post_frame(to, Frame::Rts { envelope, announced })?;
        Ok(Some(send))
    }

    /// Whether a message may be sent before its receiver has asked for it. A synchronous send is
    /// always announced, because the receiver's request tells it that it is received.
    fn may_be_eager(&self, envelope: &Envelope, mode: SendMode) -> bool {
        mode == SendMode::Standard && envelope.bytes <= self.eager_max_bytes()
    }

    /// The longest message that either side sends without a request.
    fn eager_max_bytes(&self) -> usize {
        if self.transport.is_buffered() { EAGER_MAX_BYTES_BUFFERED } else { EAGER_MAX_BYTES }
    }

    /// Records that a peer may read in this rank's memory, or no longer.
    fn lend(&mut self, to: Rank, lent: impl FnOnce(usize) -> usize) {
        if self.transport.lends_to(to) {
            self.lent = lent(self.lent);
            self.transport.are_read(self.lent);
        }
    }

    /// Sends straight from the application's memory, and copies the bytes that do not fit now.
    fn send_eagerly(&mut self, to: Rank, envelope: Envelope, data: Lent) -> Result<(), CommError> {
        // SAFETY: lent for reading until this send is done, which is after this call.
        let payload = unsafe { data.bytes() };
        let head = Frame::Eager(envelope).encode();
        let outbox = &mut self.peers[to.index()].outbox;
        let sent = if outbox.is_empty() { self.transport.send(to, [&head, payload])? } else { 0 };
        if sent < FRAME_BYTES + payload.len() {
            let payload = Payload::Own(payload.to_vec());
            outbox.push_back(OutItem { head, payload, sent, completes: None });
        }
        Ok(())
    }

    fn send_to_self(&mut self, envelope: Envelope, mode: SendMode, data: Lent) -> RequestId {
        let me = self.me;
        if let Some(recv) = self.matching.take_posted(me, &envelope) {
            self.copy_to_receive(recv, me, envelope, data);
            return self.requests.add(State::Done { received: None });
        }
        let cost = eager_cost(&envelope);
        let may_be_eager = self.may_be_eager(&envelope, mode);
        let credit = &mut self.peers[me.index()].credit;
        let (body, request) = if may_be_eager && cost <= *credit {
            *credit -= cost;
            // SAFETY: lent for reading until this send is done, which is after this call.
            let bytes = unsafe { data.bytes() }.to_vec();
            (Body::Eager(bytes), self.requests.add(State::Done { received: None }))
        } else {
            let send = self.requests.add(State::SendAnnounced { to: me, data });
            (Body::Announced(Announced { send, at: 0 }), send)
        };
        self.matching.keep(Unexpected { from: me, envelope, body });
        request
    }

    fn receive_unexpected(
        &mut self,
        recv: RequestId,
        into: LentMut,
        message: Unexpected,
    ) -> Result<(), CommError> {
        let Unexpected { from, envelope, body } = message;
        match body {
            Body::Eager(bytes) => {
                let data = Lent { start: bytes.as_ptr(), bytes: bytes.len() };
                self.copy_to_receive(recv, from, envelope, data);
                self.give_credit_back(from, eager_cost(&envelope))
            }
            Body::Announced(own) if from == self.me => {
                if let Some(&State::SendAnnounced { data, .. }) = self.requests.get(own.send) {
                    self.copy_to_receive(recv, from, envelope, data);
                    self.requests.set(own.send, State::Done { received: None });
                }
                Ok(())
            }
            Body::Announced(there) => self.receive_announced(recv, into, from, &envelope, there),
        }
    }
}
