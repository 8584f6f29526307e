//! The tasks of one incarnation of one node.

use crate::NodeId;

/// Tasks of one group die and freeze together: a group is one incarnation of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) node: NodeId,
    pub(super) life: u64,
}
