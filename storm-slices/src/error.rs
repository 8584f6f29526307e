//! Why slices stop.

use storm_primitives::{NodeSet, PrimitiveError};
use thiserror::Error;

/// Why a slice did not end as it must.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SliceError {
    /// The slice ended with bytes on the way: a defect of this program or its network.
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
