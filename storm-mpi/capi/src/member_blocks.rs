//! A buffer with a block of elements for each member of a communicator. Gathers fill it, and
//! scatters send from it.

use crate::abi::{Buffer, counted};
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use std::borrow::Cow;
use std::ffi::c_int;
use std::ops::Range;
use std::rc::Rc;

/// A block of elements for each member.
pub(crate) struct MemberBlocks {
    blocks: Vec<Elements>,
}

impl MemberBlocks {
    /// Equally many elements for each member, one block after the other.
    pub(crate) fn even(
        buffer: Buffer,
        count: c_int,
        datatype: &Type,
        members: usize,
    ) -> Outcome<Self> {
        let extent = datatype.layout.extent();
        let step = extent.checked_mul(count as isize);
        let places =
            (0..members as isize).map(|i| (count, step.and_then(|step| i.checked_mul(step))));
        Self::behind(buffer, places.map(|(count, at)| (count, at, datatype)))
    }

    /// `counts[i]` elements for member `i`, `displs[i]` elements from the buffer's start.
    pub(crate) fn uneven(
        buffer: Buffer,
        counts: &[c_int],
        displs: &[c_int],
        datatype: &Type,
    ) -> Outcome<Self> {
        let extent = datatype.layout.extent();
        let block = |(&count, &displ)| (count, extent.checked_mul(displ as isize), datatype);
        Self::behind(buffer, counts.iter().zip::<&[c_int]>(displs).map(block))
    }

    /// `counts[i]` elements of `types[i]` for member `i`, `displs[i]` bytes from the buffer's
    /// start. From `MPI_BOTTOM`, which is null, displacements are addresses.
    pub(crate) fn mixed(
        buffer: Buffer,
        counts: &[c_int],
        displs: impl Iterator<Item = isize>,
        types: &[Rc<Type>],
    ) -> Outcome<Self> {
        let blocks = counts.iter().zip(displs).zip(types);
        Self::at(
            buffer,
            blocks.map(|((&count, displ), datatype)| (count, Some(displ), &**datatype)),
        )
    }

    /// Leaves out the blocks of absent neighbours, which are neither read nor written.
    pub(crate) fn of_those_there(mut self, neighbours: &[Option<usize>]) -> Self {
        for (block, neighbour) in self.blocks.iter_mut().zip(neighbours) {
            if neighbour.is_none() {
                (block.count, block.bytes) = (0, 0);
            }
        }
        self
    }

    /// Like [`MemberBlocks::at`]. A null buffer stays null, and is detected.
    fn behind<'a>(
        buffer: Buffer,
        blocks: impl Iterator<Item = (c_int, Option<isize>, &'a Type)>,
    ) -> Outcome<Self> {
        let is_null = buffer.start().is_null();
        let stay = |at: Option<isize>| at.map(|at| if is_null { 0 } else { at });
        Self::at(buffer, blocks.map(|(count, at, datatype)| (count, stay(at), datatype)))
    }

    /// Blocks of a count, an offset in bytes, and a type.
    fn at<'a>(
        buffer: Buffer,
        blocks: impl Iterator<Item = (c_int, Option<isize>, &'a Type)>,
    ) -> Outcome<Self> {
        if buffer.is_in_place() {
            return Err(Fault::new(Class::Buffer, "MPI_IN_PLACE where it means nothing"));
        }
        let too_far = || Fault::new(Class::Arg, "displacement beyond memory");
        let block = |(count, at, datatype): (c_int, Option<isize>, &Type)| {
            let offset = at.ok_or_else(too_far)?;
            let start = buffer.start().wrapping_offset(offset);
            Elements::new(start.cast_mut(), counted(count)?, datatype)
        };
        Ok(MemberBlocks { blocks: blocks.map(block).collect::<Outcome<_>>()? })
    }

    /// All blocks in one piece, one after the other, copied.
    pub(crate) fn copied(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes());
        self.blocks.iter().for_each(|block| all.extend_from_slice(&block.packed()));
        all
    }

    /// All blocks in one piece. They are copied only if they are not in one piece already.
    pub(crate) fn packed(&self) -> Cow<'_, [u8]> {
        match self.whole() {
            // SAFETY: as in `Elements::packed`: the blocks are adjoining parts of one buffer.
            Some(all) => Cow::Borrowed(unsafe { std::slice::from_raw_parts(all.start, all.bytes) }),
            None => Cow::Owned(self.copied()),
        }
    }

    /// The place of each block in that piece.
    pub(crate) fn places(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let place = |block: &Elements| {
            let start = end;
            end += block.bytes;
            start..end
        };
        self.blocks.iter().map(place).collect()
    }

    /// Memory for all blocks in one piece. When `loaded`, it holds the present contents of the
    /// blocks.
    pub(crate) fn landing(&self, loaded: bool) -> SpreadLanding<'_> {
        match self.whole() {
            Some(all) => SpreadLanding::Direct(all),
            None if loaded => SpreadLanding::Staged { bytes: self.copied(), of: self },
            None => SpreadLanding::Staged { bytes: vec![0; self.bytes()], of: self },
        }
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    /// All blocks as one, if they lie one after the other without gaps.
    fn whole(&self) -> Option<Elements> {
        let first = self.blocks.first()?;
        let mut next = first.start;
        for block in &self.blocks {
            if block.start != next || !block.layout.is_dense() {
                return None;
            }
            next = next.wrapping_add(block.bytes);
        }
        let count = self.blocks.iter().map(|block| block.count).sum();
        let bytes = self.bytes();
        (bytes > 0).then(|| Elements { count, bytes, ..first.clone() })
    }
}

/// A stretch of bytes that becomes blocks of elements.
pub(crate) enum SpreadLanding<'a> {
    /// The blocks' own memory.
    Direct(Elements),
    /// Memory of the library, to be unpacked.
    Staged {
        /// The blocks, one after the other.
        bytes: Vec<u8>,
        /// The blocks that the bytes become.
        of: &'a MemberBlocks,
    },
}

impl SpreadLanding<'_> {
    /// The bytes to receive into.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: not null; adjoining parts of a buffer that the caller passed for writing and
            // does not touch during the call.
            SpreadLanding::Direct(all) => unsafe {
                std::slice::from_raw_parts_mut(all.start, all.bytes)
            },
            SpreadLanding::Staged { bytes, .. } => bytes,
        }
    }

    /// Puts the blocks into their places.
    pub(crate) fn finish(self) {
        if let SpreadLanding::Staged { bytes, of } = self {
            for (block, place) in of.blocks.iter().zip(of.places()) {
                block.unpack(&bytes[place]);
            }
        }
    }
}
