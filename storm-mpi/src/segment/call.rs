//! A rank's request that its node act together with the nodes of the other members of a
//! communicator.

use super::frame::BadFrame;
use crate::collective::Reduction;
use crate::rank::Rank;

/// The longest data of a collective that the nodes carry out: a slice or two. With more data,
/// members pass messages, which get more of the link.
pub const COLLECTIVE_MAX_BYTES: usize = 16 << 10;
/// The most members of a communicator whose collectives the nodes carry out.
pub const MEMBERS_MAX: usize = 4096;
/// Limit of contexts whose collectives the nodes carry out: a node keeps the members of each lower
/// context.
pub const CONTEXTS_MAX: u16 = 64;

/// Length of the header: operation, root and number of members, 4 bytes each, in the host's order.
const HEAD_BYTES: usize = 12;
const MEMBER_BYTES: usize = 4;

const BARRIER: u32 = 0;
const BROADCAST: u32 = 1;
/// First of the codes of reductions, to which the code of the reduction is added.
const REDUCE: u32 = 2;
/// The root of a reduction whose result all members get.
const EVERYBODY: u32 = u32::MAX;

/// A collective, as one member calls it. Members are counted by their place in the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// Wait until all members have come.
    Barrier,
    /// Give the root's data to all.
    Broadcast {
        /// The member that has the data.
        root: u32,
        /// The data at the root; empty elsewhere.
        data: &'a [u8],
    },
    /// Combine the members' elements, in the order of the members.
    Reduce {
        /// The operation.
        reduction: Reduction,
        /// The member that gets the result; every member if `None`.
        root: Option<u32>,
        /// This member's elements.
        data: &'a [u8],
    },
}

/// A call as it is stored in a segment. It includes the members if the node does not know them yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDescriptor<'a> {
    /// The members of the communicator. Empty stands for the members of the last call in its
    /// context.
    pub members: Vec<Rank>,
    /// The call.
    pub call: Call<'a>,
}

impl<'a> CallDescriptor<'a> {
    /// The bytes of the descriptor.
    pub fn encode(&self) -> Vec<u8> {
        let (what, root, data) = match self.call {
            Call::Barrier => (BARRIER, 0, &[][..]),
            Call::Broadcast { root, data } => (BROADCAST, root, data),
            Call::Reduce { reduction, root, data } => {
                (REDUCE + reduction.code(), root.unwrap_or(EVERYBODY), data)
            }
        };
        let mut bytes =
            Vec::with_capacity(HEAD_BYTES + self.members.len() * MEMBER_BYTES + data.len());
        for word in [what, root, self.members.len() as u32] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        self.members.iter().for_each(|rank| bytes.extend_from_slice(&rank.0.to_ne_bytes()));
        bytes.extend_from_slice(data);
        bytes
    }

    /// Reads the bytes that a rank wrote.
    ///
    /// # Errors
    /// [`BadFrame`], also when the call is longer than allowed.
    pub fn decode(bytes: &'a [u8]) -> Result<CallDescriptor<'a>, BadFrame> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(BadFrame)?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (what, root, members) = (word(0), word(4), word(8) as usize);
        if members > MEMBERS_MAX {
            return Err(BadFrame);
        }
        let (members, data) = rest.split_at_checked(members * MEMBER_BYTES).ok_or(BadFrame)?;
        if data.len() > COLLECTIVE_MAX_BYTES {
            return Err(BadFrame);
        }
        let (members, _) = members.as_chunks::<MEMBER_BYTES>();
        let members = members.iter().map(|rank| Rank(u32::from_ne_bytes(*rank))).collect();
        let call = match what {
            BARRIER if data.is_empty() && root == 0 => Call::Barrier,
            BARRIER => return Err(BadFrame),
            BROADCAST => Call::Broadcast { root, data },
            what => Call::Reduce {
                reduction: Reduction::from_code(what - REDUCE).ok_or(BadFrame)?,
                root: (root != EVERYBODY).then_some(root),
                data,
            },
        };
        Ok(CallDescriptor { members, call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Number;
    use crate::datatype::ReduceOp;
    use proptest::prelude::*;

    #[test]
    fn calls_come_back_from_their_bytes() {
        let reduction = Reduction { op: ReduceOp::Max, number: Number::F64 };
        let calls = [
            Call::Barrier,
            Call::Broadcast { root: 3, data: b"abc" },
            Call::Broadcast { root: 0, data: b"" },
            Call::Reduce { reduction, root: None, data: &[7; 16] },
            Call::Reduce { reduction, root: Some(0), data: &[] },
        ];
        for call in calls {
            for members in [vec![], vec![Rank(4), Rank(0), Rank(u32::MAX)]] {
                let descriptor = CallDescriptor { members, call };
                assert_eq!(CallDescriptor::decode(&descriptor.encode()), Ok(descriptor.clone()));
            }
        }
    }

    #[test]
    fn oversized_calls_are_refused() {
        let long = vec![0; COLLECTIVE_MAX_BYTES + 1];
        let call = Call::Broadcast { root: 0, data: &long };
        let bytes = CallDescriptor { members: vec![], call }.encode();
        assert_eq!(CallDescriptor::decode(&bytes), Err(BadFrame));
        let members = vec![Rank(0); MEMBERS_MAX + 1];
        let bytes = CallDescriptor { members, call: Call::Barrier }.encode();
        assert_eq!(CallDescriptor::decode(&bytes), Err(BadFrame));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_call_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(descriptor) = CallDescriptor::decode(&bytes) {
                prop_assert_eq!(descriptor.encode(), bytes);
            }
        }
    }
}
