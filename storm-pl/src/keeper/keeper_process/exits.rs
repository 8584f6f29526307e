//! The ends of PLs. An end is reported once the usage of the processes that the PL left behind is
//! known.

use super::{Child, KeeperProcess, Kind};
use crate::exit::{ExitStatus, Usage};
use crate::ids::{PadId, PlIndex, ProcessId};
use crate::keeper::abandoned::{Glimpse, pad_of, used_by};
use crate::process_tree;
use crate::protocol::Report;

/// An end is reported after this many checks (some 1 s), even if processes are still ending. A
/// process with much memory takes a while, and a process that waits for a file system may never
/// end.
const LOOKS_FOR_USAGE_MAX: u32 = 500;

/// A PL that has ended, with a report that was not sent to the NM yet.
pub(super) struct HeldExit {
    pad: PadId,
    pl: PlIndex,
    pid: ProcessId,
    status: ExitStatus,
    usage: Usage,
    looks: u32,
}

impl KeeperProcess {
    /// The next child that has ended and is not reaped, so that `/proc` still shows it.
    pub(super) fn next_dead() -> Option<ProcessId> {
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `siginfo_t` is plain data, for which all-zero is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid for the whole call.
        if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) } == -1 {
            return None;
        }
        // SAFETY: waitid has filled in a child's end, or nothing, which is zero.
        Some(ProcessId(unsafe { info.si_pid() })).filter(|pid| pid.0 != 0)
    }

    /// The pad and the session of a child that its job abandoned.
    pub(super) fn abandoned_by(&self, process: ProcessId) -> Option<(PadId, ProcessId)> {
        let session = Glimpse::of(process)?.session;
        Some((self.pad_of(process)?, session))
    }

    fn pad_of(&self, process: ProcessId) -> Option<PadId> {
        match (&self.node, self.kind) {
            (_, Kind::OnePad) => self.pads.keys().next().copied(),
            (Some(node), Kind::Node) => pad_of(process, node.path().file_name()?.to_str()?),
            // Each pad has a keeper of its own.
            (None, Kind::Node) => None,
        }
    }

    /// Adds the usage of a reaped child that its job had abandoned.
    pub(super) fn add_abandoned(&mut self, (pad, session): (PadId, ProcessId), usage: Usage) {
        let held = self.exits.iter().any(|exit| exit.pid == session);
        let Some(pad) = self.pads.get_mut(&pad) else { return };
        let leads = held || pad.pls.contains(&Some(session));
        pad.abandoned.add(session, leads, usage);
    }

    /// Stores the end of a PL until it can be reported.
    pub(super) fn hold_exit(
        &mut self,
        (pad, pl, pid): (PadId, PlIndex, ProcessId),
        status: ExitStatus,
        usage: Usage,
    ) {
        self.exits.push(HeldExit { pad, pl, pid, status, usage, looks: 0 });
    }

    /// Whether the end of a PL of this pad is not reported yet.
    pub(super) fn holds_exit_of(&self, pad: PadId) -> bool {
        self.exits.iter().any(|exit| exit.pad == pad)
    }

    /// Checks once more the ends that are not reported yet.
    pub(super) fn look_at_exits(&mut self) {
        self.exits.iter_mut().for_each(|exit| exit.looks = exit.looks.saturating_add(1));
        self.tell_exits();
    }

    /// Reports the ends that are complete: no abandoned process in their pads is about to end.
    pub(super) fn tell_exits(&mut self) {
        if self.exits.is_empty() {
            return;
        }
        let own = ProcessId(nix::unistd::getpid().as_raw());
        let mut children = process_tree::children_and_dead(own);
        children.retain(|pid| !self.children.contains_key(&pid.0));
        let abandoned: Vec<_> = children
            .into_iter()
            .filter_map(|pid| Some((pid, self.pad_of(pid)?, Glimpse::of(pid)?.ends)))
            .collect();
        let mut kept = Vec::new();
        for exit in std::mem::take(&mut self.exits) {
            let of_pad = abandoned.iter().filter(|(_, pad, _)| *pad == exit.pad);
            let killed = self.pads.get(&exit.pad).is_some_and(super::Pad::is_killed);
            let incomplete = of_pad.clone().any(|(_, _, ends)| killed || *ends);
            // Ends are reported in order, because the last end includes the usage that belongs to
            // no PL.
            let behind = kept.iter().any(|before: &HeldExit| before.pad == exit.pad);
            if behind || (incomplete && exit.looks < LOOKS_FOR_USAGE_MAX) {
                kept.push(exit);
                continue;
            }
            let living: Vec<ProcessId> = of_pad.map(|(pid, ..)| *pid).collect();
            self.tell_exit(exit, used_by(&living));
        }
        self.exits.extend(kept);
    }

    fn tell_exit(&mut self, exit: HeldExit, living: Usage) {
        let HeldExit { pad, pl, pid, status, mut usage, .. } = exit;
        let mut strays = living;
        if let Some(pad) = self.pads.get_mut(&pad) {
            usage = usage.plus(pad.abandoned.take(pid));
            strays = strays.plus(pad.abandoned.others());
        }
        let all = usage.plus(strays);
        self.kept.ended(pid, status, all);
        if let Some((_, end)) = self.pads.get_mut(&pad).and_then(|pad| pad.ends.get_mut(&pl)) {
            *end = Some((status, all));
        }
        self.report(&Report::Exited { pad, pl, pid, status, usage, strays }, &[]);
    }

    /// Reaps every child that has ended.
    pub(super) fn reap(&mut self) {
        while let Some(dead) = Self::next_dead() {
            let known = self.children.contains_key(&dead.0);
            let abandoned = if known { None } else { self.abandoned_by(dead) };
            let mut word = 0;
            // SAFETY: `rusage` is plain integers, for which all-zero is a valid value.
            let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both pointers are valid for the whole call.
            let pid = unsafe { libc::wait4(dead.0, &raw mut word, libc::WNOHANG, &raw mut raw) };
            if pid <= 0 {
                return;
            }
            let Some(status) = ExitStatus::from_wait(word) else { continue };
            let usage = Usage::from_rusage(&raw);
            match self.children.remove(&pid) {
                Some(Child::Pl(id, pl)) => {
                    self.hear_of_kept();
                    if let Some(pad) = self.pads.get_mut(&id) {
                        pad.pls[usize::from(pl.0)] = None;
                        pad.ends.insert(pl, (dead, None));
                    }
                    self.hold_exit((id, pl, dead), status, usage);
                }
                Some(Child::Place(id)) => self.place_ended(id, status),
                Some(Child::PadKeeper(pad)) => self.pad_keeper_ended(pad, dead),
                // The writer has reported by itself, or the end of its socket has.
                Some(Child::FilesWriter) => {}
                None => {
                    if let Some(place) = abandoned {
                        self.add_abandoned(place, usage);
                    }
                }
            }
        }
    }
}
