//! The descriptors that wake the node, and their tokens.

use crate::ids::{PadId, PlIndex};

/// The descriptor that became readable, as epoll carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Keeper,
    PadKeeper(PadId),
    Pl(PadId, PlIndex),
    /// A keeper has room for more commands.
    Room,
    PadRoom(PadId),
}

impl Source {
    pub(super) fn token(self) -> u64 {
        match self {
            Self::Keeper => 0,
            Self::PadKeeper(pad) => 1 << 32 | u64::from(pad.0) << 16,
            Self::Pl(pad, pl) => 2 << 32 | u64::from(pad.0) << 16 | u64::from(pl.0),
            Self::Room => 3 << 32,
            Self::PadRoom(pad) => 4 << 32 | u64::from(pad.0) << 16,
        }
    }

    pub(super) fn from_token(token: u64) -> Self {
        // The casts pick the two halves that `token` put there.
        let (pad, pl) = (PadId((token >> 16) as u16), PlIndex(token as u16));
        match token >> 32 {
            0 => Self::Keeper,
            1 => Self::PadKeeper(pad),
            3 => Self::Room,
            4 => Self::PadRoom(pad),
            _ => Self::Pl(pad, pl),
        }
    }
}
