//! A machine of buffered coscheduling in virtual time: the engines and drivers as they are, on a
//! simulated network, and modelled ranks that compute, post and wait.
//!
//! For the figures of SC'03 at any number of nodes, and to compare with [`DirectMachine`], in which the
//! same ranks send each message at once. What is modelled of a rank is when it computes and what it
//! sends; the cost of posting a descriptor to the engine is not.

mod direct;
mod machine;
mod node;
mod peer;
mod rank;
mod workload;

pub use direct::{DirectMachine, DirectRank};
pub use machine::{Machine, Place, Strobing};
pub use peer::Peer;
pub use rank::ModelledRank;
pub use workload::{Exchange, Stencil, ping_pong};
