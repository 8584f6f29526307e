//! The layout of global memory: the places of the variables, the same on all nodes.
//!
//! A daemon declares its variables, regions and events in a fixed order with a [`LayoutBuilder`].
//! The result has a hash that backends compare when a node joins. Two versions that would disagree
//! about an address therefore never join one cluster.

use crate::{EventId, GlobalAddr};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// Every variable is one word of this many bytes, aligned to it.
pub(crate) const WORD_BYTES: u64 = 8;

/// Regions start on a cache line, so that two regions never share one.
const REGION_ALIGN_BYTES: u64 = 64;

/// A type that fits a global variable: one 64-bit word, compared as unsigned.
pub trait Word: Copy + 'static {
    /// The value as the word that COMPARE-AND-WRITE compares.
    fn to_word(self) -> u64;
    /// The value of a word; `from_word(x.to_word()) == x`.
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> u64 {
        word
    }
}

impl Word for u32 {
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> u32 {
        word as u32
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> bool {
        word != 0
    }
}

/// A typed variable in global memory.
pub struct Var<T> {
    addr: GlobalAddr,
    _type: PhantomData<fn() -> T>,
}

impl<T> Var<T> {
    /// The variable's address on every node.
    pub fn addr(self) -> GlobalAddr {
        self.addr
    }

    fn at(addr: GlobalAddr) -> Var<T> {
        Var { addr, _type: PhantomData }
    }
}

impl<T> Clone for Var<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Var<T> {}
impl<T> fmt::Debug for Var<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({})", self.addr)
    }
}

/// An array of typed variables.
pub struct VarArray<T> {
    first: GlobalAddr,
    len: u32,
    _type: PhantomData<fn() -> T>,
}

impl<T> VarArray<T> {
    /// The variable at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len), as with a slice.
    pub fn get(self, index: u32) -> Var<T> {
        assert!(index < self.len, "variable {index} of an array of {}", self.len);
        Var::at(self.first.offset(u64::from(index) * WORD_BYTES))
    }

    /// Number of variables.
    pub fn len(self) -> u32 {
        self.len
    }

    /// Whether the array is empty.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl<T> Clone for VarArray<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for VarArray<T> {}
impl<T> fmt::Debug for VarArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VarArray({}; {})", self.first, self.len)
    }
}

/// A range of plain bytes in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, the same on every node.
    pub addr: GlobalAddr,
    /// Length in bytes.
    pub len: u64,
}

/// A run of symmetric events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    first: u32,
    len: u32,
}

impl EventRange {
    /// The event at `index`.
    ///
    /// # Panics
    /// If `index` is not below the number of events declared.
    pub fn get(self, index: u32) -> EventId {
        assert!(index < self.len, "event {index} of a run of {}", self.len);
        EventId(self.first + index)
    }
}

/// Fingerprint of a layout. Two layouts have equal fingerprints exactly when they declare the same
/// items under the same names in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayoutHash(pub [u8; 32]);

impl fmt::Display for LayoutHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The finished plan of global memory and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    size: u64,
    events: u32,
    hash: LayoutHash,
}

impl Layout {
    /// An empty plan to add to.
    pub fn builder() -> LayoutBuilder {
        LayoutBuilder { size: 0, events: 0, hasher: blake3::Hasher::new() }
    }

    /// Size of global memory in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of symmetric events.
    pub fn events(&self) -> u32 {
        self.events
    }

    /// The fingerprint that nodes compare when they join.
    pub fn hash(&self) -> LayoutHash {
        self.hash
    }
}

/// Declares variables, regions and events in order.
#[derive(Debug)]
pub struct LayoutBuilder {
    size: u64,
    events: u32,
    hasher: blake3::Hasher,
}

impl LayoutBuilder {
    /// Declares one variable.
    pub fn var<T: Word>(&mut self, name: &str) -> Var<T> {
        self.record("var", name, 1);
        Var::at(self.allocate(WORD_BYTES, WORD_BYTES))
    }

    /// `len` variables in a row.
    pub fn vars<T: Word>(&mut self, name: &str, len: u32) -> VarArray<T> {
        self.record("vars", name, u64::from(len));
        let first = self.allocate(u64::from(len) * WORD_BYTES, WORD_BYTES);
        VarArray { first, len, _type: PhantomData }
    }

    /// `len` bytes, cache-line aligned.
    pub fn region(&mut self, name: &str, len: u64) -> Region {
        self.record("region", name, len);
        Region { addr: self.allocate(len, REGION_ALIGN_BYTES), len }
    }

    /// Declares one symmetric event.
    pub fn event(&mut self, name: &str) -> EventId {
        self.events(name, 1).get(0)
    }

    /// `len` symmetric events in a row.
    pub fn events(&mut self, name: &str, len: u32) -> EventRange {
        self.record("events", name, u64::from(len));
        let range = EventRange { first: self.events, len };
        self.events += len;
        assert!(self.events < EventId::FIRST_LOCAL, "more events than ids");
        range
    }

    /// The finished layout.
    pub fn build(self) -> Layout {
        let size = self.size.next_multiple_of(WORD_BYTES);
        Layout { size, events: self.events, hash: LayoutHash(*self.hasher.finalize().as_bytes()) }
    }

    fn record(&mut self, kind: &str, name: &str, len: u64) {
        for text in [kind, name] {
            self.hasher.update(&(text.len() as u64).to_le_bytes());
            self.hasher.update(text.as_bytes());
        }
        self.hasher.update(&len.to_le_bytes());
    }

    fn allocate(&mut self, len: u64, align: u64) -> GlobalAddr {
        let addr = self.size.next_multiple_of(align);
        self.size = addr + len;
        GlobalAddr(addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_variables(first: &str) -> Layout {
        let mut builder = Layout::builder();
        let _: Var<u64> = builder.var(first);
        let _: Var<u64> = builder.var("b");
        builder.build()
    }

    #[test]
    fn the_hash_tells_names_and_lengths_apart() {
        assert_eq!(two_variables("a").hash(), two_variables("a").hash());
        assert_ne!(two_variables("a").hash(), two_variables("c").hash());
    }

    #[test]
    fn variables_and_regions_do_not_overlap() {
        let mut builder = Layout::builder();
        let a: Var<u64> = builder.var("a");
        let bytes = builder.region("bytes", 13);
        let b: VarArray<bool> = builder.vars("b", 3);
        assert_eq!(a.addr(), GlobalAddr(0));
        assert_eq!(bytes.addr, GlobalAddr(64));
        assert_eq!(b.get(0).addr(), GlobalAddr(80));
        assert_eq!(builder.build().size(), 104);
    }
}
