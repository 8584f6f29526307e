//! The engine's traffic with one peer: reads frames and handles them, writes the outbox.

use super::frame::{Announced, FRAME_BYTES, Frame};
use super::matching::{Body, Unexpected};
use super::peer::{EAGER_CREDIT_BYTES, OutItem, Payload, Reading, eager_cost};
use super::requests::{Lent, LentMut, Received, RequestId, State};
use super::{Engine, Status};
use crate::envelope::Envelope;
use crate::error::{CommError, Violation};
use crate::rank::Rank;

/// Bytes that are discarded at a time of a message longer than its buffer.
const DISCARD_BYTES: usize = 4096;

/// The state of a peer's next frame.
enum Next {
    /// The frame was a whole eager message, which has been taken.
    Taken,
    /// There is no frame.
    Nothing,
    /// The frame must be read piece by piece.
    Pieces,
}

impl Engine {
    /// Reads and handles everything that the peer has sent. Every byte has a destination, so the
    /// loop ends only when no bytes are left.
    pub(super) fn drain(&mut self, peer: Rank) -> Result<(), CommError> {
        loop {
            match self.take_whole(peer)? {
                Next::Taken => {}
                Next::Nothing => return Ok(()),
                Next::Pieces if self.read_once(peer)? => {}
                Next::Pieces => return Ok(()),
            }
        }
    }

    /// Takes an eager message that has arrived as a whole, straight to its destination.
    fn take_whole(&mut self, from: Rank) -> Result<Next, CommError> {
        if !self.peers[from.index()].reading.is_between_frames() {
            return Ok(Next::Pieces);
        }
        let unread = match self.transport.unread(from)? {
            Some(0) => return Ok(Next::Nothing),
            Some(unread) if unread >= FRAME_BYTES => unread,
            _ => return Ok(Next::Pieces),
        };
        let mut head = [0; FRAME_BYTES];
        self.transport.copy_head(from, &mut head);
        let Ok(Frame::Eager(envelope)) = Frame::decode(&head) else { return Ok(Next::Pieces) };
        if unread - FRAME_BYTES < envelope.bytes {
            return Ok(Next::Pieces);
        }
        let cost = self
            .charge(from, &envelope)
            .map_err(|violation| CommError::Protocol { rank: from, violation })?;
        let posted = self.matching.take_posted(from, &envelope);
        match posted.map(|recv| (recv, self.requests.get(recv))) {
            Some((recv, Some(&State::RecvPosted { into, .. }))) => {
                let bytes = envelope.bytes.min(into.bytes);
                if bytes > 0 {
                    // SAFETY: lent for writing until the request is done, and it is not done yet.
                    let place = unsafe { std::slice::from_raw_parts_mut(into.start, bytes) };
                    self.transport.copy(from, FRAME_BYTES, place);
                }
                let status = Status { source: from, tag: envelope.tag, bytes: envelope.bytes };
                self.complete(recv, status, into);
                self.transport.advance(from, FRAME_BYTES + envelope.bytes)?;
                self.give_credit_back(from, cost)?;
            }
            _ => {
                let mut bytes = vec![0; envelope.bytes];
                self.transport.copy(from, FRAME_BYTES, &mut bytes);
                self.transport.advance(from, FRAME_BYTES + envelope.bytes)?;
                self.matching.keep(Unexpected { from, envelope, body: Body::Eager(bytes) });
            }
        }
        Ok(Next::Taken)
    }

    /// Charges the message's cost to the peer's eager credit.
    #[inline]
    pub(super) fn charge(&mut self, from: Rank, envelope: &Envelope) -> Result<usize, Violation> {
        let longest = self.eager_max_bytes();
        let (peer, cost) = (&mut self.peers[from.index()], eager_cost(envelope));
        if envelope.bytes > longest || cost > peer.given {
            return Err(Violation::OverCredit);
        }
        peer.given -= cost;
        Ok(cost)
    }

