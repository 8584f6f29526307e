//! The question in which slot of global memory a collective may begin.

use crate::group::GroupKey;
use std::collections::VecDeque;
use storm_primitives::CompareAndWrite;

/// A place for one collective in global memory, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

/// The question whether a collective may begin in the first of these slots.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) candidates: Candidates,
    pub(crate) ask: CompareAndWrite,
}

/// The slots in which a collective may still begin, in this slice.
#[derive(Debug)]
pub(crate) struct Candidates {
    pub(crate) key: GroupKey,
    pub(crate) slots: VecDeque<Slot>,
}
