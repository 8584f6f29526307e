//! One pad: its PLs, its cgroup, and whether it is being cleaned.

use std::collections::BTreeMap;

use crate::cgroup::PadCgroup;
use crate::exit::{ExitStatus, Usage};
use crate::ids::{PadId, PlIndex, ProcessId};
use crate::keeper::abandoned::Abandoned;
use crate::process_tree;

/// A PL that failed to launch exits at once. If the PL has not exited after this many checks (some
/// 200 ms), it is killed.
const LOOKS_FOR_AWAITED_MAX: u32 = 100;

/// A place for one job.
pub(super) struct Pad {
    pub(super) id: PadId,
    /// `None` if signals are used. The keeper then has only this pad.
    pub(super) cgroup: Option<PadCgroup>,
    /// The process of each PL, or of the application it became, until it is reaped.
    pub(super) pls: Vec<Option<ProcessId>>,
    /// PLs that have ended, and the report of each end. The command to keep a PL may arrive later.
    pub(super) ends: BTreeMap<PlIndex, (ProcessId, Option<(ExitStatus, Usage)>)>,
    /// Set from the end of a job until its last process is gone.
    pub(super) draining: Option<Draining>,
    /// The pad's lease has run out, and not every process in it is known to be dead.
    pub(super) condemned: bool,
    /// The usage of the pad's abandoned processes, until the pad is clean.
    pub(super) abandoned: Abandoned,
}

/// A pad on its way to be clean.
#[derive(Debug, Default)]
pub(super) struct Draining {
    /// The number of the latest request to clean the pad.
    pub(super) ticket: u32,
    /// Whether every process must end. Otherwise the waiting PLs stay, and only the former job's
    /// processes end.
    pub(super) everything: bool,
    /// The clean pad is filled until it has this many PLs.
    pub(super) fill: u16,
    /// The clean pad is removed.
    pub(super) discarded: bool,
    /// PLs that are ending by themselves.
    pub(super) awaited: Vec<PlIndex>,
    /// Checks done so far.
    pub(super) looks: u32,
}

/// The result for a pad in which no process of the former job is left.
pub(super) struct Clean {
    /// The latest request to clean the pad.
    pub(super) ticket: u32,
    /// How many PLs the pad is to have.
    pub(super) fill: u16,
    /// The NM has forgotten the pad.
    pub(super) discarded: bool,
}

impl Pad {
    pub(super) fn new(id: PadId, cgroup: Option<PadCgroup>, capacity: u16) -> Self {
        Self {
            id,
            cgroup,
            pls: vec![None; usize::from(capacity)],
            ends: BTreeMap::new(),
            draining: None,
            condemned: false,
            abandoned: Abandoned::default(),
        }
    }

    /// The live process of a PL.
    pub(super) fn process(&self, pl: PlIndex) -> Option<ProcessId> {
        self.pls.get(usize::from(pl.0)).copied().flatten()
    }

    /// Sets the process of a PL.
    pub(super) fn set_process(&mut self, pl: PlIndex, pid: ProcessId) {
        self.pls[usize::from(pl.0)] = Some(pid);
        self.ends.remove(&pl);
    }

    /// The process of a PL, or its last one.
    pub(super) fn last_process(&self, pl: PlIndex) -> Option<ProcessId> {
        self.process(pl).or_else(|| self.ends.get(&pl).map(|(pid, _)| *pid))
    }

    /// Live processes that are no PL of this pad, or `None` if they cannot be listed.
    pub(super) fn strays(&self) -> Option<Vec<ProcessId>> {
        let mut all = match &self.cgroup {
            Some(cgroup) => cgroup.processes().ok()?,
            None => process_tree::descendants(own_id()),
        };
        all.retain(|pid| !self.pls.contains(&Some(*pid)) && !process_tree::is_dead(*pid));
        Some(all)
    }

    /// Kills processes of a condemned pad that were born during the last kill and escaped it.
    pub(super) fn look_at_condemned(&mut self) {
        // Draining a pad does at least the same.
        let left = self.draining.is_none()
            && self.strays().is_none_or(|strays| {
                let pls = self.pls.iter().flatten();
                !strays.is_empty() || pls.into_iter().any(|pid| !process_tree::is_dead(*pid))
            });
        if left {
            self.kill_everything();
        }
        self.condemned = left;
    }

    /// Kills everything in the pad.
    pub(super) fn kill_everything(&self) {
        match &self.cgroup {
            // A missing file means that the pad was removed and there is nothing left to kill. The
            // drain checks again in any case.
            Some(cgroup) => drop(cgroup.kill()),
            None => drop(process_tree::kill_descendants(own_id(), &[])),
        }
    }

    /// Whether every process in the pad is being killed.
    pub(super) fn is_killed(&self) -> bool {
        self.condemned || self.draining.as_ref().is_some_and(|draining| draining.everything)
    }

    /// Checks a draining pad once more. The pad may have become clean.
    pub(super) fn look(&mut self) -> Option<Clean> {
        let strays = self.strays();
        let draining = self.draining.as_mut()?;
        draining.looks = draining.looks.saturating_add(1);
        let pls = &self.pls;
        let reaped = |pl: &PlIndex| pls.get(usize::from(pl.0)).is_none_or(Option::is_none);
        let no_stray = strays.is_some_and(|strays| strays.is_empty());
        let ended = if draining.everything {
            pls.iter().all(Option::is_none)
        } else {
            draining.awaited.iter().all(reaped)
        };
        if no_stray && ended {
            let Draining { ticket, fill, discarded, .. } = *draining;
            let clean = Clean { ticket, fill, discarded };
            self.draining = None;
            self.abandoned = Abandoned::default();
            return Some(clean);
        }
        if draining.everything || !no_stray || draining.looks > LOOKS_FOR_AWAITED_MAX {
            // A stray may be forking. Only a kill of the whole pad is certain to catch it. Such a
            // kill also ends the waiting PLs, but strays are rare.
            draining.everything = true;
            self.kill_everything();
        }
        None
    }

    /// The number of checks since the end of the job.
    pub(super) fn looks(&self) -> u32 {
        self.draining.as_ref().map_or(0, |draining| draining.looks)
    }
}

fn own_id() -> ProcessId {
    ProcessId(nix::unistd::getpid().as_raw())
}