    /// Writes as much of the outbox as the connection takes.
    pub(super) fn flush(&mut self, to: Rank) -> Result<(), CommError> {
        let outbox = &mut self.peers[to.index()].outbox;
        while let Some(item) = outbox.front_mut() {
            let (rest, left) = item.rest();
            let sent = self.transport.send(to, rest)?;
            item.sent += sent;
            if sent < left {
                break;
            }
            let completes = item.completes;
            outbox.pop_front();
            if let Some(send) = completes {
                self.requests.set(send, State::Done { received: None });
            }
        }
        Ok(())
    }

    /// Sends a frame without payload, behind the contents of the outbox.
    pub(super) fn post_frame(&mut self, to: Rank, frame: Frame) -> Result<(), CommError> {
        let (head, payload) = (frame.encode(), Payload::Own(Vec::new()));
        self.post(to, OutItem { head, payload, sent: 0, completes: None })
    }

    /// Reads an announced message in its sender's memory, or asks for it.
    pub(super) fn receive_announced(
        &mut self,
        recv: RequestId,
        into: LentMut,
        from: Rank,
        envelope: &Envelope,
        Announced { send, at }: Announced,
    ) -> Result<(), CommError> {
        let bytes = envelope.bytes.min(into.bytes);
        if at != 0 && bytes > 0 {
            // SAFETY: lent for writing until the request is done, and it is not done yet.
            let place = unsafe { std::slice::from_raw_parts_mut(into.start, bytes) };
            if self.transport.read_in_place(from, at, place)? {
                let status = Status { source: from, tag: envelope.tag, bytes: envelope.bytes };
                self.complete(recv, status, into);
                return self.post_frame(from, Frame::Taken { send });
            }
        }
        self.expect_data(recv, into, from, envelope);
        self.post_frame(from, Frame::Cts { send, recv })
    }

    /// Notes that the message announced by `from` will arrive in `recv`'s buffer.
    pub(super) fn expect_data(
        &mut self,
        recv: RequestId,
        into: LentMut,
        from: Rank,
        envelope: &Envelope,
    ) {
        let status = Status { source: from, tag: envelope.tag, bytes: envelope.bytes };
        self.requests.set(recv, State::RecvMatched { into, written: 0, status });
    }

    /// Completes a receive whose message is in this process already.
    pub(super) fn copy_to_receive(
        &mut self,
        recv: RequestId,
        from: Rank,
        envelope: Envelope,
        data: Lent,
    ) {
        let Some(&State::RecvPosted { into, .. }) = self.requests.get(recv) else { return };
        let bytes = data.bytes.min(into.bytes);
        if bytes > 0 {
            // SAFETY: both are lent until their requests are done, and the lender of `into` vouches
            // that nothing else refers to it, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(data.start, into.start, bytes) };
        }
        let status = Status { source: from, tag: envelope.tag, bytes: envelope.bytes };
        self.complete(recv, status, into);
    }

    /// Returns the credit of a consumed eager message, in batches of half the credit.
    #[inline]
    pub(super) fn give_credit_back(&mut self, to: Rank, cost: usize) -> Result<(), CommError> {
        let me = self.me();
        let peer = &mut self.peers[to.index()];
        if to == me {
            peer.credit += cost;
            return Ok(());
        }
        peer.owed += cost;
        if peer.owed < EAGER_CREDIT_BYTES / 2 {
            return Ok(());
        }
        let bytes = std::mem::take(&mut peer.owed);
        peer.given += bytes;
        self.post_frame(to, Frame::Credit { bytes })
    }

    fn post(&mut self, to: Rank, item: OutItem) -> Result<(), CommError> {
        let outbox = &mut self.peers[to.index()].outbox;
        outbox.push_back(item);
        // Behind other items, the frame waits for the same news as they do.
        if outbox.len() == 1 { self.flush(to) } else { Ok(()) }
    }

