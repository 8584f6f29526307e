//! The end of a step's part on a node, as the journal keeps it for a node that is lost.

use serde::{Deserialize, Serialize};
use storm_rm::message::RankExit;

/// The reports that a lost node would make again if it still had the part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartEnd {
    /// How its ranks ended.
    pub exits: Vec<RankExit>,
    /// Its last PMI fences. Another node may miss the end of one.
    pub fences: Vec<FencePart>,
}

/// A node's part of a PMI fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencePart {
    /// Counts the fences of the step, from 1.
    pub sequence: u64,
    /// The pairs that the node's ranks put before the fence.
    pub puts: Vec<(String, String)>,
}
