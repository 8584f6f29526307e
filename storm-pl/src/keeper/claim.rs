//! The keeper's exclusive claim on its node.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

use crate::cgroup::{CgroupUnusable, NodeCgroup, NodeCgroupError, own_directory};
use crate::protocol::{Refusal, Setup};
use crate::seqpacket::Seqpacket;

/// The node's cgroup, or why there is none.
pub(super) type Claim = (Option<NodeCgroup>, Result<std::path::PathBuf, CgroupUnusable>);

/// Claims the node's cgroup, unless the set-up allows only signals.
pub(super) fn claim_node(setup: &Setup, control: &Seqpacket) -> Result<Claim, Refusal> {
    if setup.signals_only {
        return Ok((None, Err(CgroupUnusable::SwitchedOff)));
    }
    let parent = match &setup.cgroup_parent {
        Some(parent) => Ok(parent.clone()),
        None => own_directory(),
    };
    let parent = match parent {
        Ok(parent) => parent,
        Err(why) => return Ok((None, Err(why))),
    };
    // The NM sends nothing before it has the report of the start, so a readable socket means that
    // the NM has ended.
    let is_there = || {
        let mut end = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        poll(&mut end, PollTimeout::ZERO).unwrap_or(0) == 0
    };
    match NodeCgroup::claim(&parent, &setup.name, is_there) {
        Ok(node) => {
            let path = node.path().to_owned();
            Ok((Some(node), Ok(path)))
        }
        Err(NodeCgroupError::Unusable(why)) => Ok((None, Err(why))),
        Err(NodeCgroupError::Refused(what)) => Err(what),
    }
}
