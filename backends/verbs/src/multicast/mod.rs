//! Bulk data by hardware multicast. The root sends the payload of a chunk once, to all members, as
//! datagrams (UD). Headers, acknowledgements and repairs use the lanes.
//!
//! [`datagram`], [`assembly`] and [`awaited`] use no network. The other modules are private. They
//! are a member's part in the group: the root sends, and all other members listen.

pub mod assembly;
pub mod awaited;
pub mod datagram;

pub(crate) mod address;
pub(crate) mod group;
pub(crate) mod listener;
pub(crate) mod sender;
#[cfg(test)]
mod tests;