    /// Reads one piece from the peer. Returns false if there is nothing to read now.
    fn read_once(&mut self, peer: Rank) -> Result<bool, CommError> {
        let mut reading =
            std::mem::replace(&mut self.peers[peer.index()].reading, Reading::start());
        let (read, over) = match &mut reading {
            Reading::Head { head, got } => {
                let read = self.transport.read(peer, &mut head[*got..])?;
                *got += read;
                (read, *got == FRAME_BYTES)
            }
            Reading::Direct { recv, left, .. } => {
                let (recv, most) = (*recv, *left);
                let read = self.read_into(peer, recv, most)?;
                *left -= read;
                (read, *left == 0)
            }
            Reading::Staged { bytes, got, .. } => {
                let read = self.transport.read(peer, &mut bytes[*got..])?;
                *got += read;
                (read, *got == bytes.len())
            }
        };
        if !over {
            self.peers[peer.index()].reading = reading;
            return Ok(read > 0);
        }
        self.end_of_piece(peer, reading)?;
        Ok(true)
    }

    fn end_of_piece(&mut self, peer: Rank, piece: Reading) -> Result<(), CommError> {
        match piece {
            Reading::Head { head, .. } => Frame::decode(&head)
                .map_err(|violation| CommError::Protocol { rank: peer, violation })
                .and_then(|frame| self.act_on(peer, frame)),
            Reading::Direct { recv, cost, .. } => {
                if let Some(&State::RecvMatched { into, status, .. }) = self.requests.get(recv) {
                    self.complete(recv, status, into);
                }
                cost.map_or(Ok(()), |cost| self.give_credit_back(peer, cost))
            }
            Reading::Staged { envelope, bytes, .. } => {
                // A receive may have been posted while the message arrived.
                let Some(recv) = self.matching.take_posted(peer, &envelope) else {
                    let body = Body::Eager(bytes);
                    self.matching.keep(Unexpected { from: peer, envelope, body });
                    return Ok(());
                };
                let data = Lent { start: bytes.as_ptr(), bytes: bytes.len() };
                self.copy_to_receive(recv, peer, envelope, data);
                self.give_credit_back(peer, eager_cost(&envelope))
            }
        }
    }

    fn act_on(&mut self, peer: Rank, frame: Frame) -> Result<(), CommError> {
        let broke = |violation| Err(CommError::Protocol { rank: peer, violation });
        match frame {
            Frame::Eager(envelope) => match self.begin_eager(peer, envelope) {
                Ok(Some(whole)) => self.end_of_piece(peer, whole),
                Ok(None) => Ok(()),
                Err(violation) => broke(violation),
            },
            Frame::Rts { envelope, announced } => {
                match self.matching.take_posted(peer, &envelope) {
                    None => {
                        let body = Body::Announced(announced);
                        self.matching.keep(Unexpected { from: peer, envelope, body });
                        Ok(())
                    }
                    Some(recv) => match self.requests.get(recv) {
                        Some(&State::RecvPosted { into, .. }) => {
                            self.receive_announced(recv, into, peer, &envelope, announced)
                        }
                        _ => broke(Violation::NoSuchRequest),
                    },
                }
            }
            Frame::Cts { send, recv } => match self.announced(send) {
                Some((to, data)) if to == peer => {
                    self.lend(peer, |lent| lent.wrapping_sub(data.bytes));
                    self.requests.set(send, State::SendFlowing);
                    let head = Frame::Data { recv, bytes: data.bytes }.encode();
                    let payload = Payload::Lent(data);
                    self.post(peer, OutItem { head, payload, sent: 0, completes: Some(send) })
                }
                _ => broke(Violation::NoSuchRequest),
            },
            Frame::Taken { send } => match self.announced(send) {
                Some((to, data)) if to == peer => {
                    self.lend(peer, |lent| lent.wrapping_sub(data.bytes));
                    self.requests.set(send, State::Done { received: None });
                    Ok(())
                }
                _ => broke(Violation::NoSuchRequest),
            },
            Frame::Cancel { send } => self.give_back(peer, send),
            Frame::Cancelled { send } => match self.requests.get(send) {
                Some(&State::SendAskedBack { to, data }) if to == peer => {
                    self.is_back(send, peer, data.bytes);
                    Ok(())
                }
                _ => broke(Violation::NoSuchRequest),
            },
            Frame::Data { recv, bytes } => match self.requests.get(recv) {
                Some(State::RecvMatched { status, .. })
                    if status.source == peer && status.bytes == bytes =>
                {
                    self.begin_payload(peer, Reading::Direct { recv, left: bytes, cost: None })
                }
                _ => broke(Violation::NoSuchRequest),
            },
            Frame::Credit { bytes } => {
                let credit = &mut self.peers[peer.index()].credit;
                match credit.checked_add(bytes) {
                    Some(sum) if sum <= EAGER_CREDIT_BYTES => {
                        *credit = sum;
                        Ok(())
                    }
                    _ => broke(Violation::OverCredit),
                }
            }
        }
    }

