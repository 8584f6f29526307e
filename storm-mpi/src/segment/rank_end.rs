//! The rank's end of a segment: a byte stream to each rank of the job.

use super::call::{CONTEXTS_MAX, Call, CallDescriptor, MEMBERS_MAX};
use super::frame::{Frame, Frames, HEAD_BYTES, PAYLOAD_MAX_BYTES};
use super::{MAGIC, News, RING_BYTES, Segment, WINDOW_BYTES};
use crate::envelope::Context;
use crate::error::{CommError, Violation};
use crate::rank::Rank;
use nix::sys::socket::{MsgFlags, send};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

/// The rank's end, as the transport of this library uses it. It does not wait: a waiting rank
/// sleeps on the bell, which is its descriptor.
pub struct RankEnd {
    me: Rank,
    segment: Segment,
    bell: File,
    frames: Frames,
    peers: Vec<Stream>,
    /// Peers to which a send could not continue.
    stalled: BTreeSet<u32>,
    over: Option<String>,
    /// The communicators that the node knows of, by context.
    groups: BTreeMap<u16, Group>,
    /// The context of the last collective, whose result is `result`.
    called: Option<Context>,
    result: Option<Option<Vec<u8>>>,
    /// Bytes of a collective's frame for which there was no room.
    wants: usize,
}

/// A communicator that the node knows of.
#[derive(Debug)]
struct Group {
    members: Vec<Rank>,
    /// Nodes carry out no collectives of this communicator.
    refused: bool,
}

/// The streams with one peer.
#[derive(Debug)]
struct Stream {
    arrived: Vec<u8>,
    read: usize,
    /// Bytes that may be sent before the node reports that others have left.
    room: usize,
}

