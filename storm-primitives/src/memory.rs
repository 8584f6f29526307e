//! One node's copy of global memory.
//!
//! Bytes live in atomic words. The network, the node's own thread and a writer thread can therefore
//! access them without `unsafe`. Only an aligned word is atomic. A larger range is consistent once
//! the event that announces it has been taken (paper, section 2.4.1: no cache coherency is
//! assumed).
//!
//! A simulated node's memory is sparse. It behaves the same, but holds only the bytes that were
//! written, and shares the bytes of a transfer with the other receivers.

use crate::layout::WORD_BYTES;
use crate::sparse_memory::SparseMemory;
use crate::{GlobalAddr, Layout, OutOfBounds, Var, Word};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The symmetric heap of one node. Clones share the same bytes.
#[derive(Clone)]
pub struct GlobalMemory {
    storage: Storage,
    size: u64,
}

#[derive(Clone)]
enum Storage {
    Flat(Arc<Box<[AtomicU64]>>),
    Sparse(Arc<Mutex<SparseMemory>>),
}

impl GlobalMemory {
    /// Zeroed memory for `layout`. Pages are taken from the system only when
    /// they are first written.
    pub fn new(layout: &Layout) -> GlobalMemory {
        let words = usize::try_from(layout.size() / WORD_BYTES).unwrap_or(usize::MAX);
        let storage = Storage::Flat(Arc::new(bytemuck::zeroed_slice_box(words)));
        GlobalMemory { storage, size: layout.size() }
    }

    /// Zeroed memory for `layout` that stores only written bytes, for one of very many nodes in one
    /// process.
    pub fn sparse(layout: &Layout) -> GlobalMemory {
        GlobalMemory { storage: Storage::Sparse(Arc::default()), size: layout.size() }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
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
        T::from_word(self.load_at(var.addr()))
    }

    /// Sets a variable on this node only (release).
    pub fn store<T: Word>(&self, var: Var<T>, value: T) {
        self.store_at(var.addr(), value.to_word());
    }

    /// The word at an address that was received over the network.
    pub fn load_word(&self, addr: GlobalAddr) -> Result<u64, OutOfBounds> {
        self.check(addr, WORD_BYTES)?;
        Ok(self.load_at(addr))
    }

    /// Sets the word at an address that was received over the network.
    pub fn store_word(&self, addr: GlobalAddr, value: u64) -> Result<(), OutOfBounds> {
        self.check(addr, WORD_BYTES)?;
        self.store_at(addr, value);
        Ok(())
    }

    /// Copies `data` to `addr` on this node.
    pub fn write(&self, addr: GlobalAddr, data: &[u8]) -> Result<(), OutOfBounds> {
        self.check(addr, data.len() as u64)?;
        match &self.storage {
            Storage::Flat(words) => write_flat(words, addr, data),
            Storage::Sparse(sparse) => lock(sparse).write(addr.0, &Bytes::copy_from_slice(data)),
        }
        Ok(())
    }

    /// Like [`write`](Self::write), for bytes that may be shared: sparse memory keeps a reference.
    pub fn write_shared(&self, addr: GlobalAddr, data: &Bytes) -> Result<(), OutOfBounds> {
        match &self.storage {
            Storage::Flat(_) => self.write(addr, data),
            Storage::Sparse(sparse) => {
                self.check(addr, data.len() as u64)?;
                lock(sparse).write(addr.0, data);
                Ok(())
            }
        }
    }

    /// Discards bytes that are no longer needed. Sparse memory frees them, and they read as zero.
    /// Flat memory keeps them.
    pub fn discard(&self, addr: GlobalAddr, len: u64) -> Result<(), OutOfBounds> {
        self.check(addr, len)?;
        if let Storage::Sparse(sparse) = &self.storage {
            lock(sparse).discard(addr.0..addr.0 + len);
        }
        Ok(())
    }

    /// Copies bytes from `addr` on this node into `out`.
    pub fn read(&self, addr: GlobalAddr, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(addr, out.len() as u64)?;
        match &self.storage {
            Storage::Flat(words) => read_flat(words, addr, out),
            Storage::Sparse(sparse) => lock(sparse).read(addr.0, out),
        }
        Ok(())
    }

