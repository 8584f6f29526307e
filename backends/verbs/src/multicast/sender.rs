//! The sending part of a group. Only the root has it.

use super::address::GroupAddress;
use super::datagram::{HEAD_BYTES, Head};
use crate::VerbsError;
use crate::adapter::Adapter;
use crate::guard::{AddressHandle, DatagramPair, Destination, Room};
use bytes::Bytes;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The most chunks under way. Further chunks are sent down the tree.
const CHUNKS_UNDER_WAY: u32 = 4;
/// The shortest time between probes. One probe answers all members that ask within it.
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// Sends to the group.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(super) address: GroupAddress,
    pub(super) pair: DatagramPair,
    /// The number of the next chunk.
    pub(super) next: Cell<u64>,
    probed: Cell<Option<Instant>>,
    /// The least length of a payload. Receivers copy shorter payloads out of their blocks, and
    /// would then have to send them to each child.
    least_bytes: usize,
}

impl Sender {
    /// A new group.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub(super) fn new(adapter: &Adapter, name: usize) -> Result<Sender, VerbsError> {
        let Adapter { device, port, gid, gid_index, pool, .. } = adapter;
        let address = GroupAddress::new(device, port, *gid)?;
        let group = AddressHandle::of_group(pool.domain(), port, *gid_index, address.gid())?;
        let to = Destination { group, qkey: address.qkey };
        let room = Room {
            sends: CHUNKS_UNDER_WAY * adapter.config.chunk_bytes.div_ceil(address.piece_bytes()),
            receives: 0,
            datagram_bytes: address.datagram_bytes,
            head_bytes: HEAD_BYTES as u32,
        };
        let channel = (adapter.poller.channel(), name);
        let pair = DatagramPair::new(pool.domain(), channel, port, address.qkey, room, Some(to))?;
        let least_bytes = pool.least_kept_bytes().max(address.piece_bytes() as usize + 1);
        let (next, probed) = (Cell::new(0), Cell::new(None));
        Ok(Sender { address, pair, next, probed, least_bytes })
    }

    /// Sends `payload`, which lies in registered memory of key `lkey`, as the next chunk. Returns
    /// its number, or `None` if there is no room or the payload is too short.
    pub(super) fn send(&self, payload: &Bytes, lkey: u32) -> Result<Option<u64>, VerbsError> {
        if payload.len() < self.least_bytes || !self.pair.has_room(payload.len()) {
            return Ok(None);
        }
        let number = self.next.get();
        let Ok(total) = u32::try_from(payload.len()) else { return Ok(None) };
        self.next.set(number + 1);
        let head = Head { tag: self.address.tag, number, offset: 0, total };
        let head = |at: usize| Head { offset: at as u32, ..head }.encode();
        self.pair.send(payload.clone(), lkey, head)?;
        Ok(Some(number))
    }

    /// Announces the next chunk number to all.
    pub(super) fn probe(&self, now: Instant) -> Result<(), VerbsError> {
        let is_soon =
            self.probed.get().is_some_and(|at| now.saturating_duration_since(at) < PROBE_PAUSE);
        if is_soon || !self.pair.has_room(0) {
            return Ok(());
        }
        self.probed.set(Some(now));
        let probe = Head { tag: self.address.tag, number: self.next.get(), offset: 0, total: 0 };
        self.pair.send(Bytes::new(), 0, |_| probe.encode())
    }
}
