//! PMI-1, the line protocol between a process and the Node Manager of its node.
//!
//! There are three layers. [`wire`] turns lines into typed messages and back, and does no I/O.
//! [`client`] speaks the protocol over the inherited `PMI_FD`. [`node_server`] is the server side
//! of a node, a pure state machine that the Node Manager drives. The caller does the exchange
//! between nodes (the fence).

pub mod client;
pub mod mapping;
pub mod node_server;
pub mod wire;

pub use client::PmiClient;
pub use mapping::ProcessMapping;
pub use node_server::NodeServer;
