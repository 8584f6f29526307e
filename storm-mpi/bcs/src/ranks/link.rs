//! One rank's segment, and the bytes that the node keeps for the rank.

use super::bad_rank::BadRank;
use super::calls::{Calls, SavedCalls};
use super::{CHUNK_BYTES, KEPT_BYTES, WAITING_BYTES};
use crate::{BcsError, Outcome, Unsaved};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use storm_mpi::segment::{Frame, Frames, News, NodeEnd, WINDOW_BYTES};
use storm_mpi::{Address, Context, Rank, Tag};

/// If this many receives are posted, no slice is needed to post more.
const RECEIVES_ENOUGH: usize = KEPT_BYTES / CHUNK_BYTES / 2;

/// The node's side of a rank's streams.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) end: NodeEnd,
    /// Number of the engine's receives that wait for a message.
    pub(super) receives: usize,
    /// Number of ranks in the job.
    size: u32,
    frames: Frames,
    outward: BTreeMap<Rank, Outward>,
    /// Bytes of all streams that have not been sent.
    waiting: usize,
    /// The rank's collectives.
    pub(super) calls: Calls,
    /// The number of the next chunk from each peer.
    next_from: BTreeMap<Rank, i32>,
    inward: VecDeque<(Rank, Vec<u8>)>,
    /// Number of bytes in `inward`.
    kept: usize,
    /// By peer, the bytes that have been sent and not yet reported to the rank.
    left: BTreeMap<Rank, u32>,
    over: Option<String>,
    /// The room that the rank had, if it was too small.
    lacked: Option<usize>,
    /// The rank has ended.
    pub(super) gone: bool,
}

/// Bytes from a rank to one peer.
#[derive(Debug, Default)]
struct Outward {
    waiting: BytesMut,
    /// Bytes that have not been sent, including those that wait.
    under_way: usize,
    next: i32,
}

impl Link {
    /// A new segment for a rank of a job of `size` ranks.
    pub(super) fn new(me: Rank, size: u32) -> io::Result<Link> {
        let end = NodeEnd::create()?;
        // Slices may be resting when the rank begins.
        end.want(News::SENT);
        Ok(Link {
            end,
            receives: 0,
            size,
            frames: Frames::default(),
            outward: BTreeMap::new(),
            waiting: 0,
            calls: Calls::new(me, size),
            next_from: BTreeMap::new(),
            inward: VecDeque::new(),
            kept: 0,
            left: BTreeMap::new(),
            over: None,
            lacked: None,
            gone: false,
        })
    }

    /// Number of ranks in the job.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Takes the bytes that the rank has sent. If many earlier bytes have not left the node, the
    /// new ones stay in the rank's ring.
    pub(super) fn take(&mut self) -> Result<(), BadRank> {
        if self.waiting > WAITING_BYTES {
            return Ok(());
        }
        self.end.take(&mut self.frames)?;
        while let Some(frame) = self.frames.next_frame()? {
            match frame {
                Frame::Data { peer, bytes } if peer.0 < self.size => {
                    let stream = self.outward.entry(peer).or_default();
                    stream.under_way += bytes.len();
                    if stream.under_way > WINDOW_BYTES {
                        return Err(BadRank);
                    }
                    self.waiting += bytes.len();
                    stream.waiting.extend_from_slice(bytes);
                }
                Frame::Call { context, descriptor } => self.calls.take(context, descriptor)?,
                Frame::Data { .. }
                | Frame::Room { .. }
                | Frame::Over { .. }
                | Frame::Result { .. }
                | Frame::Refused => return Err(BadRank),
            }
        }
        Ok(())
    }

    /// Prepares for a rest of slices: from now on, the rank rings when it has news. If
    /// `sleep_matters`, it also rings when it falls asleep. Returns whether there is news already.
    /// Broken rules are detected in the next slice.
    pub(super) fn rest(&self, sleep_matters: bool) -> bool {
        let room = if self.lacked.is_some() { News::ROOM } else { News::NONE };
        let sleep = if sleep_matters { News::SLEEPS } else { News::NONE };
        self.end.want(News::SENT.and(room).and(sleep));
        self.has_news()
    }

    /// Ends the request for a ring.
    pub(super) fn goes_on(&self) {
        self.end.want(News::NONE);
    }

    fn has_news(&self) -> bool {
        let sent = self.waiting <= WAITING_BYTES && self.end.sent() != Ok(0);
        let room = self.lacked.is_some_and(|lacked| self.end.room() != Ok(lacked));
        sent || room || self.receives < RECEIVES_ENOUGH && self.has_room()
    }

    /// Takes the messages to post, in order for each peer. The chunks of a stream are numbered.
    pub(super) fn chunks(&mut self) -> Vec<(Address, Bytes)> {
        let mut chunks = Vec::new();
        for (&to, stream) in &mut self.outward {
            while !stream.waiting.is_empty() {
                let bytes = stream.waiting.len().min(CHUNK_BYTES);
                let data = stream.waiting.split_to(bytes).freeze();
                let address = Address { to, context: Context(0), tag: Tag(stream.next) };
                stream.next = stream.next.wrapping_add(1);
                chunks.push((address, data));
            }
        }
        chunks
    }

    /// Whether there is room for the bytes of one more receive.
    pub(super) fn has_room(&self) -> bool {
        self.kept + (self.receives + 1) * CHUNK_BYTES <= KEPT_BYTES
    }