    /// `len` bytes at `addr`, by reference if sparse memory has them as one block.
    pub fn read_bytes(&self, addr: GlobalAddr, len: usize) -> Result<Bytes, OutOfBounds> {
        self.check(addr, len as u64)?;
        if let Storage::Sparse(sparse) = &self.storage
            && let Some(shared) = lock(sparse).shared(addr.0, len)
        {
            return Ok(shared);
        }
        self.read_vec(addr, len).map(Bytes::from)
    }

    /// `len` bytes at `addr` as a vector.
    pub fn read_vec(&self, addr: GlobalAddr, len: usize) -> Result<Vec<u8>, OutOfBounds> {
        self.check(addr, len as u64)?;
        let mut out = vec![0; len];
        self.read(addr, &mut out)?;
        Ok(out)
    }

    fn load_at(&self, addr: GlobalAddr) -> u64 {
        match &self.storage {
            Storage::Flat(words) => words[word_index(addr)].load(Ordering::Acquire),
            Storage::Sparse(sparse) => lock(sparse).load(addr.0 / WORD_BYTES),
        }
    }

    fn store_at(&self, addr: GlobalAddr, value: u64) {
        match &self.storage {
            Storage::Flat(words) => words[word_index(addr)].store(value, Ordering::Release),
            Storage::Sparse(sparse) => lock(sparse).store(addr.0 / WORD_BYTES, value),
        }
    }
}

fn write_flat(words: &[AtomicU64], addr: GlobalAddr, data: &[u8]) {
    let (head, rest) = data.split_at(head_len(addr, data.len()));
    write_within_word(words, addr, head);
    let mut index = word_index(addr.offset(head.len() as u64));
    let (whole, tail) = rest.as_chunks::<{ WORD_BYTES as usize }>();
    for (word, bytes) in words[index..].iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    index += whole.len();
    write_within_word(words, GlobalAddr(index as u64 * WORD_BYTES), tail);
    std::sync::atomic::fence(Ordering::Release);
}

fn read_flat(words: &[AtomicU64], addr: GlobalAddr, out: &mut [u8]) {
    std::sync::atomic::fence(Ordering::Acquire);
    let (head, rest) = out.split_at_mut(head_len(addr, out.len()));
    read_within_word(words, addr, head);
    let mut index = word_index(addr.offset(head.len() as u64));
    let (whole, tail) = rest.as_chunks_mut::<{ WORD_BYTES as usize }>();
    for (word, bytes) in words[index..].iter().zip(whole.iter_mut()) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    index += whole.len();
    read_within_word(words, GlobalAddr(index as u64 * WORD_BYTES), tail);
}

/// Writes bytes that all lie in the word that holds `addr`.
fn write_within_word(words: &[AtomicU64], addr: GlobalAddr, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let start = (addr.0 % WORD_BYTES) as usize;
    let update = |old: u64| {
        let mut word = old.to_ne_bytes();
        word[start..start + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(word))
    };
    // Others may write neighbouring bytes at the same time, and the update must not lose theirs.
    // The update never fails, because the closure always returns a value.
    let _ = words[word_index(addr)].fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
}

fn read_within_word(words: &[AtomicU64], addr: GlobalAddr, out: &mut [u8]) {
    if out.is_empty() {
        return;
    }
    let start = (addr.0 % WORD_BYTES) as usize;
    let word = words[word_index(addr)].load(Ordering::Acquire).to_ne_bytes();
    out.copy_from_slice(&word[start..start + out.len()]);
}

fn lock(sparse: &Mutex<SparseMemory>) -> MutexGuard<'_, SparseMemory> {
    // Every change of the maps is one insertion or removal, so a panic leaves them usable.
    sparse.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for GlobalMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GlobalMemory({} bytes)", self.size())
    }
}

fn word_index(addr: GlobalAddr) -> usize {
    (addr.0 / WORD_BYTES) as usize
}