    /// Receiver and data of an announced send that no receiver has taken.
    fn announced(&self, send: RequestId) -> Option<(Rank, Lent)> {
        match self.requests.get(send) {
            Some(&(State::SendAnnounced { to, data } | State::SendAskedBack { to, data })) => {
                Some((to, data))
            }
            _ => None,
        }
    }

    /// Chooses the destination of an eager payload. Returns the piece if it is already whole.
    fn begin_eager(
        &mut self,
        from: Rank,
        envelope: Envelope,
    ) -> Result<Option<Reading>, Violation> {
        let cost = self.charge(from, &envelope)?;
        let posted = self.matching.take_posted(from, &envelope);
        let reading = match posted.map(|recv| (recv, self.requests.get(recv))) {
            Some((recv, Some(&State::RecvPosted { into, .. }))) => {
                self.expect_data(recv, into, from, &envelope);
                Reading::Direct { recv, left: envelope.bytes, cost: Some(cost) }
            }
            _ => Reading::Staged { envelope, bytes: vec![0; envelope.bytes], got: 0 },
        };
        if envelope.bytes == 0 {
            return Ok(Some(reading));
        }
        self.peers[from.index()].reading = reading;
        Ok(None)
    }

    fn begin_payload(&mut self, peer: Rank, reading: Reading) -> Result<(), CommError> {
        match reading {
            Reading::Direct { left: 0, .. } => self.end_of_piece(peer, reading),
            _ => {
                self.peers[peer.index()].reading = reading;
                Ok(())
            }
        }
    }

    /// Reads up to `most` bytes into a receive's buffer, or nowhere once that is full.
    fn read_into(&mut self, peer: Rank, recv: RequestId, most: usize) -> Result<usize, CommError> {
        let Some(&State::RecvMatched { into, written, status }) = self.requests.get(recv) else {
            return Err(CommError::Protocol { rank: peer, violation: Violation::NoSuchRequest });
        };
        let room = into.bytes.saturating_sub(written);
        if room == 0 {
            let mut nowhere = [0; DISCARD_BYTES];
            return self.transport.read(peer, &mut nowhere[..most.min(DISCARD_BYTES)]);
        }
        // SAFETY: lent for writing until the request is done, and it is not done yet; `written <
        // into.bytes`.
        let buffer =
            unsafe { std::slice::from_raw_parts_mut(into.start.add(written), room.min(most)) };
        let read = self.transport.read(peer, buffer)?;
        let written = written + read;
        self.requests.set(recv, State::RecvMatched { into, written, status });
        Ok(read)
    }

    fn complete(&mut self, recv: RequestId, status: Status, into: LentMut) {
        let received = Some(Received { status, buffer_bytes: into.bytes });
        self.requests.set(recv, State::Done { received });
    }
}