    /// Records that bytes have left for a peer. A rank with more than a whole window of unreported
    /// bytes has sent without permission.
    pub(super) fn has_left(&mut self, to: Rank, bytes: usize) -> Result<(), BadRank> {
        if let Some(stream) = self.outward.get_mut(&to) {
            stream.under_way -= bytes;
        }
        self.waiting -= bytes;
        let untold = self.left.get(&to).map_or(0, |left| *left as usize) + bytes;
        if untold > WINDOW_BYTES {
            return Err(BadRank);
        }
        // The number is no more than a window, which fits.
        self.left.insert(to, untold as u32);
        Ok(())
    }

    /// Takes a message that has come.
    pub(super) fn has_come(&mut self, outcome: Outcome) -> Result<(), BcsError> {
        self.receives -= 1;
        let Outcome::Received { status, data } = outcome else { return Err(BcsError::Corrupt) };
        let next = self.next_from.entry(status.source).or_default();
        // Messages of one rank match and move in their order. Any other order is a defect.
        if status.tag != Tag(*next) || status.bytes != data.len() {
            return Err(BcsError::Corrupt);
        }
        *next = next.wrapping_add(1);
        self.kept += data.len();
        self.inward.push_back((status.source, data));
        Ok(())
    }

    /// Tells the rank that its job's communication is over.
    pub(super) fn end_with(&mut self, reason: &str) {
        self.over = Some(reason.to_owned());
        // A rank that corrupts its own memory gets no report.
        let _ = self.hand_on();
    }

    /// Gives the rank its bytes, as far as it has room, and wakes it.
    pub(super) fn hand_on(&mut self) -> Result<(), BadRank> {
        let mut any = false;
        while let Some((&peer, &bytes)) = self.left.first_key_value() {
            if !self.end.give(Frame::Room { peer, bytes })? {
                break;
            }
            self.left.remove(&peer);
            any = true;
        }
        while let Some((peer, data)) = self.inward.front() {
            if !self.end.give(Frame::Data { peer: *peer, bytes: data })? {
                break;
            }
            self.kept -= data.len();
            self.inward.pop_front();
            any = true;
        }
        any |= self.calls.hand_on(&self.end)?;
        if self.inward.is_empty()
            && let Some(reason) = &self.over
            && self.end.give(Frame::Over { reason })?
        {
            self.over = None;
            any = true;
        }
        let lacks = !self.left.is_empty() || !self.inward.is_empty();
        let lacks = lacks || self.over.is_some() || self.calls.has_result();
        self.lacked = if lacks { Some(self.end.room()?) } else { None };
        if any {
            self.end.wake();
        }
        Ok(())
    }

    /// The state, for the next Node Manager; `None` if the communication is over.
    pub(super) fn save(&self) -> Option<SavedLink> {
        if self.over.is_some() {
            return None;
        }
        let outward = self.outward.iter().map(|(to, stream)| {
            (to.0, Bytes::copy_from_slice(&stream.waiting), stream.under_way as u64, stream.next)
        });
        let inward = self.inward.iter().map(|(peer, data)| (peer.0, data.clone()));
        Some(SavedLink {
            receives: self.receives as u64,
            frames: self.frames.rest().to_vec(),
            outward: outward.collect(),
            waiting: self.waiting as u64,
            calls: self.calls.save(),
            next_from: self.next_from.iter().map(|(peer, next)| (peer.0, *next)).collect(),
            inward: inward.collect(),
            left: self.left.iter().map(|(peer, bytes)| (peer.0, *bytes)).collect(),
            gone: self.gone,
        })
    }

    /// Continues with a saved state, and with the segment of that state.
    pub(super) fn restore(
        (me, size): (Rank, u32),
        saved: SavedLink,
        end: NodeEnd,
    ) -> Result<Link, Unsaved> {
        let number = |bytes: u64| usize::try_from(bytes).map_err(|_| Unsaved);
        let mut outward = BTreeMap::new();
        for (to, waiting, under_way, next) in saved.outward {
            let waiting = BytesMut::from(&waiting[..]);
            let stream = Outward { waiting, under_way: number(under_way)?, next };
            outward.insert(Rank(to), stream);
        }
        let inward: VecDeque<_> =
            saved.inward.into_iter().map(|(peer, data)| (Rank(peer), data)).collect();
        let kept = inward.iter().map(|(_, data)| data.len()).sum();
        Ok(Link {
            end,
            receives: number(saved.receives)?,
            size,
            frames: Frames::resume(saved.frames),
            outward,
            waiting: number(saved.waiting)?,
            calls: Calls::restore((me, size), saved.calls)?,
            next_from: saved.next_from.into_iter().map(|(peer, next)| (Rank(peer), next)).collect(),
            inward,
            kept,
            left: saved.left.into_iter().map(|(peer, bytes)| (Rank(peer), bytes)).collect(),
            over: None,
            // The next slice finds out.
            lacked: None,
            gone: saved.gone,
        })
    }
}

/// The node's side of a rank's streams, for the next Node Manager.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedLink {
    receives: u64,
    /// Bytes of a frame that is not complete.
    frames: Vec<u8>,
    /// By peer: the bytes that wait, the number of bytes under way, and the next chunk's number.
    outward: Vec<(u32, Bytes, u64, i32)>,
    waiting: u64,
    calls: SavedCalls,
    next_from: Vec<(u32, i32)>,
    inward: Vec<(u32, Vec<u8>)>,
    left: Vec<(u32, u32)>,
    gone: bool,
}
