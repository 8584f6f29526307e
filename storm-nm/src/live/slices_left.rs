//! The state of a job's slices on its way to the next node manager: a file in memory and the
//! segments of the ranks, all in one descriptor
//! (`docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md`).

use crate::SlicesLeft;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use storm_mpi::segment::NodeEnd;
use storm_pl::parcel;
use storm_rm::Rank;

/// Packs the state and the segments.
pub(super) fn pack(saved: &[u8], segments: &[(Rank, &NodeEnd)]) -> io::Result<OwnedFd> {
    let ranks: Vec<u32> = segments.iter().map(|(rank, _)| rank.0).collect();
    let contents = postcard::to_stdvec(&(ranks, saved)).map_err(io::Error::other)?;
    let mut file = File::from(memfd_create("storm-slices", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&contents)?;
    let parts = segments.iter().flat_map(|(_, end)| end.parts());
    let all: Vec<BorrowedFd<'_>> = [file.as_fd()].into_iter().chain(parts).collect();
    parcel::pack(&all)
}

/// Unpacks what a former node manager packed.
pub(super) fn unpack(left: OwnedFd) -> io::Result<SlicesLeft> {
    let short = || io::Error::from(io::ErrorKind::InvalidData);
    let mut parts = parcel::unpack(left)?.into_iter();
    let mut file = File::from(parts.next().ok_or_else(short)?);
    let mut contents = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut contents)?;
    let (ranks, saved): (Vec<u32>, Vec<u8>) =
        postcard::from_bytes(&contents).map_err(io::Error::other)?;
    let mut segments = BTreeMap::new();
    for rank in ranks {
        let mut next = || parts.next().ok_or_else(short);
        let end = NodeEnd::adopt([next()?, next()?, next()?])?;
        segments.insert(storm_mpi::Rank(rank), end);
    }
    Ok(SlicesLeft { saved, segments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_mpi::segment::RankEnd;

    #[test]
    fn a_rank_goes_on_with_the_segment_that_was_left() {
        let end = NodeEnd::create().expect("a segment");
        let owned = end.descriptors().map(|fd| fd.try_clone_to_owned().expect("open"));
        let mut rank = RankEnd::attach(owned, storm_mpi::Rank(3), 5).expect("a segment");
        let left = pack(b"state", &[(Rank(3), &end)]).expect("packed");
        drop(end);
        rank.send(storm_mpi::Rank(4), [b"abc", b""]).expect("sent while nobody is there");
        let SlicesLeft { saved, segments } = unpack(left).expect("unpacked");
        assert_eq!(saved, b"state");
        assert!(segments[&storm_mpi::Rank(3)].sent().expect("a ring") > 3);
    }
}
