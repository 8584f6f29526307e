//! The number by which a client finds the step again that it asked for.

use serde::{Deserialize, Serialize};

/// A random number of the client. A client that asks twice with the same number gets one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepAsk(pub u64);
