//! The checks of a communicator that calls need: its kind, its topology, and ranks and tags in it.

use crate::abi::constants::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::comm::{Comm, FixedGraph, Topology};
use crate::fault::{Class, Fault, Outcome};
use std::ffi::c_int;
use storm_mpi::comm::{Cartesian, Graph, Group};
use storm_mpi::{Address, Pattern, Rank, Source, Tag, TagPattern};

impl Comm {
    /// The other group; a fault if there is none.
    pub(crate) fn must_be_inter(&self) -> Outcome<&Group> {
        self.remote().ok_or_else(|| Fault::new(Class::Comm, "no inter-communicator"))
    }

    /// Refuses an inter-communicator.
    pub(crate) fn must_be_intra(&self) -> Outcome {
        match self.remote().is_some() {
            true => Err(Fault::new(Class::Comm, "inter-communicator where it means nothing")),
            false => Ok(()),
        }
    }

    /// The grid of the members; a fault if there is none.
    pub(crate) fn grid(&self) -> Outcome<&Cartesian> {
        match &self.topology {
            Some(Topology::Grid(grid)) => Ok(grid),
            Some(Topology::Graph(_) | Topology::Fixed(_)) | None => Err(Self::without("grid")),
        }
    }

    /// The graph of the members; a fault if there is none.
    pub(crate) fn graph(&self) -> Outcome<&Graph> {
        match &self.topology {
            Some(Topology::Graph(graph)) => Ok(graph),
            Some(Topology::Grid(_) | Topology::Fixed(_)) | None => Err(Self::without("graph")),
        }
    }

    /// The MPI-1 graph of the members; a fault if there is none.
    pub(crate) fn fixed_graph(&self) -> Outcome<&FixedGraph> {
        match &self.topology {
            Some(Topology::Fixed(graph)) => Ok(graph),
            Some(Topology::Grid(_) | Topology::Graph(_)) | None => {
                Err(Self::without("graph of MPI-1"))
            }
        }
    }

    pub(crate) fn without(what: &str) -> Fault {
        Fault::new(Class::Topology, format!("communicator without a {what}"))
    }

    /// The address of a message to `dest`; `None` for `MPI_PROC_NULL`.
    #[inline]
    pub(crate) fn address(&self, dest: c_int, tag: c_int) -> Outcome<Option<Address>> {
        if tag < 0 {
            return Err(Fault::new(Class::Tag, format!("tag {tag}")));
        }
        if dest == PROC_NULL {
            return Ok(None);
        }
        let (to, context) = (self.rank_in_job(dest)?, self.context().point_to_point());
        Ok(Some(Address { to, context, tag: Tag(tag) }))
    }

    /// The pattern of a receive from `source`; `None` for `MPI_PROC_NULL`.
    #[inline]
    pub(crate) fn pattern(&self, source: c_int, tag: c_int) -> Outcome<Option<Pattern>> {
        let tag = match tag {
            ANY_TAG => TagPattern::Any,
            tag if tag >= 0 => TagPattern::Tag(Tag(tag)),
            _ => return Err(Fault::new(Class::Tag, format!("tag {tag}"))),
        };
        let source = match source {
            PROC_NULL => return Ok(None),
            ANY_SOURCE => Source::Any,
            source => Source::Rank(self.rank_in_job(source)?),
        };
        Ok(Some(Pattern { context: self.context().point_to_point(), source, tag }))
    }

    /// A member's place by its number in C.
    pub(crate) fn member(&self, rank: c_int) -> Outcome<usize> {
        let place = usize::try_from(rank).ok().filter(|&place| place < self.size());
        let wrong = || format!("rank {rank} in a communicator of {}", self.size());
        place.ok_or_else(|| Fault::new(Class::Rank, wrong()))
    }

    /// Like [`Comm::member`], for the root of a collective.
    pub(crate) fn root(&self, root: c_int) -> Outcome<usize> {
        self.member(root).map_err(|fault| Fault { class: Class::Root, ..fault })
    }

    #[inline]
    pub(crate) fn rank_in_job(&self, rank: c_int) -> Outcome<Rank> {
        let place = usize::try_from(rank).ok();
        let peer = place.and_then(|place| self.peers.members().get(place)).copied();
        peer.ok_or_else(|| self.no_such(Class::Rank, rank))
    }

    /// The fault for a number that no peer has.
    pub(crate) fn no_such(&self, class: Class, rank: c_int) -> Fault {
        let whose = if self.remote().is_some() { "the other group" } else { "a communicator" };
        Fault::new(class, format!("rank {rank} in {whose} of {}", self.peers.size()))
    }
}
