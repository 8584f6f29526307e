//! A machine of buffered coscheduling in virtual time: the real engines and drivers on a simulated
//! network, with modelled ranks that compute, post and wait.
//!
//! It reproduces the figures of SC'03 at any number of nodes. It also serves for comparison with
//! [`DirectMachine`], where the same ranks send each message at once. The model of a rank has its
//! times of computation and its messages, but no cost for posting a descriptor to the engine.

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
