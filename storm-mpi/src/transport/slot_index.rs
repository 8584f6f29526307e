//! The number of a connection.

/// A place in the table of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex(pub(super) u32);
