//! Translates the keeper's events into events for the node manager.

use super::inheriting::kept_id;
use super::{LiveHost, SIGKILL};
use crate::HostEvent;
use crate::live::launch_plan::refused;
use crate::live::ledger::LaunchProgress;
use crate::live::live_job::LiveJob;
use std::rc::Rc;
use std::time::Duration;
use storm_pl::{Errno, Event, ExitStatus, PadId, PadStep, PlIndex, Usage};
use storm_rm::Rank;
use storm_rm::message::RankExit;

impl LiveHost {
    /// Acts on an event of the keeper. Returns the event that the node manager must receive.
    pub(super) fn translate(&self, event: Event) -> Option<HostEvent> {
        match event {
            Event::Ready { pad } => {
                self.by_pad.borrow_mut().remove(&pad);
                self.pads.ready(pad);
            }
            Event::PadFailed { pad, .. } if self.pads.is_closed() => self.pads.lost(pad),
            Event::PadFailed { pad, step, errno } => {
                tracing::error!(%pad, %step, %errno, "a place for jobs was not made");
                let why = self.explain_pad(step, errno);
                self.pads.fill_failed(pad, &why);
                // A node that can serve no job would fail every job that it is given, so it counts
                // as lost. A shortage of descriptors does not count. Without places the node has
                // its descriptors back, and it makes a place for the next job that it has room for.
                let lost = self.pads.is_empty() && !is_of_descriptors(errno);
                return lost.then_some(HostEvent::Lost);
            }
            Event::Launched { pad, pl } => return self.rank_launched(pad, pl),
            Event::LaunchFailed { pad, pl, failure } => {
                let (job, rank) = self.find(pad, pl)?;
                job.streams_of(rank).inspect(|streams| streams.rank_ended());
                let refused = refused(failure, &job.program, &job.task, (rank, &self.names()));
                return Some(HostEvent::LaunchFailed { job: job.task.key(), rank, refused });
            }
            Event::Exited { pad, pl, status, usage, .. } => {
                let (job, rank) = self.find(pad, pl)?;
                return Some(self.rank_exited(&job, rank_exit(rank, status, usage)));
            }
            Event::PlDied { pad, .. } if self.pads.is_closed() => self.pads.lost(pad),
            Event::PlDied { pad, pl, status } => {
                tracing::warn!(%pad, %pl, %status, "a process that waited for a launch died");
                self.pads.refill_if_idle(pad);
            }
            Event::PadClean { pad } => {
                self.by_pad.borrow_mut().remove(&pad);
            }
            Event::PadStuck { pad, processes } => {
                tracing::error!(%pad, ?processes, "processes of a job do not die");
            }
            Event::LeaseOver { pad } => {
                let job = self.by_pad.borrow().get(&pad).copied().and_then(|key| self.job(key))?;
                let job = Some(job).filter(|job| !job.over.get())?.task.key();
                return Some(HostEvent::LeaseOver { job });
            }
            Event::PadLost { pad } => self.pad_lost(pad),
            Event::Placed { id, result } => {
                if let Some(waiting) = self.places.borrow_mut().remove(&id) {
                    // The receiver may have ended.
                    let _ = waiting.send(result);
                }
            }
            Event::NotKept { job, errno } => {
                let jobs = self.jobs.borrow();
                let of_id = jobs.iter().find(|(key, _)| kept_id(**key) == job);
                let error = std::io::Error::from_raw_os_error(errno.0);
                of_id.into_iter().for_each(|(_, job)| self.rank_not_kept(job, &error));
            }
            Event::ToldAll => self.tell_launches(),
            Event::KeeperGone { expected } => {
                self.keeper_gone.set(true);
                self.keeper_left.notify_waiters();
                return (!expected).then_some(HostEvent::Lost);
            }
        }
        None
    }

    fn rank_launched(&self, pad: PadId, pl: PlIndex) -> Option<HostEvent> {
        let (job, rank) = self.find(pad, pl)?;
        let launched = HostEvent::Launched { job: job.task.key(), rank };
        self.note_launches();
        if job.ledger.is_some() && self.keeper.is_behind(pad) {
            // A job counts as started only when the next node manager would find all of it: a job
            // that has started is not launched again.
            self.untold.borrow_mut().push((pad, launched));
            return None;
        }
        Some(launched)
    }

