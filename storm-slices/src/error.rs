//! Why slices stop.

use storm_primitives::{NodeSet, PrimitiveError};
use thiserror::Error;

/// The reason why a slice did not end properly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SliceError {
    /// Bytes were still on the way when the slice ended: a defect of this program or of its
    /// network.
    #[error("slice {slice} ended on {nodes} while bytes were on the way")]
    NotEmpty {
        /// The slice.
        slice: u64,
        /// The nodes that were asked.
        nodes: NodeSet,
    },
    /// No compute node is left.
    #[error("no node is left to be strobed")]
    NobodyLeft,
    /// The network failed the management node.
    #[error(transparent)]
    Network(#[from] PrimitiveError),
}
