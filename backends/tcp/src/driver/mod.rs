//! Sockets and tasks around the pure parts: everything here runs on one thread.

pub(crate) mod core;
mod handshake;
mod lanes;
mod link;
pub(crate) mod node;
mod parent;
mod references;
pub(crate) mod root;
