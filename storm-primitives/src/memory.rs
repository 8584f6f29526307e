//! One node's copy of global memory.
//!
//! Bytes live in atomic words, so that the network, the node's own thread and
//! a writer thread may touch it without `unsafe`. What is atomic is one
//! aligned word; a larger range is made consistent by the event that announces
//! it (paper, section 2.4.1: no cache coherency is assumed).

use crate::layout::WORD_BYTES;
use crate::{GlobalAddr, Layout, OutOfBounds, Var, Word};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The symmetric heap of one node. Clones share the same bytes.
#[derive(Clone)]
pub struct GlobalMemory {
    words: Arc<Box<[AtomicU64]>>,
}

impl GlobalMemory {
    /// Zeroed memory for `layout`. Pages are taken from the system only when
    /// they are first written.
    pub fn new(layout: &Layout) -> GlobalMemory {
        let words = usize::try_from(layout.size() / WORD_BYTES).unwrap_or(usize::MAX);
        GlobalMemory { words: Arc::new(bytemuck::zeroed_slice_box(words)) }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.words.len() as u64 * WORD_BYTES
    }

    /// Checks that `len` bytes at `addr` lie in this memory.
    pub fn check(&self, addr: GlobalAddr, len: u64) -> Result<(), OutOfBounds> {
        match addr.0.checked_add(len) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(OutOfBounds { addr, len, size: self.size() }),
        }
    }

    /// The value of a variable (acquire).
    pub fn load<T: Word>(&self, var: Var<T>) -> T {
        T::from_word(self.word(var.addr()).load(Ordering::Acquire))
    }

    /// Sets a variable on this node only (release).
    pub fn store<T: Word>(&self, var: Var<T>, value: T) {
        self.word(var.addr()).store(value.to_word(), Ordering::Release);
    }

    /// The word at an address that came over the network.
    pub fn load_word(&self, addr: GlobalAddr) -> Result<u64, OutOfBounds> {
        self.check(addr, WORD_BYTES)?;
        Ok(self.word(addr).load(Ordering::Acquire))
    }

    /// Sets the word at an address that came over the network.
    pub fn store_word(&self, addr: GlobalAddr, value: u64) -> Result<(), OutOfBounds> {
        self.check(addr, WORD_BYTES)?;
        self.word(addr).store(value, Ordering::Release);
        Ok(())
    }

    /// Copies `data` to `addr` on this node.
    pub fn write(&self, addr: GlobalAddr, data: &[u8]) -> Result<(), OutOfBounds> {
        self.check(addr, data.len() as u64)?;
        let (head, rest) = data.split_at(head_len(addr, data.len()));
        self.write_within_word(addr, head);
        let mut index = word_index(addr.offset(head.len() as u64));
        let (whole, tail) = rest.as_chunks::<{ WORD_BYTES as usize }>();
        for (word, bytes) in self.words[index..].iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        index += whole.len();
        self.write_within_word(GlobalAddr(index as u64 * WORD_BYTES), tail);
        std::sync::atomic::fence(Ordering::Release);
        Ok(())
    }

    /// Copies bytes from `addr` on this node into `out`.
    pub fn read(&self, addr: GlobalAddr, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(addr, out.len() as u64)?;
        std::sync::atomic::fence(Ordering::Acquire);
        let (head, rest) = out.split_at_mut(head_len(addr, out.len()));
        self.read_within_word(addr, head);
        let mut index = word_index(addr.offset(head.len() as u64));
        let (whole, tail) = rest.as_chunks_mut::<{ WORD_BYTES as usize }>();
        for (word, bytes) in self.words[index..].iter().zip(whole.iter_mut()) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        index += whole.len();
        self.read_within_word(GlobalAddr(index as u64 * WORD_BYTES), tail);
        Ok(())
    }

    /// `len` bytes at `addr` as a vector.
    pub fn read_vec(&self, addr: GlobalAddr, len: usize) -> Result<Vec<u8>, OutOfBounds> {
        self.check(addr, len as u64)?;
        let mut out = vec![0; len];
        self.read(addr, &mut out)?;
        Ok(out)
    }

    fn word(&self, addr: GlobalAddr) -> &AtomicU64 {
        &self.words[word_index(addr)]
    }

    /// Writes bytes that all lie in the word that holds `addr`.
    fn write_within_word(&self, addr: GlobalAddr, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = (addr.0 % WORD_BYTES) as usize;
        let update = |old: u64| {
            let mut word = old.to_ne_bytes();
            word[start..start + bytes.len()].copy_from_slice(bytes);
            Some(u64::from_ne_bytes(word))
        };
        // Neighbouring bytes may be written by others at the same time: the
        // update must not lose theirs. It never fails, the closure being total.
        let _ = self.word(addr).fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    fn read_within_word(&self, addr: GlobalAddr, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        let start = (addr.0 % WORD_BYTES) as usize;
        let word = self.word(addr).load(Ordering::Acquire).to_ne_bytes();
        out.copy_from_slice(&word[start..start + out.len()]);
    }
}

impl std::fmt::Debug for GlobalMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GlobalMemory({} bytes)", self.size())
    }
}

fn word_index(addr: GlobalAddr) -> usize {
    (addr.0 / WORD_BYTES) as usize
}

/// How many of `len` bytes at `addr` come before the next word boundary.
fn head_len(addr: GlobalAddr, len: usize) -> usize {
    let into_word = addr.0 % WORD_BYTES;
    if into_word == 0 { 0 } else { len.min((WORD_BYTES - into_word) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory(size: u64) -> GlobalMemory {
        let mut builder = Layout::builder();
        builder.region("bytes", size);
        GlobalMemory::new(&builder.build())
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_of_bytes(
            writes in prop::collection::vec((0u64..190, prop::collection::vec(any::<u8>(), 0..60)), 0..20)
        ) {
            let memory = memory(256);
            let mut model = vec![0u8; 256];
            for (at, data) in writes {
                memory.write(GlobalAddr(at), &data).expect("within 256 bytes");
                model[at as usize..at as usize + data.len()].copy_from_slice(&data);
            }
            prop_assert_eq!(memory.read_vec(GlobalAddr(0), 256).expect("whole"), model.clone());
            prop_assert_eq!(memory.read_vec(GlobalAddr(3), 100).expect("part"), model[3..103].to_vec());
        }
    }

    #[test]
    fn a_range_that_overflows_is_refused() {
        let memory = memory(64);
        assert!(memory.write(GlobalAddr(u64::MAX), &[1, 2]).is_err());
        assert!(memory.write(GlobalAddr(60), &[0; 5]).is_err());
        assert!(memory.read_vec(GlobalAddr(0), usize::MAX).is_err());
        assert!(memory.load_word(GlobalAddr(57)).is_err());
    }
}
