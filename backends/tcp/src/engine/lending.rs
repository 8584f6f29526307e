//! Passes long data of operations down the tree by reference. A frame tells where on this host the
//! data is. Such an operation is as short as one without data, and needs no second sweep.
//!
//! A node that gives a reference keeps the data until the child has answered, or until all nodes
//! have carried out the operation. It keeps the data even after a change of the tree, because the
//! child may read an old frame late.

use super::Engine;
use crate::shared_memory::Piece;
use crate::wire::{Down, Seq};
use bytes::Bytes;
use std::rc::Rc;
use storm_primitives::{GlobalAddr, GlobalMemory, OutOfBounds};

/// An operation on its way to a child. Clones share it.
#[derive(Clone, Debug)]
pub enum Passed {
    /// The frame as it came in.
    Frame(Bytes),
    /// An operation whose data should rather be lent than sent, if the child is on this host.
    Lent(Rc<Down>, Piece),
}

impl Passed {
    /// A copy that may be kept for long.
    pub(super) fn detached(&self) -> Passed {
        match self {
            // Copied, because the frame may share its block with much else.
            Passed::Frame(raw) => Passed::Frame(Bytes::copy_from_slice(raw)),
            Passed::Lent(..) => self.clone(),
        }
    }
}

/// The data of an operation.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    /// The data came in a frame.
    Copied(&'a Bytes),
    /// The data stays in the sender's memory.
    Lent(&'a Piece),
}

impl Data<'_> {
    pub(super) fn write(self, memory: &GlobalMemory, addr: GlobalAddr) -> Result<(), OutOfBounds> {
        match self {
            Data::Copied(bytes) => memory.write(addr, bytes),
            Data::Lent(piece) => memory.write_shared(addr, piece.bytes()),
        }
    }
}

impl Engine {
    /// Takes an operation with its data in `piece`, outside the frame.
    pub fn on_lent(&mut self, down: &Down, piece: Piece) {
        if down.epoch != self.epoch {
            return;
        }
        // Keep the first copy: children may still open it.
        let piece = self.lent.get(&down.seq).cloned().unwrap_or(piece);
        let passed = Passed::Lent(Rc::new(down.clone()), piece.clone());
        self.take_down(down, Data::Lent(&piece), &passed);
    }

    /// The number of bytes kept for children that hold references to them.
    pub fn lent_bytes(&self) -> u64 {
        self.lent.values().map(|piece| piece.bytes().len() as u64).sum()
    }

    /// Keeps the memory to which children get references.
    pub(super) fn lend(&mut self, seq: Seq, passed: &Passed) {
        if let Passed::Lent(_, piece) = passed {
            self.lent.insert(seq, piece.clone());
        }
    }
}
