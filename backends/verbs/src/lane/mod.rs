//! A lane: one queue pair, a ring each way, and on bulk lanes blocks.
//!
//! [`Half`] is one end before it knows the other; [`Lane`] is connected. Under it,
//! [`pipe`] has the queue pair and the rings, [`blocks`] what bulk lanes do besides.

mod blocks;
mod connected;
mod half;
mod pipe;

pub(crate) use blocks::MAX_BLOCKS_PER_LANE;
pub(crate) use connected::Lane;
pub(crate) use half::Half;
