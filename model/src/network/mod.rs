//! The networks that the model knows. Each has its parameters and its own way to transfer a binary
//! and a message.

mod multicast;
mod shared_host;
mod tree;

pub use multicast::Multicast;
pub use shared_host::SharedHost;
pub use tree::{FanOut, MAX_FAN_OUT, Tree, tree_depth};

use serde::{Deserialize, Serialize};

/// The network that carries the primitives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Multicast and network conditionals in hardware, as in QsNet.
    Multicast(Multicast),
    /// Messages along a k-ary tree: TCP or verbs.
    Tree(Tree),
    /// A tree with all nodes as processes of one host, as `storm up` makes it. The work of all
    /// nodes adds up.
    SharedHost(Box<SharedHost>),
}
