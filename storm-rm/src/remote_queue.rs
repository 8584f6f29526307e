//! Remote queues with global flow control: Algorithms 1 to 3.
//!
//! A master multicasts items into a ring of slots that lies in the global memory
//! of its slaves. It never overwrites a slot that any of them has not released.
//!
//! Sharpened against the paper's text (`docs/decisions/0002-remote-queue.md`):
//! - Algorithm 1's loop ran while there *was* space; here it runs while there is
//!   none.
//! - Algorithm 3 released a slot before its content was read; here an item is
//!   looked at ([`Reader::dequeue`]), used, and then released
//!   ([`Reader::release`]).
//! - Items may go to different subsets of the slaves: each carries its sequence
//!   number, a slave releases in order the items that were sent to it, and before
//!   a slot is reused the set that held it is asked, not the next one.

use serde::{Deserialize, Serialize};
use storm_primitives::{EventId, LayoutBuilder, Region, Var};

/// Bytes before an item: its sequence number and its length.
const HEADER_BYTES: u64 = 16;

/// Where a queue lies in global memory.
#[derive(Clone, Debug)]
pub struct QueuePlan {
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) region: Region,
    pub(crate) dequeued: Var<u64>,
    pub(crate) event: EventId,
}

impl QueuePlan {
    /// Declares a queue of `slots` items of at most `slot_bytes` bytes.
    pub fn declare(
        builder: &mut LayoutBuilder,
        name: &str,
        slots: u32,
        slot_bytes: u32,
    ) -> QueuePlan {
        let stride = u64::from(slot_bytes).next_multiple_of(8) + HEADER_BYTES;
        QueuePlan {
            slots,
            slot_bytes,
            region: builder.region(&format!("{name}.slots"), stride * u64::from(slots)),
            dequeued: builder.var(&format!("{name}.dequeued")),
            event: builder.event(&format!("{name}.new")),
        }
    }
}

/// Counts the items of a queue, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sequence(pub u64);