impl RankEnd {
    /// Takes the segment of rank `me` of `size`: memory and bell, in the form of
    /// [`NodeEnd::descriptors`].
    ///
    /// # Errors
    /// The memory is no segment, or cannot be mapped.
    ///
    /// [`NodeEnd::descriptors`]: super::NodeEnd::descriptors
    pub fn attach([memory, bell]: [OwnedFd; 2], me: Rank, size: usize) -> io::Result<Self> {
        let segment = Segment::map(&File::from(memory))?;
        if segment.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no segment of this layout"));
        }
        let stream = |_| Stream { arrived: Vec::new(), read: 0, room: WINDOW_BYTES };
        Ok(RankEnd {
            me,
            segment,
            bell: File::from(bell),
            frames: Frames::default(),
            peers: (0..size).map(stream).collect(),
            stalled: BTreeSet::new(),
            over: None,
            groups: BTreeMap::new(),
            called: None,
            result: None,
            wants: 0,
        })
    }

    /// Sends as much of the two buffers as there is room for. If bytes are left, news of `peer`
    /// tells when to try again.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`]; [`CommError::Protocol`] if the contents of the segment are
    /// invalid.
    pub fn send(&mut self, peer: Rank, buffers: [&[u8]; 2]) -> Result<usize, CommError> {
        let sent = self.push(peer, buffers);
        if sent.as_ref().is_ok_and(|sent| *sent > 0) {
            self.tell(News::SENT);
        }
        sent
    }

    fn push(&mut self, peer: Rank, buffers: [&[u8]; 2]) -> Result<usize, CommError> {
        let size = self.peers.len() as u32;
        let ring = self.segment.outward();
        let stream = self.peers.get_mut(peer.index());
        let stream = stream.ok_or(CommError::NoSuchRank { rank: peer, size })?;
        let mut sent = 0;
        for buffer in buffers {
            let mut rest = buffer;
            while !rest.is_empty() {
                let free = ring.free().map_err(|_| corrupt(self.me))?;
                let room = stream.room.min(PAYLOAD_MAX_BYTES).min(free.saturating_sub(HEAD_BYTES));
                if room == 0 {
                    if stream.room > 0 {
                        // The node checks each slice and wakes ranks that ask.
                        ring.ask_for_space().map_err(|_| corrupt(self.me))?;
                    }
                    self.stalled.insert(peer.0);
                    return Ok(sent);
                }
                let (now, later) = rest.split_at(rest.len().min(room));
                let (head, payload) = Frame::Data { peer, bytes: now }.parts();
                ring.push([&head, payload]).map_err(|_| corrupt(self.me))?;
                stream.room -= now.len();
                sent += now.len();
                rest = later;
            }
        }
        Ok(sent)
    }

    /// Encodes a collective for the node, with its members if the node does not know them yet.
    /// `None` means that nodes do not carry out such a collective.
    pub fn call_descriptor(
        &mut self,
        context: Context,
        members: &[Rank],
        call: Call<'_>,
    ) -> Option<Vec<u8>> {
        if context.0 >= CONTEXTS_MAX || members.len() > MEMBERS_MAX {
            return None;
        }
        let known = self.groups.get(&context.0).filter(|group| group.members == members);
        let told = match known {
            Some(group) if group.refused => return None,
            Some(_) => Vec::new(),
            None => {
                let members = members.to_vec();
                let group = Group { members: members.clone(), refused: false };
                self.groups.insert(context.0, group);
                members
            }
        };
        Some(CallDescriptor { members: told, call }.encode())
    }

    /// Posts a collective to the node. No other may be posted until
    /// [`take_result`](Self::take_result) returns its result. Returns false if there is no room
    /// now; news tells when to try again.
    ///
    /// # Errors
    /// [`CommError::Protocol`] when the segment holds nonsense.
    pub fn post_call(&mut self, context: Context, descriptor: &[u8]) -> Result<bool, CommError> {
        let ring = self.segment.outward();
        let (head, payload) = Frame::Call { context, descriptor }.parts();
        let bytes = HEAD_BYTES + payload.len();
        if ring.free().map_err(|_| corrupt(self.me))? < bytes {
            ring.ask_for_space().map_err(|_| corrupt(self.me))?;
            self.wants = bytes;
            return Ok(false);
        }
        ring.push([&head, payload]).map_err(|_| corrupt(self.me))?;
        (self.called, self.wants) = (Some(context), 0);
        self.tell(News::SENT);
        Ok(true)
    }

    /// Takes the result of the collective when it is over. `Some(None)` means that the node refuses
    /// it.
    pub fn take_result(&mut self) -> Option<Option<Vec<u8>>> {
        self.result.take()
    }

    /// Takes up to `into.len()` of the bytes that `peer` has sent; 0 if there are none now.
    pub fn read(&mut self, peer: Rank, into: &mut [u8]) -> usize {
        let Some(stream) = self.peers.get_mut(peer.index()) else { return 0 };
        let left = &stream.arrived[stream.read..];
        let bytes = left.len().min(into.len());
        into[..bytes].copy_from_slice(&left[..bytes]);
        stream.read += bytes;
        if stream.read == stream.arrived.len() {
            stream.arrived.clear();
            stream.read = 0;
        }
        bytes
    }

    /// The peers with news: they have sent, or accept more.
    ///
    /// # Errors
    /// [`CommError::Over`] when the node has ended the job's communication;
    /// [`CommError::Protocol`].
    pub fn news(&mut self) -> Result<BTreeSet<u32>, CommError> {
        let mut news = BTreeSet::new();
        self.take_frames(&mut news)?;
        if let Some(reason) = &self.over {
            return Err(CommError::Over { reason: reason.clone() });
        }
        if self.may_go_on()? {
            news.append(&mut self.stalled);
        }
        Ok(news)
    }

    /// Announces that this rank is about to sleep. Returns false if there is news, and the rank
    /// must not sleep.
    ///
    /// # Errors
    /// [`CommError::Protocol`].
    pub fn fall_asleep(&self) -> Result<bool, CommError> {
        self.segment.sleeping().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let empty = self.segment.inward().free().map_err(|_| corrupt(self.me))? == RING_BYTES;
        let sleeps = empty && self.result.is_none() && !self.may_go_on()? && !self.may_call()?;
        if sleeps {
            self.tell(News::SLEEPS);
        } else {
            self.wake_up();
        }
        Ok(sleeps)
    }

    /// Records that the rank is awake again.
    pub fn wake_up(&self) {
        self.segment.sleeping().store(0, Ordering::Relaxed);
    }

    /// Called when the bell has rung.
    pub fn answer_bell(&self) {
        // The socket does not block. An empty socket is fine.
        while (&self.bell).read(&mut [0; 8]).is_ok_and(|read| read > 0) {}
    }

    /// Rings if the node has asked for the news. A full bell has rung, and a closed bell has no
    /// owner.
    fn tell(&self, news: News) {
        if self.segment.must_ring(news) {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let _ = send(self.bell.as_raw_fd(), &[1], flags);
        }
    }

    /// Whether a stalled send has room in the ring and in its window.
    fn may_go_on(&self) -> Result<bool, CommError> {
        let has_room = |peer: &u32| self.peers.get(*peer as usize).is_some_and(|s| s.room > 0);
        if !self.stalled.iter().any(has_room) {
            return Ok(false);
        }
        Ok(self.segment.outward().free().map_err(|_| corrupt(self.me))? > HEAD_BYTES)
    }

    /// Whether there is now room for a collective that had none.
    fn may_call(&self) -> Result<bool, CommError> {
        Ok(self.wants > 0
            && self.segment.outward().free().map_err(|_| corrupt(self.me))? >= self.wants)
    }

    fn take_frames(&mut self, news: &mut BTreeSet<u32>) -> Result<(), CommError> {
        let ring = self.segment.inward();
        let buffer = self.frames.buffer();
        let start = buffer.len();
        buffer.resize(start + RING_BYTES - ring.free().map_err(|_| corrupt(self.me))?, 0);
        let popped = ring.pop(&mut buffer[start..]).map_err(|_| corrupt(self.me))?;
        buffer.truncate(start + popped);
        if popped > 0 {
            self.tell(News::ROOM);
        }
        loop {
            let me = self.me;
            let Some(frame) = self.frames.next_frame().map_err(|_| corrupt(me))? else {
                return Ok(());
            };
            match frame {
                Frame::Data { peer, bytes } => {
                    let stream = self.peers.get_mut(peer.index()).ok_or_else(|| corrupt(me))?;
                    stream.arrived.extend_from_slice(bytes);
                    news.insert(peer.0);
                }
                Frame::Room { peer, bytes } => {
                    let stream = self.peers.get_mut(peer.index()).ok_or_else(|| corrupt(me))?;
                    stream.room = (stream.room + bytes as usize).min(WINDOW_BYTES);
                    news.insert(peer.0);
                }
                Frame::Over { reason } => self.over = Some(reason.to_owned()),
                Frame::Result { data } => self.result = Some(Some(data.to_vec())),
                Frame::Refused => {
                    self.result = Some(None);
                    let called = self.called.and_then(|called| self.groups.get_mut(&called.0));
                    if let Some(group) = called {
                        group.refused = true;
                    }
                }
                Frame::Call { .. } => return Err(corrupt(me)),
            }
        }
    }
}

