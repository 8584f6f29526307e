//! One pad: its PLs, its cgroup, and whether it is being cleaned.

use crate::cgroup::PadCgroup;
use crate::ids::{PadId, PlIndex, ProcessId};
use crate::process_tree;

/// A place for one job.
pub(super) struct Pad {
    pub(super) id: PadId,
    /// `None` where signals are used; then the keeper has this pad only.
    pub(super) cgroup: Option<PadCgroup>,
    /// The process of each PL, or of the application it became, until it is reaped.
    pub(super) pls: Vec<Option<ProcessId>>,
    /// Set from the end of a job until its last process is gone.
    pub(super) draining: Option<Draining>,
}

/// A pad on its way to be clean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draining {
    /// Every process has to go; otherwise only the former job's, the waiting PLs stay.
    pub(super) everything: bool,
    /// Looks taken so far.
    pub(super) looks: u32,
}

impl Pad {
    pub(super) fn new(id: PadId, cgroup: Option<PadCgroup>, capacity: u16) -> Self {
        Self { id, cgroup, pls: vec![None; usize::from(capacity)], draining: None }
    }

    /// The live process of a PL.
    pub(super) fn process(&self, pl: PlIndex) -> Option<ProcessId> {
        self.pls.get(usize::from(pl.0)).copied().flatten()
    }

    /// Live processes that are no PL of this pad. When they cannot be listed, says so with `None`.
    pub(super) fn strays(&self) -> Option<Vec<ProcessId>> {
        let mut all = match &self.cgroup {
            Some(cgroup) => cgroup.processes().ok()?,
            None => process_tree::descendants(own_id()),
        };
        all.retain(|pid| !self.pls.contains(&Some(*pid)) && !process_tree::is_dead(*pid));
        Some(all)
    }

    /// Kills everything in the pad.
    pub(super) fn kill_everything(&self) {
        match &self.cgroup {
            // Without the file (the pad was removed under us) there is nothing to kill either;
            // the drain looks again in any case.
            Some(cgroup) => drop(cgroup.kill()),
            None => drop(process_tree::kill_descendants(own_id(), &[])),
        }
    }

    /// Takes one more look at a draining pad; true when it has become clean.
    pub(super) fn look(&mut self) -> bool {
        let Some(mut draining) = self.draining else { return false };
        draining.looks = draining.looks.saturating_add(1);
        let strays = self.strays();
        let clean = match &strays {
            Some(strays) if draining.everything => {
                strays.is_empty() && self.pls.iter().all(Option::is_none)
            }
            Some(strays) => strays.is_empty(),
            None => false,
        };
        if clean {
            self.draining = None;
            return true;
        }
        // A stray shares its cgroup with the waiting PLs, and `cgroup.kill` is the only way that
        // cannot miss one that is being forked: they all go. Strays are rare.
        draining.everything = true;
        self.draining = Some(draining);
        self.kill_everything();
        false
    }
}

fn own_id() -> ProcessId {
    ProcessId(nix::unistd::getpid().as_raw())
}
