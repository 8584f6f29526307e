//! Chunks that arrive in datagrams, in any order, with holes and duplicates, until they are
//! claimed. This module has no network and no adapter memory.
//!
//! A claimed chunk belongs to its claimer. Later datagrams for it are refused, because the claimer
//! has the holes filled in another way.

use super::datagram::Head;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A chunk is dropped if its parent has not announced it for this long. It was meant for other
/// nodes, or its transfer was dropped.
const STALE: Duration = Duration::from_secs(1);
/// A datagram is refused if its chunk is more than this many windows away from the last announced
/// chunk. Older chunks are complete, and no honest sender is further ahead. A member that received
/// nothing for longer follows the next announcement.
const REACH_WINDOWS: u64 = 4;

/// Memory in which the pieces of one chunk are assembled.
pub trait Store {
    /// Copies `piece` to `at`; both are within the layout's length.
    fn write(&mut self, at: usize, piece: &[u8]);
}

/// The common properties of all datagrams of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The beginning of each datagram.
    pub tag: u64,
    /// Length of every piece of a chunk but the last, in bytes.
    pub piece_bytes: u32,
    /// The longest chunk, in bytes.
    pub max_bytes: u32,
    /// Chunks that may be assembled at a time.
    pub window: usize,
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The datagram only tells how far the sender is.
    Probe,
    /// The piece is in its place.
    Placed,
    /// The datagram changed nothing.
    Refused(Refusal),
}

/// Why a datagram changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a datagram of this group.
    Stranger,
    /// The place or length of the piece is impossible, or the piece does not fit the earlier pieces
    /// of its chunk.
    Shape,
    /// The chunk was claimed, or is too old.
    Over,
    /// The chunk is farther ahead than the root can be.
    Far,
    /// The piece came before.
    Twice,
    /// There is no room for another chunk.
    Full,
}

/// Chunks being assembled.
#[derive(Debug)]
pub struct Assembler<S> {
    layout: Layout,
    chunks: BTreeMap<u64, Assembly<S>>,
    over: BTreeSet<u64>,
    /// The number after the last chunk of which a datagram arrived.
    next: u64,
    /// The value of `next` when the first datagram arrived.
    first: Option<u64>,
    /// The number of the last announced chunk; before any announcement, `first`.
    anchor: Option<u64>,
}

/// One chunk, as far as it has arrived.
#[derive(Debug)]
pub struct Assembly<S> {
    store: S,
    total: u32,
    piece_bytes: u32,
    here: Vec<bool>,
    missing: usize,
    since: Instant,
}

impl<S: Store> Assembler<S> {
    /// An assembler without chunks.
    pub fn new(layout: Layout) -> Assembler<S> {
        let (chunks, over) = (BTreeMap::new(), BTreeSet::new());
        Assembler { layout, chunks, over, next: 0, first: None, anchor: None }
    }

    /// The number of the first chunk from which on this member has received everything; `None`
    /// before the first datagram.
    pub fn first(&self) -> Option<u64> {
        self.first
    }

    /// The number after the last chunk of which a datagram arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Announces the next chunk, as the parent does on its lane. The numbers in datagrams are
    /// checked against it, because any host that knows the tag can send datagrams.
    pub fn announce(&mut self, number: u64) {
        self.anchor = Some(number);
        let possible = self.oldest()..=number.saturating_add(self.reach());
        if !possible.contains(&self.next) {
            self.next = number;
        }
        self.chunks.retain(|other, _| possible.contains(other));
        self.over.retain(|other| possible.contains(other));
    }

    /// Drops chunks that were not claimed for a second. If such a chunk is announced later, the
    /// member asks its parent for the whole chunk.
    pub fn sweep(&mut self, now: Instant) {
        self.chunks.retain(|_, chunk| now.saturating_duration_since(chunk.since) < STALE);
    }

