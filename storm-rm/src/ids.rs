//! Identifiers that the daemons share: runs, ranks, sets of rows, transfers, contents. The numbers
//! of a job and of a row are [`storm_sched::JobId`] and [`storm_sched::Row`].

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use storm_sched::Row;
use thiserror::Error;

/// One run of a job, numbered from 1 over the runs of *all* jobs in the life of a cluster. A flag
/// that an earlier job left in the same slot must not be taken for this run's
/// (`docs/decisions/0003-termination.md`). 0, the default, stands for none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct JobIncarnation(pub u64);

/// Index of a live job in the global arrays of flags; reused after the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobSlot(pub u32);

/// A process of a job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of the cluster: nodes under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub u16);

/// The rows in which a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RowSet(pub u64);

impl RowSet {
    /// The rows of a job that runs whichever row is active: space sharing.
    pub const ALL: RowSet = RowSet(u64::MAX);
    /// A job that runs in no row.
    pub const NONE: RowSet = RowSet(0);
    /// No partition may have more rows than this set can name.
    pub const MAX_ROWS: u32 = u64::BITS;

    /// The set of one row; empty for a row past [`MAX_ROWS`](Self::MAX_ROWS).
    pub fn single(row: Row) -> RowSet {
        RowSet(1u64.checked_shl(row.0).unwrap_or(0))
    }

    /// This set with one more row.
    #[must_use]
    pub fn with(self, row: Row) -> RowSet {
        RowSet(self.0 | RowSet::single(row).0)
    }

    /// Whether the job runs while `row` is active.
    pub fn contains(self, row: Row) -> bool {
        self.0 & RowSet::single(row).0 != 0
    }

    /// Whether jobs of these rows and of those ever run at the same time.
    pub fn meets(self, other: RowSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// One of the few chunk queues through which files travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Channel(pub u32);

/// One use of a channel, so that a report of an earlier file is not taken for a report of this
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// BLAKE3 of a file's content: its name in every cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of bytes in memory.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a BLAKE3 hash: 64 hexadecimal digits are expected")]
pub struct NotAHash(pub String);

impl FromStr for ContentHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<ContentHash, NotAHash> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| NotAHash(text.to_owned()))?;
        Ok(ContentHash(*hash.as_bytes()))
    }
}

impl Serialize for ContentHash {
    /// Hexadecimal where a person may read it, bytes elsewhere.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(ContentHash)
        }
    }
}
