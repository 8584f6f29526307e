//! The immediate value of a write, which says what was written; and grants of blocks,
//! which are all that goes up a bulk lane.

/// Bits of the number in an immediate value; the kind is above them.
const NUMBER_BITS: u32 = 28;

/// What a write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// So many bytes, at least one, are next in the ring.
    Run(u32),
    /// The other side has taken so many bytes out of its ring.
    Credit(u32),
    /// This block is filled.
    Block(u32),
}

/// Larger numbers than an immediate value has room for do not occur: rings and blocks
/// are smaller.
const MAX_NUMBER: u32 = (1 << NUMBER_BITS) - 1;

impl Note {
    /// As an immediate value.
    pub(crate) fn encode(self) -> u32 {
        let (kind, number) = match self {
            Note::Run(len) => (1, len),
            Note::Credit(len) => (2, len),
            Note::Block(slot) => (3, slot),
        };
        kind << NUMBER_BITS | number & MAX_NUMBER
    }

    /// From an immediate value of somebody else.
    pub(crate) fn decode(immediate: u32) -> Option<Note> {
        let number = immediate & MAX_NUMBER;
        match immediate >> NUMBER_BITS {
            1 if number > 0 => Some(Note::Run(number)),
            2 => Some(Note::Credit(number)),
            3 => Some(Note::Block(number)),
            _ => None,
        }
    }
}

/// A block into which the parent may write one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// What the child calls it.
    pub(crate) slot: u32,
    /// Where it is.
    pub(crate) addr: u64,
    /// The key to it.
    pub(crate) rkey: u32,
    /// Its length in bytes.
    pub(crate) len: u32,
}

impl Grant {
    /// Length on the wire.
    pub(crate) const BYTES: usize = 20;

    pub(crate) fn encode(&self) -> [u8; Grant::BYTES] {
        let mut out = [0; Grant::BYTES];
        out[..4].copy_from_slice(&self.slot.to_le_bytes());
        out[4..12].copy_from_slice(&self.addr.to_le_bytes());
        out[12..16].copy_from_slice(&self.rkey.to_le_bytes());
        out[16..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; Grant::BYTES]) -> Grant {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let addr = u64::from(word(4)) | u64::from(word(8)) << 32;
        Grant { slot: word(0), addr, rkey: word(12), len: word(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn notes_and_grants_survive_the_wire(
            immediate: u32,
            fields in any::<(u32, u64, u32, u32)>(),
        ) {
            if let Some(note) = Note::decode(immediate) {
                prop_assert_eq!(note.encode(), immediate);
            }
            let (slot, addr, rkey, len) = fields;
            let grant = Grant { slot, addr, rkey, len };
            prop_assert_eq!(Grant::decode(&grant.encode()), grant);
        }
    }
}
