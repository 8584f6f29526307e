//! A model of buffered coscheduling. A slice begins when all ranks of a job wait, and brings each
//! rank the bytes that the others have sent it so far. The number of slices is therefore the number
//! of rounds of messages, and is counted.
//!
//! Links carry everything. Nodes carry out no collectives: a rank that asks is refused, as by real
//! nodes without a slot for its communicator, and passes messages.

use crate::rank::Rank;
use crate::segment::{Frame, Frames, News, NodeEnd, RING_BYTES, hand_over};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest part of a stream that is passed on at once. It fits a frame, and many fit a ring.
const CHUNK_BYTES: usize = 32 << 10;

/// The nodes of a job whose bytes move in slices.
pub(super) struct Slices {
    ranks: Vec<Link>,
    /// Number of slices in which anything moved.
    pub(super) count: u64,
    /// Interval after which a slice takes place although a rank does not wait.
    every: Option<Duration>,
    last: Instant,
}

struct Link {
    end: NodeEnd,
    bell: File,
    frames: Frames,
    /// News for which the rank has no room yet.
    coming: VecDeque<Heard>,
    gone: bool,
}

/// News for a rank.
enum Heard {
    Data { from: Rank, bytes: Vec<u8> },
    Room { to: Rank, bytes: u32 },
    Refused,
}

impl Slices {
    pub(super) fn new(ranks: usize, every: Option<Duration>) -> io::Result<Slices> {
        let link = |_| {
            let end = NodeEnd::create()?;
            let bell = File::from(end.bell()?);
            let (frames, coming) = (Frames::default(), VecDeque::new());
            Ok(Link { end, bell, frames, coming, gone: false })
        };
        let ranks = (0..ranks).map(link).collect::<io::Result<_>>()?;
        Ok(Slices { ranks, count: 0, every, last: Instant::now() })
    }

    /// Time to wait for a rank, at most `limit`.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        self.every.map_or(limit, |every| limit.min(every))
    }

    /// Gives a rank its segment.
    pub(super) fn hand_over(&self, rank: usize, connection: impl AsFd) -> io::Result<()> {
        hand_over(connection, &self.ranks[rank].end)
    }

    /// Records that a rank has ended: no rank waits for it any more.
    pub(super) fn gone(&mut self, rank: usize) {
        self.ranks[rank].gone = true;
    }

    /// The descriptors that become readable when a rank falls asleep.
    pub(super) fn bells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ranks.iter().map(|link| link.bell.as_fd())
    }

    /// Carries out slices until a rank runs. The rank rings when it sleeps again.
    pub(super) fn go_on(&mut self) -> io::Result<()> {
        loop {
            for link in &self.ranks {
                while (&link.bell).read(&mut [0; 8]).is_ok_and(|read| read > 0) {}
                link.end.want(News::SLEEPS);
            }
            let all_wait = self.ranks.iter().all(|link| link.gone || link.end.waits());
            let is_late = self.every.is_some_and(|every| self.last.elapsed() >= every);
            if !(all_wait || is_late) || !(self.hand_on()? || self.take()?) {
                return Ok(());
            }
        }
    }

    /// Takes the bytes that all ranks have sent. Returns whether there were any.
    fn take(&mut self) -> io::Result<bool> {
        self.last = Instant::now();
        let mut sent = Vec::new();
        for (rank, link) in self.ranks.iter_mut().enumerate().filter(|(_, link)| !link.gone) {
            let me = Rank::from_index(rank);
            link.end.take(&mut link.frames).map_err(super::invalid)?;
            while let Some(frame) = link.frames.next_frame().map_err(super::invalid)? {
                match frame {
                    Frame::Data { peer, bytes } => {
                        let room = Heard::Room { to: peer, bytes: bytes.len() as u32 };
                        sent.push((rank, room));
                        let chunks = bytes.chunks(CHUNK_BYTES).map(|part| {
                            (peer.index(), Heard::Data { from: me, bytes: part.to_vec() })
                        });
                        sent.extend(chunks);
                    }
                    Frame::Call { .. } => sent.push((rank, Heard::Refused)),
                    Frame::Room { .. }
                    | Frame::Over { .. }
                    | Frame::Result { .. }
                    | Frame::Refused => return Err(super::invalid(crate::segment::BadFrame)),
                }
            }
        }
        if sent.is_empty() {
            return Ok(false);
        }
        self.count += 1;
        for (rank, news) in sent {
            self.ranks[rank].coming.push_back(news);
        }
        self.hand_on()
    }

    /// Gives the ranks their news, as far as they have room. Returns whether there was any.
    fn hand_on(&mut self) -> io::Result<bool> {
        let mut any = false;
        for link in self.ranks.iter_mut().filter(|link| !link.gone) {
            let before = link.coming.len();
            while let Some(news) = link.coming.front() {
                let frame = match news {
                    Heard::Data { from, bytes } => Frame::Data { peer: *from, bytes },
                    Heard::Room { to, bytes } => Frame::Room { peer: *to, bytes: *bytes },
                    Heard::Refused => Frame::Refused,
                };
                if !link.end.give(frame).map_err(super::invalid)? {
                    break;
                }
                link.coming.pop_front();
            }
            if link.coming.len() < before {
                any = true;
                link.end.wake();
            }
        }
        Ok(any)
    }
}

const _: () = assert!(CHUNK_BYTES < RING_BYTES);
