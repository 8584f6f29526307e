//! The part of the journal on disk that `fuzz/` reaches: decoding one stored entry. Compiled by
//! cargo-fuzz only.

use super::{Entry, JournalError, redb_journal};

/// Stored bytes with the right checksum over `encoded`.
pub fn seal(sequence: u64, encoded: &[u8]) -> Vec<u8> {
    redb_journal::seal(sequence, encoded)
}

/// Decodes a stored entry.
///
/// # Errors
/// The bytes are damaged, or of another version.
pub fn decode(sequence: u64, sealed: &[u8]) -> Result<Entry, JournalError> {
    redb_journal::decode(sequence, sealed)
}
