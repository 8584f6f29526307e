//! The messages sent from this end of a lane that are not settled yet.

use crate::ring::SendRing;
use std::collections::VecDeque;

/// The sender's end of a lane.
#[derive(Debug, Default)]
pub(super) struct Outward {
    pub(super) ring: SendRing,
    /// The signalled requests under way, by id.
    under_way: VecDeque<(u64, Posted)>,
}

/// A send request with a completion that matters.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// The end, in the ring, of everything posted up to this request.
    end: u64,
    /// The name that the caller gave the frame, if the request writes to a block.
    frame: Option<usize>,
}

impl Outward {
    /// A signalled request was posted.
    pub(super) fn posted(&mut self, id: u64, frame: Option<usize>) {
        self.under_way.push_back((id, Posted { end: self.ring.end(), frame }));
    }

    /// Takes the next request that is complete according to this id. Returns the name of its frame,
    /// if the request carried one.
    pub(super) fn completed(&mut self, id: u64) -> Option<Option<usize>> {
        let (_, posted) = self.under_way.pop_front_if(|(first, _)| *first <= id)?;
        self.ring.completed(posted.end);
        Some(posted.frame)
    }

    /// Whether a signalled request is under way.
    pub(super) fn has_signalled(&self) -> bool {
        !self.under_way.is_empty()
    }
}
