//! The remains of a former daemon of the node: its keeper, with pads and ranks.

use std::os::fd::OwnedFd;

use crate::ids::{PadId, PlIndex, ProcessId};
use crate::keeper::KeptId;
use crate::seqpacket::Seqpacket;

/// A keeper that another process started.
#[derive(Debug)]
pub(super) struct Former {
    /// A pidfd: the keeper is no child of this process, so its number may name another process by
    /// now.
    pub(super) process: OwnedFd,
    pub(super) next_pad: PadId,
    pub(super) pads: Vec<FormerPad>,
}

/// A pad in which a job continues, or has ended with a result that the keeper keeps.
#[derive(Debug)]
pub(super) struct FormerPad {
    pub(super) pad: PadId,
    /// The pad's own keeper, on a node without cgroups.
    pub(super) own: Option<OwnKeeper>,
    /// Every job of the pad has given it back.
    pub(super) is_vacant: bool,
    pub(super) pls: Vec<(PlIndex, FormerPl)>,
}

/// The keeper of one pad.
#[derive(Debug)]
pub(super) struct OwnKeeper {
    pub(super) control: Seqpacket,
    pub(super) pid: ProcessId,
    pub(super) jobs: Vec<KeptId>,
}

/// A PL of a former pad.
#[derive(Debug)]
pub(super) enum FormerPl {
    Launching(Seqpacket),
    Running,
    Failed,
    Ended,
}