impl AsFd for RankEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn corrupt(rank: Rank) -> CommError {
    CommError::Protocol { rank, violation: Violation::CorruptRing }
}

#[cfg(test)]
mod tests {
    use super::super::NodeEnd;
    use super::*;

    fn ends(size: usize) -> (NodeEnd, RankEnd) {
        let node = NodeEnd::create().expect("a segment");
        let owned = node.descriptors().map(|fd| fd.try_clone_to_owned().expect("a descriptor"));
        (node, RankEnd::attach(owned, Rank(0), size).expect("attaches"))
    }

    #[test]
    fn a_node_accepts_a_ranks_bytes_and_reports_free_room() {
        let (node, mut rank) = ends(3);
        let long = vec![7; WINDOW_BYTES + 10];
        assert_eq!(rank.send(Rank(2), [b"ab", &long]).expect("sent"), WINDOW_BYTES);
        assert_eq!(rank.send(Rank(1), [b"x", b""]).expect("sent"), 1, "has room of its own");
        assert!(rank.fall_asleep().expect("nothing"));
        let (mut frames, mut to_two) = (Frames::default(), 0);
        node.take(&mut frames).expect("taken");
        while let Some(frame) = frames.next_frame().expect("a frame") {
            match frame {
                Frame::Data { peer: Rank(2), bytes } => to_two += bytes.len(),
                other => assert_eq!(other, Frame::Data { peer: Rank(1), bytes: b"x" }),
            }
        }
        assert_eq!(to_two, WINDOW_BYTES);
        assert!(node.waits());
        assert_eq!(node.give(Frame::Room { peer: Rank(2), bytes: 5 }), Ok(true));
        node.wake();
        assert!(!node.waits());
        assert_eq!(rank.news().expect("news"), BTreeSet::from([2]));
        assert_eq!(rank.send(Rank(2), [&long, b""]).expect("sent"), 5);
    }

