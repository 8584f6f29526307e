//! Global memory of a simulated node, which holds only the bytes that were written.
//!
//! A transfer reaches many simulated nodes with the same bytes: each node keeps a reference to them
//! instead of a copy. Small writes go to single words that lie over the shared bytes. Unwritten
//! memory reads as zero and takes no room. Therefore 16,384 nodes with four buffers of 512 KB each
//! hold those buffers once.

use crate::layout::WORD_BYTES;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks of at least this length are kept by reference. For a shorter block, the reference costs
/// more than the words.
const MIN_SHARED_BYTES: usize = 64;

/// The bytes of one node.
#[derive(Default)]
pub(crate) struct SparseMemory {
    /// Blocks by their first byte; none overlaps another.
    blocks: BTreeMap<u64, Bytes>,
    /// Words by number, newer than the blocks.
    words: BTreeMap<u64, u64>,
}

impl SparseMemory {
    /// The word at a number.
    pub(crate) fn load(&self, word: u64) -> u64 {
        if let Some(value) = self.words.get(&word) {
            return *value;
        }
        let mut bytes = [0; WORD_BYTES as usize];
        self.read_blocks(word * WORD_BYTES, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Sets the word at a number.
    pub(crate) fn store(&mut self, word: u64, value: u64) {
        self.words.insert(word, value);
    }

    /// Writes bytes, by reference where they are many.
    pub(crate) fn write(&mut self, addr: u64, data: &Bytes) {
        if data.len() < MIN_SHARED_BYTES {
            self.write_words(addr, data);
            return;
        }
        let end = addr + data.len() as u64;
        self.clear_words(addr, data);
        self.clear_blocks(addr..end);
        self.blocks.insert(addr, data.clone());
    }

    /// Zeroes these bytes and keeps nothing for them; a word that they share with others is kept.
    pub(crate) fn discard(&mut self, range: Range<u64>) {
        let touched: Vec<u64> = self
            .words
            .range(range.start / WORD_BYTES..range.end.div_ceil(WORD_BYTES))
            .map(|(word, _)| *word)
            .collect();
        self.clear_blocks(range.clone());
        for word in touched {
            let (start, end) = (word * WORD_BYTES, (word + 1) * WORD_BYTES);
            if range.start <= start && end <= range.end {
                self.words.remove(&word);
            } else {
                let (from, to) = (start.max(range.start), end.min(range.end));
                self.merge(word, from, &[0; WORD_BYTES as usize][..(to - from) as usize]);
            }
        }
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, addr: u64, out: &mut [u8]) {
        out.fill(0);
        self.read_blocks(addr, out);
        for (word, value) in self.words.range(words_of(addr, out.len())) {
            let start = word * WORD_BYTES;
            for (at, byte) in (start..).zip(value.to_ne_bytes()) {
                if let Some(target) = at.checked_sub(addr).and_then(|i| out.get_mut(i as usize)) {
                    *target = byte;
                }
            }
        }
    }

    /// The bytes by reference, where they were written as one block.
    pub(crate) fn shared(&self, addr: u64, len: usize) -> Option<Bytes> {
        let (start, block) = self.blocks.range(..=addr).next_back()?;
        let from = usize::try_from(addr - start).ok()?;
        let to = from.checked_add(len).filter(|to| *to <= block.len())?;
        let is_plain = self.words.range(words_of(addr, len)).next().is_none();
        is_plain.then(|| block.slice(from..to))
    }

    fn read_blocks(&self, addr: u64, out: &mut [u8]) {
        let end = addr + out.len() as u64;
        let before = self.blocks.range(..addr).next_back();
        for (start, block) in before.into_iter().chain(self.blocks.range(addr..end)) {
            let (from, to) = (addr.max(*start), end.min(start + block.len() as u64));
            if from < to {
                out[(from - addr) as usize..(to - addr) as usize]
                    .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
            }
        }
    }

    fn write_words(&mut self, addr: u64, data: &[u8]) {
        for word in words_of(addr, data.len()) {
            self.merge(word, addr, data);
        }
    }

    /// Sets the bytes of one word that `data` at `addr` covers.
    fn merge(&mut self, word: u64, addr: u64, data: &[u8]) {
        let mut bytes = self.load(word).to_ne_bytes();
        for (at, byte) in (word * WORD_BYTES..).zip(&mut bytes) {
            if let Some(new) = at.checked_sub(addr).and_then(|i| data.get(i as usize)) {
                *byte = *new;
            }
        }
        self.words.insert(word, u64::from_ne_bytes(bytes));
    }

    /// Makes room in the words for a block: the words that it covers are removed, the words that it
    /// covers in part take its bytes.
    fn clear_words(&mut self, addr: u64, data: &[u8]) {
        let touched: Vec<u64> =
            self.words.range(words_of(addr, data.len())).map(|(word, _)| *word).collect();
        let end = addr + data.len() as u64;
        for word in touched {
            if word * WORD_BYTES >= addr && (word + 1) * WORD_BYTES <= end {
                self.words.remove(&word);
            } else {
                self.merge(word, addr, data);
            }
        }
    }

    /// Removes the blocks in the range. Parts outside the range stay.
    fn clear_blocks(&mut self, range: Range<u64>) {
        let before = self.blocks.range(..range.start).next_back().map(|(start, _)| *start);
        let inside = self.blocks.range(range.clone()).map(|(start, _)| *start);
        let starts: Vec<u64> = before.into_iter().chain(inside).collect();
        for start in starts {
            let Some(block) = self.blocks.remove(&start) else { continue };
            let end = start + block.len() as u64;
            if start < range.start {
                let kept = (range.start.min(end) - start) as usize;
                self.blocks.insert(start, block.slice(..kept));
            }
            if range.end < end {
                self.blocks.insert(range.end, block.slice((range.end - start) as usize..));
            }
        }
    }
}

/// The words that hold some of `len` bytes at `addr`.
fn words_of(addr: u64, len: usize) -> Range<u64> {
    addr / WORD_BYTES..(addr + len as u64).div_ceil(WORD_BYTES)
}
