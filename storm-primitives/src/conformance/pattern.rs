//! Bytes that two processes can both make, so that the expected content of 64 MiB need not be sent.

use serde::{Deserialize, Serialize};

/// `len` bytes derived from `seed`. Not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// Another seed, other bytes.
    pub seed: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Pattern {
    /// The pattern of `len` bytes from `seed`.
    pub fn new(seed: u64, len: u64) -> Pattern {
        Pattern { seed, len }
    }

    /// The bytes. A shorter pattern of the same seed is a prefix of a longer one.
    pub fn bytes(&self) -> Vec<u8> {
        // A pattern is only requested if it fits memory, so `usize` holds its length.
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        let mut out = vec![0; len];
        for (index, chunk) in out.chunks_mut(8).enumerate() {
            let word = mix(self.seed.wrapping_add(index as u64)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        out
    }

    /// The fingerprint of the bytes, as a node reports it.
    pub fn hash(&self) -> [u8; 32] {
        hash(&self.bytes())
    }
}

/// The fingerprint that [`Seen::Hash`](super::Seen::Hash) carries.
pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Spreads neighbouring numbers over all 64 bits (the finaliser of SplitMix64,
/// Steele, Lea and Flood, 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_seed_and_extend_each_other() {
        let long = Pattern::new(7, 100).bytes();
        assert_eq!(Pattern::new(7, 61).bytes(), long[..61]);
        assert_ne!(Pattern::new(1 << 40, 100).bytes(), long);
        assert_ne!(Pattern::new(7, 99).hash(), Pattern::new(7, 100).hash());
    }
}
