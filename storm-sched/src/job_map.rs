//! Maps keyed by job, for lookups only.
//!
//! The Machine Manager numbers jobs one after the other, and users cannot choose the ids. A single
//! multiplication therefore spreads the ids well, and no user can provoke collisions. The order of
//! such a map has no meaning, and no decision depends on it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::JobId;

pub(crate) type JobMap<V> = HashMap<JobId, V, BuildHasherDefault<JobIdHasher>>;

/// 2^64 divided by the golden ratio, which moves neighbours far apart (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplicative hashing of one number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobIdHasher(u64);

impl Hasher for JobIdHasher {
    fn finish(&self) -> u64 {
        // The table takes its index from the low bits, but the high bits of the product are well
        // mixed.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(GOLDEN);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_and_strides_spread_over_a_small_table() {
        let hasher = BuildHasherDefault::<JobIdHasher>::default();
        for stride in [1, 2, 64, 1 << 20, 1 << 32] {
            let buckets: HashSet<u64> =
                (0..1_000).map(|job| hasher.hash_one(JobId(job * stride)) % 4_096).collect();
            assert!(buckets.len() > 700, "stride {stride}: {} buckets", buckets.len());
        }
    }
}
