//! Faults of a simulated node and its link, and scripts of them.

use crate::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A fault of one node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFault {
    /// The node stops for ever, at any point of its tasks.
    Kill,
    /// The node stops as by SIGSTOP, and is cut off when its silence is noticed.
    Freeze,
    /// A frozen node continues.
    Thaw,
    /// Everything to and from it takes this much longer.
    Delay(Duration),
    /// Everything to, from and on it takes this many percent of its time: 300 is three times
    /// slower, 100 heals.
    Slow {
        /// Hundredths; at least 1.
        percent: u32,
    },
    /// Messages to and from the node get lost, and are sent again until one arrives.
    Lossy {
        /// Messages lost, per thousand; below 1000.
        per_mille: u32,
        /// Time until a lost message is sent again.
        resend: Duration,
    },
    /// The node's link is cut, and the node continues alone. It is cut off when its silence is
    /// noticed.
    Cut,
    /// The node's link works normally again: ends `Delay`, `Lossy` and `Cut`.
    Mend,
}

/// A fault of one node at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptedFault {
    /// The time of the fault, from the start of the script.
    pub after: Duration,
    /// The node.
    pub node: NodeId,
    /// The fault.
    pub fault: NodeFault,
}
