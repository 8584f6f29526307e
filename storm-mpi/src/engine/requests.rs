//! The table of requests: sends and receives from their start until the application has collected
//! their result.
//!
//! A request holds memory that the application has lent. The code that starts a request guarantees
//! that the memory stays valid until the request is done or the engine has ended.

use crate::envelope::{Source, Status};
use crate::rank::Rank;

/// Names a request. A reused place has another generation, so a stale name is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

impl RequestId {
    pub(super) const NONE: RequestId = RequestId { index: u32::MAX, generation: u32::MAX };

    pub(super) fn to_wire(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn from_wire(word: u64) -> Self {
        RequestId { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// Memory lent for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    pub(crate) start: *const u8,
    pub(crate) bytes: usize,
}

impl Lent {
    /// The memory as a slice.
    ///
    /// # Safety
    /// It must still be lent while the slice is used.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.bytes == 0 {
            // C programs pass a null pointer for no data.
            return &[];
        }
        // SAFETY: valid for reads and not written while it is lent; not null, because it is not
        // empty.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Memory lent for writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LentMut {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

/// The state of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The send is announced to `to` and not yet asked for.
    SendAnnounced { to: Rank, data: Lent },
    /// The send is announced, and its cancellation was requested.
    SendAskedBack { to: Rank, data: Lent },
    /// The send is in the outbox.
    SendFlowing,
    /// The receive waits for a match.
    RecvPosted { into: LentMut, from: Source },
    /// The receive is matched, and `written` bytes have arrived.
    RecvMatched { into: LentMut, written: usize, status: Status },
    /// The request is over. A send has no status.
    Done { received: Option<Received> },
    /// The send was cancelled: its receiver never sees it.
    Cancelled,
}

/// The outcome of a receive.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Facts about the message.
    pub status: Status,
    /// Length of the buffer. It is less than the message's length if the message was cut.
    pub buffer_bytes: usize,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    state: Option<State>,
}

/// All requests not yet collected.
#[derive(Debug, Default)]
pub(super) struct Requests {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn add(&mut self, state: State) -> RequestId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, state: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.state = Some(state);
        RequestId { index, generation: place.generation }
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&State> {
        self.place(id).and_then(|place| place.state.as_ref())
    }

    /// Moves a live request to its next state.
    pub(super) fn set(&mut self, id: RequestId, state: State) {
        if let Some(place) = self.places.get_mut(id.index as usize)
            && place.generation == id.generation
        {
            place.state = Some(state);
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            let place = &mut self.places[id.index as usize];
            place.state = None;
            place.generation = place.generation.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    /// Forgets all requests and with them all lent memory.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.free.clear();
    }

    fn place(&self, id: RequestId) -> Option<&Place> {
        self.places.get(id.index as usize).filter(|place| place.generation == id.generation)
    }
}
