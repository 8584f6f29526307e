//! Blocks of records that nodes write into each other's memory, each for one slice.
//!
//! A block begins with the word of its slice and its length, so a block of an earlier slice is not
//! taken for a new one. Nothing is allocated before lengths are checked.

pub(crate) use crate::block_head::HEAD_BYTES;
use crate::group::MembersDigest;
use crate::{GroupId, JobKey};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storm_primitives::{GlobalAddr, GlobalMemory};

/// A notice from a node to another in the descriptor exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// A local rank sends a message to one of the receiver's ranks.
    Send(SendDescriptor),
    /// A local rank of this job has gone: the job's communication is over.
    JobOver(JobKey),
    /// All local members of one of the receiver's communicators have posted its next collective.
    Ready { job: JobKey, group: GroupId, next: NextCall },
}

impl Notice {
    /// The job that it is about.
    pub(crate) fn job(&self) -> JobKey {
        match self {
            Notice::Send(descriptor) => descriptor.job,
            Notice::JobOver(job) | Notice::Ready { job, .. } => *job,
        }
    }

    /// Longest [`Notice::JobOver`]: the kind, and a number of 64 bits.
    pub(crate) const JOB_OVER_BYTES: u64 = 11;
}

/// The next collective of a communicator, as a node's members have called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NextCall {
    /// The members of the communicator, as the node's members have named them.
    pub(crate) members: MembersDigest,
    /// The signature of the call.
    pub(crate) call: u64,
}

/// A message that waits at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SendDescriptor {
    pub(crate) job: JobKey,
    /// Names the message at its node.
    pub(crate) send: u64,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) context: u16,
    pub(crate) tag: i32,
    pub(crate) bytes: u64,
}

/// Age of a match: its slice, its node and its number. Older messages are granted and sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) slice: u64,
    pub(crate) node: u32,
    pub(crate) index: u64,
}

/// Permission to send a part of a message in this slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) send: u64,
    pub(crate) order: Order,
    /// Beginning of the part in the message.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    /// Place of the part in the receiver's landing buffer.
    pub(crate) landing: u32,
}

/// The block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Makes a block of as many records as fit into `most` bytes, and returns their number.
pub(crate) fn pack<T: Serialize>(
    slice: u64,
    most: u64,
    records: impl IntoIterator<Item = T>,
) -> (Bytes, usize) {
    let most = most as usize;
    let mut block = vec![0; HEAD_BYTES as usize];
    let mut packed = 0;
    for record in records {
        // Records have no maps and no sequences of unknown length, so encoding them cannot fail.
        let Ok(record) = postcard::to_stdvec(&record) else { break };
        if block.len() + record.len() > most {
            break;
        }
        block.extend_from_slice(&record);
        packed += 1;
    }
    let len = block.len() as u64 - HEAD_BYTES;
    block[..8].copy_from_slice(&slice.to_ne_bytes());
    block[8..16].copy_from_slice(&len.to_ne_bytes());
    (block.into(), packed)
}

/// A block of bytes.
pub(crate) fn raw(slice: u64, parts: &[&[u8]]) -> Bytes {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut block = Vec::with_capacity(HEAD_BYTES as usize + len);
    block.extend_from_slice(&slice.to_ne_bytes());
    block.extend_from_slice(&(len as u64).to_ne_bytes());
    parts.iter().for_each(|part| block.extend_from_slice(part));
    block.into()
}

/// The bytes behind the header of the block at `addr`, if the block belongs to this slice.
pub(crate) fn body(
    memory: &GlobalMemory,
    addr: GlobalAddr,
    most: u64,
    slice: u64,
) -> Result<Option<Bytes>, Unreadable> {
    if memory.load_word(addr).map_err(|_| Unreadable)? != slice {
        return Ok(None);
    }
    let len = memory.load_word(addr.offset(8)).map_err(|_| Unreadable)?;
    if len > most - HEAD_BYTES {
        return Err(Unreadable);
    }
    memory.read_bytes(addr.offset(HEAD_BYTES), len as usize).map(Some).map_err(|_| Unreadable)
}

/// The records of a block.
pub(crate) fn unpack<T: DeserializeOwned>(mut body: &[u8]) -> Result<Vec<T>, Unreadable> {
    let mut records = Vec::new();
    while !body.is_empty() {
        let (record, rest) = postcard::take_from_bytes(body).map_err(|_| Unreadable)?;
        records.push(record);
        body = rest;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grant(send: u64) -> Grant {
        let order = Order { slice: send, node: 3, index: send };
        Grant { send, order, offset: 1 << 40, bytes: u32::MAX, landing: 8 }
    }

    #[test]
    fn saying_that_a_job_is_over_is_short() {
        let longest = postcard::to_stdvec(&Notice::JobOver(JobKey(u64::MAX))).expect("encodes");
        assert_eq!(longest.len() as u64, Notice::JOB_OVER_BYTES);
    }

    proptest! {
        #[test]
        fn packed_data_comes_out_and_the_rest_is_reported(count in 0u64..60, most in 128u64..1024) {
            let grants: Vec<Grant> = (0..count).map(grant).collect();
            let (block, packed) = pack(7, most, &grants);
            prop_assert!(block.len() as u64 <= most);
            prop_assert_eq!(unpack::<Grant>(&block[16..]), Ok(grants[..packed].to_vec()));
            prop_assert!(packed == grants.len() || block.len() + 64 > most as usize);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack::<Notice>(&bytes);
            let _ = unpack::<Grant>(&bytes);
            let _ = unpack::<crate::dyadic::Piece>(&bytes);
        }
    }
}
