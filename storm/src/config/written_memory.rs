//! Memory in a configuration file: text with its unit.

use crate::memory::parse_memory;
use serde::{Deserialize, Deserializer};

/// Memory in bytes, written as `"64GiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenMemory(pub(crate) u64);

impl<'de> Deserialize<'de> for WrittenMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenMemory, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_memory(&text).map(WrittenMemory).map_err(serde::de::Error::custom)
    }
}
