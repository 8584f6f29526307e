//! Sockets and tasks around the pure parts: everything here runs on one thread.

mod child;
pub(crate) mod core;
mod handshake;
mod lanes;
mod link;
pub(crate) mod node;
mod node_role;
mod parent;
mod parent_link;
mod references;
pub(crate) mod root;
