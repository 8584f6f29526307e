//! Operations that must not be placed between the comparison and the write of a COMPARE-AND-WRITE.
//!
//! The whole COMPARE-AND-WRITE counts as placed where it writes. Until then, no operation may write
//! the compared variable on a node of its set. Two COMPARE-AND-WRITEs must not be under way if one
//! writes the variable that the other compares.

use crate::wire::Primitive;
use storm_primitives::{CompareAndWrite, GlobalAddr, NodeSet};

/// Length of a variable in bytes.
const WORD_BYTES: u64 = 8;

/// A COMPARE-AND-WRITE that may still write.
#[derive(Clone, Debug)]
pub(super) struct OpenCompare {
    pub(super) set: NodeSet,
    pub(super) var: GlobalAddr,
    pub(super) write: (GlobalAddr, u64),
}

impl OpenCompare {
    /// `caw` if it may write.
    pub(super) fn of(caw: &CompareAndWrite) -> Option<OpenCompare> {
        let write = caw.write?;
        Some(OpenCompare { set: caw.set.clone(), var: caw.var, write })
    }

    /// Whether this operation and `other` must not overlap: the later one waits for the earlier
    /// write.
    pub(super) fn conflicts_with(&self, other: &Primitive) -> bool {
        match other {
            Primitive::Xfer { dest, addr, len, .. } => {
                let end = addr.0.saturating_add(*len);
                let overlaps = addr.0 < self.var.0 + WORD_BYTES && self.var.0 < end;
                overlaps && self.set.intersects(dest)
            }
            Primitive::Compare(caw) => {
                let Some((written, _)) = caw.write else { return false };
                let touches = written == self.var || self.write.0 == caw.var;
                touches && self.set.intersects(&caw.set)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_primitives::Relation;

    fn caw(set: u32, var: u64, write: u64) -> CompareAndWrite {
        CompareAndWrite {
            set: NodeSet::compute(set),
            var: GlobalAddr(var),
            relation: Relation::Equal,
            value: 0,
            write: Some((GlobalAddr(write), 1)),
        }
    }

    #[test]
    fn only_what_writes_the_compared_variable_waits() {
        let open = OpenCompare::of(&caw(2, 16, 64)).expect("it writes");
        let xfer =
            |addr, len, dest| Primitive::Xfer { dest, addr: GlobalAddr(addr), len, event: None };
        assert!(open.conflicts_with(&xfer(0, 17, NodeSet::compute(1))));
        assert!(!open.conflicts_with(&xfer(0, 16, NodeSet::compute(1))));
        assert!(!open.conflicts_with(&xfer(64, 8, NodeSet::compute(1))));
        assert!(!open.conflicts_with(&xfer(16, 8, NodeSet::single(storm_primitives::NodeId(3)))));
        assert!(open.conflicts_with(&Primitive::Compare(caw(1, 64, 128))));
        assert!(open.conflicts_with(&Primitive::Compare(caw(1, 128, 16))));
        assert!(!open.conflicts_with(&Primitive::Compare(caw(1, 16, 64))));
    }
}
