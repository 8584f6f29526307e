//! The ranks of one node: this rank's inbox and doorbell, and those of its neighbours.

use super::directory::Card;
use super::doorbell::{BellName, Doorbell};
use super::ends::{ConsumerEnd, ProducerEnd};
use super::in_place::Readable;
use super::inbox::{Inbox, LocalIndex, MAX_LOCAL_RANKS};
use super::mark::Mark;
use super::poller::{Poller, Watched};
use super::records::WORD_BYTES;
use super::tracer::Tracer;
use crate::error::InitError;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::SocketAddr;

/// A pause takes as long as this many polls, or longer: 10 ns here, 50 on other processors.
const LOOKS_PER_PAUSE: u32 = 4;
/// A rank that was sent more than a line polls this many times as often: an answer of a few KiB
/// takes two microseconds.
const LONG_LOOKS: u32 = 8;

/// Shared memory of this rank with its neighbours.
pub(super) struct Local {
    me: LocalIndex,
    inbox: Inbox,
    /// Kept open: neighbours open the inbox through this descriptor.
    file: File,
    bell: Doorbell,
    neighbours: Vec<Option<Neighbour>>,
    /// The consumer's end of each neighbour's ring to this rank.
    ends: Vec<ConsumerEnd>,
    /// Neighbours that have ever sent. Only their rings are polled.
    talking: Vec<LocalIndex>,
    /// Index of the first neighbour to check if any neighbour's message will do.
    turn: usize,
    /// This rank's mark in its memory. `None` if neighbours may not read it, nor this rank theirs.
    mark: Option<Mark>,
    tracer: Tracer,
}

struct Neighbour {
    inbox: Inbox,
    bell: SocketAddr,
    end: ProducerEnd,
    memory: Readable,
    /// The neighbour knows that this rank sends to it.
    knows: bool,
}

impl Local {
    /// Makes the inbox and the doorbell of the `me`-th of `ranks` ranks.
    pub(super) fn open(
        me: LocalIndex,
        ranks: usize,
        bell: BellName,
        one_copy: bool,
        poller: &Poller,
    ) -> Result<Self, InitError> {
        if ranks > MAX_LOCAL_RANKS {
            return Err(InitError::TooManyLocalRanks { ranks, limit: MAX_LOCAL_RANKS });
        }
        let (inbox, file) =
            Inbox::create(ranks, me).map_err(InitError::os("making shared memory"))?;
        let mark = one_copy.then(|| Mark::new(bell));
        let tracer = if one_copy { Tracer::new() } else { Tracer::default() };
        let bell = Doorbell::hang(bell).map_err(InitError::os("making a doorbell socket"))?;
        poller.watch(&bell, Watched::Bell, false).map_err(InitError::os("epoll"))?;
        let neighbours = (0..ranks).map(|_| None).collect();
        let ends = (0..ranks).map(|_| ConsumerEnd::default()).collect();
        let (talking, turn) = (Vec::new(), 0);
        Ok(Local { me, inbox, file, bell, neighbours, ends, talking, turn, mark, tracer })
    }

    /// The descriptor by which neighbours find the inbox.
    pub(super) fn inbox_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Address of the mark in this rank's memory; 0 if no other process may read there.
    pub(super) fn mark(&self) -> u64 {
        self.mark.as_ref().map_or(0, Mark::address)
    }

    /// From here on readers find this rank's memory unavailable, and no neighbour has permission to
    /// read.
    pub(super) fn lend_no_more(&mut self) {
        if let Some(mark) = &self.mark {
            mark.wipe();
        }
        self.tracer.dismiss();
    }

    /// Fills `into` from a neighbour's memory. Returns false if the memory cannot be read; the
    /// contents of `into` are then undefined.
    pub(super) fn read_in_place(
        &mut self,
        peer: LocalIndex,
        from: u64,
        into: &mut [u8],
    ) -> io::Result<bool> {
        match &mut self.neighbours[peer.0] {
            Some(neighbour) if self.mark.is_some() => neighbour.memory.read(from, into),
            _ => Ok(false),
        }
    }

    pub(super) fn knows(&self, peer: LocalIndex) -> bool {
        self.neighbours[peer.0].is_some()
    }

