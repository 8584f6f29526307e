//! PMI-1, the line protocol between a process and the Node Manager of its node.
//!
//! Three layers: [`wire`] turns lines into typed messages and back and does no I/O; [`client`] speaks
//! it over the inherited `PMI_FD`; [`node_server`] is the per-node answering side, a pure state
//! machine that the Node Manager drives. What crosses nodes (the fence) is the caller's business.

pub mod client;
pub mod mapping;
pub mod node_server;
pub mod wire;

pub use client::PmiClient;
pub use mapping::ProcessMapping;
pub use node_server::NodeServer;