/// The number of the `len` bytes at `addr` before the next word boundary.
fn head_len(addr: GlobalAddr, len: usize) -> usize {
    let into_word = addr.0 % WORD_BYTES;
    if into_word == 0 { 0 } else { len.min((WORD_BYTES - into_word) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(size: u64) -> Layout {
        let mut builder = Layout::builder();
        builder.region("bytes", size);
        builder.build()
    }

    /// A dense and a sparse memory.
    fn memories(size: u64) -> [GlobalMemory; 2] {
        [GlobalMemory::new(&layout(size)), GlobalMemory::sparse(&layout(size))]
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_of_bytes(
            writes in prop::collection::vec((0u64..700, prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            stores in prop::collection::vec((0u64..128, any::<u64>()), 20),
        ) {
            for memory in memories(1024) {
                let mut model = vec![0u8; 1024];
                for ((at, data), (word, value)) in writes.iter().zip(&stores) {
                    let shared = Bytes::copy_from_slice(data);
                    memory.write_shared(GlobalAddr(*at), &shared).expect("within 1024 bytes");
                    model[*at as usize..*at as usize + data.len()].copy_from_slice(data);
                    let whole = memory.read_bytes(GlobalAddr(*at), data.len()).expect("within");
                    prop_assert_eq!(&whole[..], &data[..]);
                    memory.store_word(GlobalAddr(word * 8), *value).expect("within");
                    model[*word as usize * 8..][..8].copy_from_slice(&value.to_ne_bytes());
                    prop_assert_eq!(memory.load_word(GlobalAddr(word * 8)), Ok(*value));
                }
                prop_assert_eq!(memory.read_vec(GlobalAddr(0), 1024).expect("whole"), model.clone());
                prop_assert_eq!(memory.read_vec(GlobalAddr(3), 100).expect("part"), model[3..103].to_vec());
                prop_assert_eq!(memory.read_bytes(GlobalAddr(3), 100).expect("part"), model[3..103].to_vec());
                let words = model.as_chunks::<8>().0;
                for (index, word) in words.iter().enumerate() {
                    let found = memory.load_word(GlobalAddr(index as u64 * 8)).expect("within");
                    prop_assert_eq!(found.to_ne_bytes(), *word);
                }
            }
        }
    }

    #[test]
    fn sparse_memory_shares_transferred_bytes() {
        let [flat, sparse] = memories(4096);
        let data = Bytes::from(vec![7; 2000]);
        for memory in [&flat, &sparse] {
            memory.write_shared(GlobalAddr(16), &data).expect("within");
        }
        let inner = |memory: &GlobalMemory| memory.read_bytes(GlobalAddr(32), 1000).expect("there");
        assert_eq!(inner(&sparse).as_ptr(), data[16..].as_ptr());
        assert_ne!(inner(&flat).as_ptr(), data[16..].as_ptr());
    }

    #[test]
    fn sparse_memory_frees_only_discarded_bytes() {
        let [flat, sparse] = memories(4096);
        let data = Bytes::from(vec![7; 2000]);
        for memory in [&flat, &sparse] {
            memory.write_shared(GlobalAddr(16), &data).expect("within");
            memory.store_word(GlobalAddr(0), 1).expect("within");
            memory.store_word(GlobalAddr(24), 2).expect("within");
            memory.discard(GlobalAddr(16), 2000).expect("within");
            assert_eq!(memory.load_word(GlobalAddr(0)), Ok(1));
        }
        assert!(data.is_unique(), "nobody else has it");
        assert_eq!(sparse.read_vec(GlobalAddr(16), 2000), Ok(vec![0; 2000]));
    }

    #[test]
    fn a_range_that_overflows_is_refused() {
        for memory in memories(64) {
            assert!(memory.discard(GlobalAddr(60), 5).is_err());
            assert!(memory.write(GlobalAddr(u64::MAX), &[1, 2]).is_err());
            assert!(memory.write(GlobalAddr(60), &[0; 5]).is_err());
            assert!(memory.write_shared(GlobalAddr(60), &Bytes::from_static(&[0; 5])).is_err());
            assert!(memory.read_vec(GlobalAddr(0), usize::MAX).is_err());
            assert!(memory.read_bytes(GlobalAddr(0), usize::MAX).is_err());
            assert!(memory.load_word(GlobalAddr(57)).is_err());
        }
    }
}
