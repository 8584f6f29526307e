//! A lane: one queue pair, a ring each way, and on bulk lanes blocks.
//!
//! [`Half`] is one end before it knows the other; [`Lane`] is connected. Under it,
//! [`pipe`] has the queue pair, the rings and the slots, [`attention`] whether both ends look
//! at these, [`filler`] and [`granter`] what the ends of bulk
//! lanes do besides.

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
