//! The global memory of the suite: its layout, the same for every case. A node in another process
//! can thus use it without receiving it.

use crate::{EventId, EventRange, GlobalAddr, Layout, Region, Var, VarArray};

/// The number of words for the cases.
const WORDS: u32 = 64;
/// The number of symmetric events.
const EVENTS: u32 = 16;
/// The largest transfer that is tested: the paper's Figure 2 launches 12 MB,
/// users launch containers.
pub(crate) const MAX_XFER_BYTES: u64 = 64 << 20;
/// Room on both sides of the written bytes, to check that it stays unchanged.
pub(crate) const GUARD_BYTES: u64 = 4096;

/// The variables of the suite in global memory.
#[derive(Clone, Debug)]
pub struct Plan {
    layout: Layout,
    words: VarArray<u64>,
    bulk: Region,
    last: Var<u64>,
    events: EventRange,
}

impl Plan {
    /// The one plan.
    pub fn new() -> Plan {
        let mut builder = Layout::builder();
        let words = builder.vars("words", WORDS);
        let bulk = builder.region("bulk", MAX_XFER_BYTES + 2 * GUARD_BYTES);
        let last = builder.var("last");
        let events = builder.events("events", EVENTS);
        Plan { layout: builder.build(), words, bulk, last, events }
    }

    /// The layout that every node of a cluster under test has.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A word to play with.
    pub(crate) fn word(&self, index: u32) -> Var<u64> {
        self.words.get(index)
    }

    /// The address of the word at `index`.
    pub(crate) fn word_addr(&self, index: u32) -> GlobalAddr {
        self.words.get(index).addr()
    }

    /// The byte `offset` bytes into the room for bulk data, which has
    /// [`GUARD_BYTES`] before offset 0 and after offset [`MAX_XFER_BYTES`].
    pub(crate) fn bulk(&self, offset: u64) -> GlobalAddr {
        self.bulk.addr.offset(GUARD_BYTES + offset)
    }

    /// The very last word of global memory.
    pub(crate) fn last_word(&self) -> Var<u64> {
        self.last
    }

    /// A symmetric event.
    pub(crate) fn event(&self, index: u32) -> EventId {
        self.events.get(index)
    }

    /// The smallest event that is not in the layout and not local.
    pub(crate) fn unknown_event(&self) -> EventId {
        EventId(self.layout.events())
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan::new()
    }
}
