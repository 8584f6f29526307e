//! The settings of buffered coscheduling: the slice, and the limits of its contents.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// The length of a slice, and the limits of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BcsConfig {
    /// Length of a slice: "a few hundreds of microseconds" (SC'03).
    pub slice: Duration,
    /// Bytes that each link carries in the point-to-point microphase of a slice, each way: its
    /// bandwidth times the length of that phase. Further bytes are carried over.
    pub link_bytes: u64,
    /// The most bytes of descriptors, and of grants, that a node may send to another node in one
    /// slice.
    pub descriptor_bytes: u64,
    /// Limit of a node's collectives under way at the same time. With 0, there are collectives
    /// within nodes only.
    pub collective_slots: u32,
    /// Bytes of a collective that go over a link in one slice.
    pub collective_bytes: u64,
    /// Time that the strobe sender waits before it checks again whether a microphase is over.
    pub poll: Duration,
    /// Longest rest without slices, in case a notice of news was lost.
    pub rest: Duration,
}

impl Default for BcsConfig {
    /// Slices of 500 us. A link carries in each slice what 300 us carry at 131 MiB/s, the rate from
    /// host to host in STORM's paper.
    fn default() -> BcsConfig {
        BcsConfig {
            slice: Duration::from_micros(500),
            link_bytes: 40 << 10,
            descriptor_bytes: 4 << 10,
            collective_slots: 16,
            collective_bytes: 4 << 10,
            poll: Duration::from_micros(5),
            rest: Duration::from_millis(100),
        }
    }
}

/// Bytes of a collective in one slice that are enough for the longest collective that ranks leave
/// to their nodes, with its headers. `storm-bcs` checks that the longest fits.
pub const RANK_COLLECTIVE_BYTES: u64 = (16 << 10) + 256;

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BcsConfigError {
    /// The slice has no length.
    #[error("a slice must last: the length is 0")]
    NoSlice,
    /// A buffer is too small for one descriptor or piece.
    #[error("{what} of {bytes} bytes: at least {least} are needed")]
    TooSmall {
        /// The setting.
        what: &'static str,
        /// The value.
        bytes: u64,
        /// The smallest possible value.
        least: u64,
    },
    /// A buffer is longer than a length on the wire.
    #[error("{what} of {bytes} bytes: at most {most} are possible")]
    TooLarge {
        /// The setting.
        what: &'static str,
        /// The value.
        bytes: u64,
        /// The largest possible value.
        most: u64,
    },
}

/// Room for the longest descriptor or grant, with the head of its block.
const LEAST_DESCRIPTOR_BYTES: u64 = 128;
/// Room for a piece of 8 bytes with its head.
const LEAST_LINK_BYTES: u64 = 64;
/// Room for 16 bytes of each of 24 pieces: the widest group of 4096 ranks.
const LEAST_COLLECTIVE_BYTES: u64 = 1 << 10;
/// Lengths of pieces are 32 bits on the wire.
const MOST_BYTES: u64 = 1 << 30;

impl BcsConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`BcsConfigError`].
    pub fn checked(self) -> Result<BcsConfig, BcsConfigError> {
        if self.slice.is_zero() {
            return Err(BcsConfigError::NoSlice);
        }
        for (what, bytes, least) in [
            ("link-bytes", self.link_bytes, LEAST_LINK_BYTES),
            ("descriptor-bytes", self.descriptor_bytes, LEAST_DESCRIPTOR_BYTES),
            ("collective-bytes", self.collective_bytes, LEAST_COLLECTIVE_BYTES),
        ] {
            if bytes < least {
                return Err(BcsConfigError::TooSmall { what, bytes, least });
            }
            if bytes > MOST_BYTES {
                return Err(BcsConfigError::TooLarge { what, bytes, most: MOST_BYTES });
            }
        }
        Ok(self)
    }
}