    /// Takes a received datagram. `room` returns memory for another chunk, if there is any.
    pub fn take(
        &mut self,
        now: Instant,
        datagram: &[u8],
        room: impl FnOnce() -> Option<S>,
    ) -> Verdict {
        let Some((head, piece)) =
            Head::decode(datagram).filter(|(it, _)| it.tag == self.layout.tag)
        else {
            return Verdict::Refused(Refusal::Stranger);
        };
        if head.total == 0 && head.offset == 0 && piece.is_empty() {
            return match self.heard(head.number) {
                Ok(()) => Verdict::Probe,
                Err(refusal) => Verdict::Refused(refusal),
            };
        }
        match self.place(now, head, piece, room) {
            Ok(()) => Verdict::Placed,
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    /// Whether all of a chunk is here.
    pub fn is_complete(&self, number: u64) -> bool {
        self.chunks.get(&number).is_some_and(|chunk| chunk.missing == 0)
    }

    /// Whether a part of a later chunk has arrived: the missing parts of this chunk will then not
    /// arrive.
    pub fn is_past(&self, number: u64) -> bool {
        self.next > number.saturating_add(1)
    }

    /// Hands over a chunk of this length as far as it has arrived; `None` if no part has arrived.
    /// Later datagrams for it are refused.
    pub fn claim(&mut self, number: u64, total: u32) -> Option<Assembly<S>> {
        self.over.insert(number);
        self.chunks.remove(&number).filter(|chunk| chunk.total == total)
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.over.len()
    }

    fn place(
        &mut self,
        now: Instant,
        head: Head,
        piece: &[u8],
        room: impl FnOnce() -> Option<S>,
    ) -> Result<(), Refusal> {
        let Layout { piece_bytes, max_bytes, .. } = self.layout;
        let Head { number, offset, total, .. } = head;
        let is_piece = total <= max_bytes
            && offset < total
            && offset.is_multiple_of(piece_bytes)
            && piece.len() == (total - offset).min(piece_bytes) as usize
            && number < u64::MAX;
        if !is_piece {
            return Err(Refusal::Shape);
        }
        self.heard(number + 1)?;
        if self.over.contains(&number) || number < self.oldest() {
            return Err(Refusal::Over);
        }
        if !self.chunks.contains_key(&number) {
            self.make_room(number)?;
            let store = room().ok_or(Refusal::Full)?;
            self.chunks.insert(number, Assembly::new(store, total, piece_bytes, now));
        }
        let Some(chunk) = self.chunks.get_mut(&number) else { return Err(Refusal::Full) };
        chunk.place(total, offset, piece)
    }

    /// Drops the oldest chunk if there is no room. Chunks older than a window will not be announced
    /// any more.
    fn make_room(&mut self, number: u64) -> Result<(), Refusal> {
        if self.chunks.len() < self.layout.window {
            return Ok(());
        }
        match self.chunks.first_entry() {
            Some(oldest) if *oldest.key() < number => {
                oldest.remove();
                Ok(())
            }
            _ => Err(Refusal::Full),
        }
    }

    fn heard(&mut self, next: u64) -> Result<(), Refusal> {
        // The first chunk may have begun before this member listened, so it does not count.
        self.first.get_or_insert(next);
        let reach = self.reach();
        if next > self.anchor.get_or_insert(next).saturating_add(reach) {
            return Err(Refusal::Far);
        }
        self.next = self.next.max(next);
        Ok(())
    }

    /// Lower numbers are over.
    fn oldest(&self) -> u64 {
        self.anchor.map_or(0, |anchor| anchor.saturating_sub(self.reach()))
    }

    fn reach(&self) -> u64 {
        REACH_WINDOWS * self.layout.window as u64
    }
}

impl<S: Store> Assembly<S> {
    fn new(store: S, total: u32, piece_bytes: u32, since: Instant) -> Assembly<S> {
        let missing = total.div_ceil(piece_bytes) as usize;
        Assembly { store, total, piece_bytes, here: vec![false; missing], missing, since }
    }

    fn place(&mut self, total: u32, offset: u32, piece: &[u8]) -> Result<(), Refusal> {
        let at = (offset / self.piece_bytes) as usize;
        if total != self.total {
            return Err(Refusal::Shape);
        }
        match self.here.get_mut(at) {
            None => Err(Refusal::Shape),
            Some(true) => Err(Refusal::Twice),
            Some(here) => {
                *here = true;
                self.missing -= 1;
                self.store.write(offset as usize, piece);
                Ok(())
            }
        }
    }

    /// The missing bytes as at most `max` ranges. The last range covers all holes beyond `max`, and
    /// the data between them.
    pub fn holes(&self, max: usize) -> Vec<Range<u32>> {
        let mut holes: Vec<Range<u32>> = Vec::new();
        for (at, _) in self.here.iter().enumerate().filter(|(_, here)| !**here) {
            let start = at as u32 * self.piece_bytes;
            let end = (start + self.piece_bytes).min(self.total);
            let is_full = holes.len() >= max;
            match holes.last_mut() {
                Some(last) if last.end == start || is_full => last.end = end,
                _ => holes.push(start..end),
            }
        }
        holes
    }

    /// The memory with the pieces.
    pub fn into_store(self) -> S {
        self.store
    }
}