    /// Notes the launches whose keepers are not behind: the next node manager finds all of the job.
    pub(super) fn note_launches(&self) {
        let unnoted = self.unnoted.take();
        for key in unnoted {
            let Some(job) = self.job(key) else { continue };
            match (self.keeper.is_behind(job.pad), &job.ledger) {
                (true, Some(_)) => self.unnoted.borrow_mut().push(key),
                (false, Some(ledger)) => self.note_told(key, ledger, LaunchProgress::All),
                (_, None) => {}
            }
        }
    }

    /// Reports the launches whose keepers are no longer behind.
    fn tell_launches(&self) {
        self.note_launches();
        let untold = self.untold.take();
        for (pad, launched) in untold {
            match self.keeper.is_behind(pad) {
                true => self.untold.borrow_mut().push((pad, launched)),
                false => self.tell(launched),
            }
        }
    }

    /// Closes the books of a rank that has ended. The job's use of too much memory is reported
    /// instead of the rank's end. The event of the end follows.
    fn rank_exited(&self, job: &LiveJob, exit: RankExit) -> HostEvent {
        let (key, rank) = (job.task.key(), exit.rank);
        let place = rank.0.saturating_sub(job.task.first.0) as usize;
        self.booster.ended(key, place);
        self.flexible.ended(key, rank);
        job.processes.borrow_mut().remove(&rank);
        job.streams_of(rank).inspect(|streams| streams.rank_ended());
        let exited = HostEvent::Exited { job: key, exit };
        match self.over_memory(job) {
            Some(over_memory) => {
                self.tell(exited);
                over_memory
            }
            None => exited,
        }
    }

    /// Returns an event if the job has used more memory than it may. The end of a rank shows it.
    fn over_memory(&self, job: &LiveJob) -> Option<HostEvent> {
        let limit_bytes = job.memory_limit_bytes?;
        let killed = self.keeper.memory_kills(job.pad) > job.memory_kills_before;
        killed.then(|| HostEvent::OverMemory { job: job.task.key(), limit_bytes })
    }

    fn find(&self, pad: PadId, pl: PlIndex) -> Option<(Rc<LiveJob>, Rank)> {
        let key = self.by_pad.borrow().get(&pad).copied()?;
        let job = self.job(key)?;
        let rank = job.rank_of(pl)?;
        Some((job, rank))
    }

    /// Why a place could not be made, with the limit that was reached, if any.
    fn explain_pad(&self, step: PadStep, errno: Errno) -> String {
        match self.keeper.shortage(step, errno) {
            Some(shortage) => format!("{step} ({errno}: {shortage})"),
            None => format!("{step} ({errno})"),
        }
    }

    /// Every process of a pad died with the pad's keeper.
    fn pad_lost(&self, pad: PadId) {
        let key = self.by_pad.borrow_mut().remove(&pad);
        let job = key.and_then(|key| Some((key, self.job(key)?)));
        // A pad that a former node manager gave back is not counted here.
        if job.as_ref().is_none_or(|(_, job)| job.freezer.is_some()) {
            self.pads.lost_because(pad, "the keeper of the place has ended");
        }
        let Some((key, job)) = job else { return };
        job.over.set(true);
        // `give_back` does nothing for a job that is over, so the job is forgotten here.
        self.leases.borrow_mut().forget(key);
        self.booster.forget(key);
        self.flexible.forget(key);
        job.ranks_ended();
        let killed = ExitStatus::Signal { signal: SIGKILL, core_dumped: false };
        for rank in job.task.ranks() {
            let exit = rank_exit(rank, killed, Usage::default());
            self.tell(HostEvent::Exited { job: key, exit });
        }
    }
}

/// Whether the daemon or the host lacked descriptors.
fn is_of_descriptors(errno: Errno) -> bool {
    use nix::errno::Errno::{EMFILE, ENFILE, ETOOMANYREFS};
    [EMFILE, ENFILE, ETOOMANYREFS].iter().any(|known| errno == Errno::from(*known))
}

pub(super) fn rank_exit(rank: Rank, status: ExitStatus, usage: Usage) -> RankExit {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let status = match status {
        ExitStatus::Code(code) => storm_rm::message::ExitStatus::Code(code),
        ExitStatus::Signal { signal, .. } => storm_rm::message::ExitStatus::Signal(signal),
    };
    RankExit {
        rank,
        status,
        user_us: micros(usage.user),
        system_us: micros(usage.system),
        max_rss_kib: usage.max_rss_kib,
    }
}
