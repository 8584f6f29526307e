//! Bulk data by hardware multicast: the root sends the payload of a chunk once, to all members, as
//! datagrams (UD). Heads, acknowledgements and repairs go by the lanes.
//!
//! [`datagram`], [`assembly`] and [`awaited`] use no network. The other modules are private: a
//! member's part in the group, to which the root sends and all other members listen.

pub mod assembly;
pub mod awaited;
pub mod datagram;

pub(crate) mod address;
pub(crate) mod group;
pub(crate) mod listener;
pub(crate) mod sender;
#[cfg(test)]
mod tests;