    /// Opens a neighbour's inbox at the address on its card.
    pub(super) fn attach(&mut self, peer: LocalIndex, card: &Card) -> io::Result<()> {
        let path = format!("/proc/{}/fd/{}", card.pid, card.inbox_fd);
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(error.kind(), "its process has ended"),
            _ => error,
        })?;
        let inbox = Inbox::attach(&file, self.neighbours.len(), peer)?;
        // The permission is given before anything is sent, so before the neighbour can be asked to
        // read.
        self.tracer.admit(card.pid);
        let (bell, end) = (card.bell.address()?, ProducerEnd::default());
        let memory = Readable::of(card);
        self.neighbours[peer.0] = Some(Neighbour { inbox, bell, end, memory, knows: false });
        Ok(())
    }

    /// Puts as much as fits into the neighbour's ring. If bytes are left, the neighbour pokes this
    /// rank once there is space.
    pub(super) fn send(&mut self, peer: LocalIndex, buffers: [&[u8]; 2]) -> io::Result<usize> {
        let Some(neighbour) = &mut self.neighbours[peer.0] else { return Ok(0) };
        let ring = neighbour.inbox.ring(self.me);
        let total = buffers[0].len() + buffers[1].len();
        let mut sent = 0;
        // The loop ends: each turn either sends a byte or leaves on a full ring.
        while sent < total {
            let first = sent.min(buffers[0].len());
            let rest = [&buffers[0][first..], &buffers[1][sent - first..]];
            match neighbour.end.push(&ring, rest).map_err(corrupt)? {
                0 if neighbour.end.ask_for_space(&ring, total - sent).map_err(corrupt)? => {}
                0 => break,
                n => sent += n,
            }
        }
        if sent > 0 {
            let sleeps = if neighbour.knows {
                neighbour.inbox.rouse()
            } else {
                neighbour.knows = true;
                neighbour.inbox.poke(self.me)
            };
            if sleeps {
                self.bell.ring(&neighbour.bell)?;
            }
        }
        Ok(sent)
    }

    /// Puts a header and its payload into the ring of a neighbour that knows that this rank sends
    /// to it. Puts all of them, or nothing and returns `false`.
    #[inline]
    pub(super) fn send_whole<const WORDS: usize>(
        &mut self,
        peer: LocalIndex,
        head: &[[u8; WORD_BYTES]; WORDS],
        payload: &[u8],
    ) -> io::Result<bool> {
        let Some(neighbour) = self.neighbours[peer.0].as_mut().filter(|n| n.knows) else {
            return Ok(false);
        };
        let ring = neighbour.inbox.ring(self.me);
        let pushed = neighbour.end.push_whole(&ring, head, payload).map_err(corrupt)?;
        if pushed && neighbour.inbox.rouse() {
            self.bell.ring(&neighbour.bell)?;
        }
        Ok(pushed)
    }

    /// Passes each neighbour that has sent or poked to `each`.
    #[inline]
    pub(super) fn take_news(&mut self, mut each: impl FnMut(LocalIndex)) {
        let talking = &mut self.talking;
        self.inbox.take_pending(|source| {
            if !talking.contains(&source) {
                talking.push(source);
            }
            each(source);
        });
        self.talking
            .iter()
            .filter(|&&source| self.has_sent(source))
            .for_each(|&source| each(source));
    }

    /// Announces that this rank is about to sleep. Returns false if there is news, and it must not
    /// sleep.
    #[must_use]
    pub(super) fn fall_asleep(&self) -> bool {
        self.inbox.fall_asleep(|| self.talking.iter().any(|&source| self.has_sent(source)))
    }

    /// Records that this rank is awake again.
    pub(super) fn wake_up(&self) {
        self.inbox.wake_up();
    }

    /// Number of bytes that the neighbour has sent and this rank has not released.
    #[inline]
    pub(super) fn unread(&mut self, peer: LocalIndex) -> io::Result<usize> {
        self.ends[peer.0].unread(&self.inbox.ring(peer)).map_err(corrupt)
    }

    /// Takes the record at the front of the neighbour's ring, if `choose` wants it. `choose` gets
    /// the record's length and its first words, and returns the number of bytes behind those words.
    /// The bytes go to `into`, as many as fit. Returns the other result of `choose`, and whether
    /// the neighbour waits for space and has to be poked.
    #[inline]
    pub(super) fn take_whole<const WORDS: usize, T>(
        &mut self,
        peer: LocalIndex,
        into: &mut [u8],
        choose: impl FnOnce(usize, &[[u8; WORD_BYTES]; WORDS]) -> Option<(usize, T)>,
    ) -> io::Result<Option<(T, bool)>> {
        let (ring, end) = (self.inbox.ring(peer), &mut self.ends[peer.0]);
        let Some((length, first)) = end.whole(&ring).map_err(corrupt)? else { return Ok(None) };
        let Some(head) = first.first_chunk() else { return Ok(None) };
        let Some((bytes, told)) = choose(length, head) else { return Ok(None) };
        let room = into.len().min(bytes);
        end.copy_whole::<WORDS>(&ring, &mut into[..room]);
        Ok(Some((told, end.advance(&ring, length))))
    }

    /// Copies unread bytes of the neighbour from the `skip`-th on. As many must be unread.
    #[inline]
    pub(super) fn copy(&self, peer: LocalIndex, skip: usize, into: &mut [u8]) {
        self.ends[peer.0].copy(&self.inbox.ring(peer), skip, into);
    }

    /// Releases `bytes` unread bytes. Returns true if the neighbour waits for space and must be
    /// poked.
    #[inline]
    pub(super) fn advance(&mut self, peer: LocalIndex, bytes: usize) -> bool {
        self.ends[peer.0].advance(&self.inbox.ring(peer), bytes)
    }

    /// Makes a neighbour poll this rank's ring, and check the space in its own.
    pub(super) fn poke(&self, peer: LocalIndex) -> io::Result<()> {
        match &self.neighbours[peer.0] {
            Some(n) if n.inbox.poke(self.me) => self.bell.ring(&n.bell),
            _ => Ok(()),
        }
    }

    /// Whether the neighbour has sent.
    #[inline]
    pub(super) fn has_sent(&self, source: LocalIndex) -> bool {
        self.ends[source.0].has_unread(&self.inbox.ring(source))
    }

    /// Polls `looks` times for bytes of that neighbour.
    #[inline]
    pub(super) fn glance(&self, source: LocalIndex, looks: u32) -> bool {
        let (ring, end) = (self.inbox.ring(source), &self.ends[source.0]);
        if !end.expects_one_line() {
            return (0..looks * LONG_LOOKS).any(|_| end.has_unread(&ring));
        }
        // The pauses leave the line to its writer until all of it is written.
        (0..looks / LOOKS_PER_PAUSE).any(|_| {
            let found = end.has_unread(&ring);
            if !found {
                std::hint::spin_loop();
            }
            found
        })
    }

    /// The next neighbour that has sent. Neighbours take turns, so no one's messages wait behind
    /// another's.
    #[inline]
    pub(super) fn next_that_has_sent(&mut self) -> Option<LocalIndex> {
        let (before, from) = self.talking.split_at(self.turn.min(self.talking.len()));
        let in_turn = (self.turn..).zip(from).chain((0..).zip(before));
        let (at, source) = in_turn.into_iter().find(|&(_, &source)| self.has_sent(source))?;
        let source = *source;
        self.turn = at + 1;
        Some(source)
    }

    /// Like [`Local::next_that_has_sent`], with up to `looks` polls.
    pub(super) fn glance_at_all(&mut self, looks: u32) -> Option<LocalIndex> {
        if let [only] = self.talking[..] {
            return self.glance(only, looks).then_some(only);
        }
        for _ in 0..looks / LOOKS_PER_PAUSE {
            let found = self.next_that_has_sent();
            if found.is_some() || self.has_poked() {
                return found;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether any neighbour has poked.
    #[inline]
    pub(super) fn has_poked(&self) -> bool {
        self.inbox.has_pending()
    }

    /// Whether no neighbour has ever sent.
    #[inline]
    pub(super) fn is_silent(&self) -> bool {
        self.talking.is_empty()
    }

    /// Whether any other neighbour has sent or poked.
    #[inline]
    pub(super) fn has_other_news(&self, but: LocalIndex) -> bool {
        let others = |source: &LocalIndex| *source != but && self.has_sent(*source);
        self.inbox.has_pending() || self.talking.iter().any(others)
    }

    /// Called when the doorbell has rung.
    pub(super) fn answer_bell(&self) {
        self.bell.silence();
    }
}

#[cold]
fn corrupt(error: super::ring::CorruptRing) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