    #[test]
    fn a_full_ring_is_asked_about_and_what_comes_is_told_apart() {
        let (node, mut rank) = ends(4);
        let long = vec![1; WINDOW_BYTES];
        assert_eq!(rank.send(Rank(1), [&long, b""]).expect("sent"), WINDOW_BYTES);
        let second = rank.send(Rank(2), [&long, b""]).expect("sent");
        assert!(second < WINDOW_BYTES);
        assert!(rank.fall_asleep().expect("full"));
        node.take(&mut Frames::default()).expect("taken");
        assert!(!node.waits(), "it was woken for the space");
        assert_eq!(rank.news().expect("news"), BTreeSet::from([2]));
        for (peer, bytes) in [(3, b"abc"), (1, b"def"), (3, b"ghi")] {
            assert_eq!(node.give(Frame::Data { peer: Rank(peer), bytes }), Ok(true));
        }
        assert!(!rank.fall_asleep().expect("news"));
        assert_eq!(rank.news().expect("news"), BTreeSet::from([1, 3]));
        let mut into = [0; 4];
        assert_eq!((rank.read(Rank(3), &mut into), &into), (4, b"abcg"));
        assert_eq!(rank.read(Rank(3), &mut into), 2);
        assert_eq!(rank.read(Rank(0), &mut into), 0);
        assert_eq!(node.give(Frame::Over { reason: "so it is" }), Ok(true));
        let over = rank.news().expect_err("over");
        assert_eq!(over.to_string(), "the job's communication is over: so it is");
    }

    #[test]
    fn a_rank_that_fills_its_bell_does_not_hold_up_the_node() {
        let (node, rank) = ends(1);
        let flags = nix::fcntl::OFlag::empty();
        nix::fcntl::fcntl(rank.as_fd(), nix::fcntl::FcntlArg::F_SETFL(flags)).expect("its own");
        for _ in 0..100_000 {
            rank.segment.sleeping().store(1, Ordering::Relaxed);
            node.wake();
            assert!(!node.waits());
        }
        rank.segment.sleeping().store(1, Ordering::Relaxed);
        drop(rank);
        node.wake();
    }

    #[test]
    fn a_bell_that_has_rung_is_silent_once_answered() {
        let (node, rank) = ends(1);
        for _ in 0..200 {
            rank.segment.sleeping().store(1, Ordering::Relaxed);
            node.wake();
        }
        rank.answer_bell();
        let empty = (&rank.bell).read(&mut [0]).expect_err("nothing is left");
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_rank_rings_once_for_news_that_its_node_wants_to_hear_of() {
        let (node, mut rank) = ends(2);
        let bell = File::from(node.bell().expect("a descriptor"));
        let rings = || std::iter::from_fn(|| (&bell).read(&mut [0]).ok()).count();
        assert_eq!(rank.send(Rank(1), [b"a", b""]).expect("sent"), 1);
        assert_eq!((rings(), node.sent()), (0, Ok(HEAD_BYTES + 1)), "nobody wants to hear of it");
        node.want(News::SENT);
        assert!(rank.fall_asleep().expect("nothing"));
        assert_eq!(rings(), 0, "that was not asked for");
        for _ in 0..3 {
            assert_eq!(rank.send(Rank(1), [b"a", b""]).expect("sent"), 1);
        }
        assert_eq!(rings(), 1);
        node.want(News::SENT.and(News::SLEEPS));
        assert!(rank.fall_asleep().expect("nothing"));
        assert_eq!(rings(), 1);
        let before = node.room().expect("a ring");
        assert_eq!(node.give(Frame::Data { peer: Rank(1), bytes: b"abc" }), Ok(true));
        node.want(News::ROOM);
        assert_eq!(node.room(), Ok(before - HEAD_BYTES - 3));
        assert_eq!(rank.news().expect("news"), BTreeSet::from([1]));
        assert_eq!((rings(), node.room()), (1, Ok(before)));
    }

    #[test]
    fn a_rank_that_writes_nonsense_is_found_out() {
        let (node, rank) = ends(1);
        let mut frames = Frames::default();
        rank.segment.outward().push([&[9; HEAD_BYTES], &[]]).expect("pushed");
        node.take(&mut frames).expect("bytes are bytes");
        assert!(frames.next_frame().is_err());
        // The header has both positions of both rings, and everything else.
        let header = rank.segment.at(0);
        // SAFETY: the header's page, which consists of atomics; the other end is in this thread.
        unsafe { std::ptr::write_bytes(header, 0x5a, size_of::<super::super::Header>()) };
        assert!(node.take(&mut frames).is_err() || node.give(Frame::Over { reason: "" }).is_ok());
    }
}
