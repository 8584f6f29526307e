//! A lane: one queue pair, a ring each way, and blocks on a bulk lane.
//!
//! [`Half`] is one end before it is connected; [`Lane`] is connected. [`pipe`] has the queue pair,
//! the rings and the slots. [`attention`] tracks whether both ends poll the slots. [`filler`] and
//! [`granter`] are the two ends of bulk lanes.

mod attention;
mod connected;
mod filler;
mod granter;
mod half;
mod inbox;
mod outbox;
mod outward;
mod pipe;

pub(crate) use connected::Lane;
pub(crate) use filler::MAX_BLOCKS_PER_LANE;
pub(crate) use half::Half;
