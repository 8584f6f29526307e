//! The state that this node manager leaves for the next, and finds of the former.

use super::LiveHost;
use super::events::rank_exit;
use crate::live::ledger::{Entry, Fate, LaunchProgress, Ledger, OpenRequest, Spooled};
use crate::live::live_job::LiveJob;
use crate::live::rank_streams::{RankStreams, Remembered, last_lines, skip_unread};
use crate::live::shared_files::SharedFiles;
use crate::live::slices_left;
use crate::{Flaw, HostEvent, Inherited, InheritedInput, JobKey, JobTask, SlicesLeft};
use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storm_mpi::page::RankPage;
use storm_pl::{
    ExitStatus, InheritedJob, InheritedLaunch, InheritedRank, KeptId, OwnEnds, PadId, PlIndex,
    Usage,
};
use storm_rm::message::{CutLaunch, NodeReturn, Report};
use storm_rm::{Coscheduling, Rank};

/// The reason why a job does not continue: its Node Manager was killed in a step of two calls.
const CUT_STREAM: &str =
    "its Node Manager was killed in the middle of a message to one of its ranks";

/// The keeper's name for a job. Runs are numbered over all jobs, so the run is enough.
pub(super) fn kept_id(job: JobKey) -> KeptId {
    KeptId(job.incarnation.0)
}

/// A job of a former node manager, as far as its files describe it.
pub(super) struct Found {
    job: InheritedJob,
    entry: Entry,
    ledger: Rc<Ledger>,
    page: Option<RankPage>,
    lock: Option<Flock<File>>,
    shared_files: Option<OwnedFd>,
    slices: Option<SlicesLeft>,
}

impl Found {
    pub(super) fn key(&self) -> JobKey {
        self.entry.task().key()
    }
}

/// Reads the jobs that the former node manager left. Returns those that can be read, and the
/// others.
pub(super) fn open(left: Vec<InheritedJob>) -> (Vec<(Found, LaunchProgress)>, Vec<InheritedJob>) {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    for mut job in left {
        let mut files = std::mem::take(&mut job.files).into_iter();
        match read(&mut files) {
            Ok((ledger, entry, (page, lock, shared_files), told)) => {
                let slices = left_in_slices(ledger.fate(), files.next());
                let Some(slices) = slices.ok().filter(|_| told != LaunchProgress::Nobody) else {
                    // If no rank had been ordered to start, the Machine Manager launches the job
                    // anew.
                    unusable.push(job);
                    continue;
                };
                let ledger = Rc::new(ledger);
                let left = Found { job, entry, ledger, page, lock, shared_files, slices };
                found.push((left, told));
            }
            Err(error) => {
                tracing::error!(%error, "a job of a former node manager cannot be taken over");
                unusable.push(job);
            }
        }
    }
    (found, unusable)
}

/// The messages of a job's ranks, if the former node manager has handed them over. An error if the
/// job cannot continue without them.
fn left_in_slices(fate: io::Result<Fate>, file: Option<OwnedFd>) -> io::Result<Option<SlicesLeft>> {
    // Unless its fate can be read, the former node manager may have held the messages.
    match fate? {
        Fate::HandedOver => {
            let left = file.ok_or(io::Error::from(io::ErrorKind::InvalidData));
            left.and_then(slices_left::unpack).map(Some)
        }
        Fate::Continues => Ok(None),
        // The former node manager held the messages of its ranks.
        Fate::Ends => Err(io::ErrorKind::Unsupported.into()),
    }
}

type Files = (Option<RankPage>, Option<Flock<File>>, Option<OwnedFd>);
type Read = (Ledger, Entry, Files, LaunchProgress);

fn read(files: &mut impl Iterator<Item = OwnedFd>) -> io::Result<Read> {
    let mut next = || files.next().ok_or(io::Error::from(io::ErrorKind::InvalidData));
    let state = next()?;
    let entry = Ledger::open(state.try_clone()?, None)?.1;
    let spool = if entry.has_spool { Some(next()?) } else { None };
    let page = if entry.has_page { Some(File::from(next()?)) } else { None };
    let lock = if entry.has_lock { Some(File::from(next()?)) } else { None };
    let shared_files = if entry.has_shared_files { Some(next()?) } else { None };
    let (ledger, entry) = Ledger::open(state, spool)?;
    let ranks = entry.task().count as usize;
    let page = page.map(|file| RankPage::of(file, ranks));
    // The open file already holds the lock.
    let lock =
        lock.and_then(|file| Flock::lock(file, nix::fcntl::FlockArg::LockSharedNonblock).ok());
    let told = ledger.progress()?;
    Ok((ledger, entry, (page, lock, shared_files), told))
}

impl LiveHost {
    /// For how long this node may be without a node manager.
    pub(super) fn returns(&self) -> Option<NodeReturn> {
        let nm = &self.config.nm;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.survives.then(|| NodeReturn {
            within_ms: ms(nm.node_return),
            leased_within_ms: ms(nm.lease.min(nm.node_return)),
        })
    }

    /// Makes the ledger of a job for the next node manager, if the job can outlive this node
    /// manager.
    pub(super) fn make_ledger(
        &self,
        task: &Rc<JobTask>,
        program: &Path,
        (memory_limit_bytes, pad): (Option<u64>, PadId),
        has_page: bool,
    ) -> Option<Rc<Ledger>> {
        if !self.survives {
            return None;
        }
        let mut entry = Entry::new(task);
        program.clone_into(&mut entry.program);
        entry.memory_limit_bytes = memory_limit_bytes;
        entry.memory_kills_before = memory_limit_bytes.map_or(0, |_| self.keeper.memory_kills(pad));
        entry.has_page = has_page;
        entry.has_lock = self.shared_memory.has(task.key());
        match Ledger::make(task.key(), &entry) {
            Ok(ledger) => Some(Rc::new(ledger)),
            Err(error) => {
                self.not_kept(task.key(), &error);
                None
            }
        }
    }

    /// Notes that the job ends with this node manager.
    pub(super) fn not_kept(&self, job: JobKey, error: &io::Error) {
        tracing::warn!(%job, %error, "this job will end with this node manager");
        self.keeper.forget_kept(kept_id(job));
    }

    /// Notes that the keeper lacks ranks of the job. The next node manager ends the job and reports
    /// why.
    pub(super) fn rank_not_kept(&self, job: &LiveJob, error: &io::Error) {
        let Some(ledger) = &job.ledger else { return };
        let key = job.task.key();
        match ledger.progress() {
            Ok(LaunchProgress::Unkept) => {}
            Ok(_) => match ledger.set_progress(LaunchProgress::Unkept) {
                Ok(()) => {
                    tracing::warn!(job = %key, %error, "this job will not outlive this node manager")
                }
                Err(_) => self.not_kept(key, error),
            },
            Err(_) => self.not_kept(key, error),
        }
    }

    /// Gives the keeper the files that the next node manager needs, before any rank starts.
    pub(super) fn leave_with_keeper(&self, job: &LiveJob) {
        let Some(ledger) = &job.ledger else { return };
        match self.leave_files(job, ledger, None) {
            Ok(()) => self.note_told(job.task.key(), ledger, LaunchProgress::Some),
            Err(error) => self.not_kept(job.task.key(), &error),
        }
    }

    fn leave_files(
        &self,
        job: &LiveJob,
        ledger: &Ledger,
        more: Option<&OwnedFd>,
    ) -> io::Result<()> {
        let key = job.task.key();
        let lock = self.shared_memory.lock_of(key);
        let page = job.page.as_ref().map(|page| page.file());
        let mut files = ledger.files();
        files.extend(page);
        files.extend(lock.as_ref().map(AsFd::as_fd));
        files.extend(job.shared_files.as_ref().map(|files| files.socket().as_fd()));
        files.extend(more.map(AsFd::as_fd));
        self.keeper.keep(kept_id(key), job.pad, &files)
    }

    /// Gives the keeper all of a job that it had forgotten, with the state of the job's slices.
    pub(super) fn leave_with_slices(&self, key: JobKey, slices: &OwnedFd) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let job = self.job(key).filter(|job| job.is_kept_whole() && !job.over.get());
        let job = job.ok_or_else(gone)?;
        let ledger = job.ledger.as_ref().ok_or_else(gone)?;
        self.leave_files(&job, ledger, Some(slices))?;
        for (pl, rank) in &*job.ranks.borrow() {
            let ends = job.streams_of(*rank).ok_or_else(gone)?.copies()?;
            self.keeper.keep_rank(kept_id(key), (job.pad, *pl), &ends)?;
        }
        ledger.set_fate(Fate::HandedOver)
    }

    pub(super) fn note_told(&self, job: JobKey, ledger: &Ledger, told: LaunchProgress) {
        if let Err(error) = ledger.set_progress(told) {
            self.not_kept(job, &error);
        }
    }

    pub(super) fn remembered(
        &self,
        ledger: Rc<Ledger>,
        job: JobKey,
        (pl, rank): (PlIndex, Rank),
        taken_bytes: u64,
    ) -> Remembered {
        let (keeper, job) = (self.keeper.clone(), kept_id(job));
        Remembered { ledger, keeper, job, pl, rank, taken_bytes: Cell::new(taken_bytes) }
    }

    /// Takes over the jobs that a former node manager left. Ends the jobs that cannot continue.
    pub(super) fn take_over(
        &self,
        left: Vec<(Found, LaunchProgress)>,
        unusable: Vec<InheritedJob>,
    ) {
        for job in unusable {
            self.keeper.forget_kept(job.job);
            if !job.given_back {
                // It is unknown what runs in this pad.
                let _ = self.keeper.discard(job.pad);
            }
        }
        let mut inherited = Vec::new();
        for (found, told) in left {
            let key = found.key();
            tracing::info!(job = %key, "found this job, which a former node manager left");
            inherited.push(self.take_over_job(found, told));
        }
        self.inherited.set(inherited);
    }

    fn take_over_job(&self, found: Found, told: LaunchProgress) -> Inherited {
        let (live, Found { job, ledger, slices, .. }) = self.revive(found);
        let task = live.task.clone();
        let key = task.key();
        // The keeper may have had no time to report to the former node manager.
        let told = if job.is_short { LaunchProgress::Unkept } else { told };
        let mut flaw = cut_of(told, job.ranks.len() == task.count as usize).map(Flaw::LaunchCut);
        let past = ledger.pmi_past(task.ranks()).unwrap_or_else(|error| {
            let why = format!("what its Node Manager left of it cannot be read: {error}");
            flaw.get_or_insert(Flaw::Unserviceable(why));
            Default::default()
        });
        let mut open: BTreeMap<Rank, OpenRequest> =
            past.open.into_iter().map(|request| (request.rank, request)).collect();
        if job.lease_over {
            // The killed ranks would count as failed otherwise.
            self.tell(HostEvent::LeaseOver { job: key });
        }
        for rank in task.ranks().skip(job.ranks.len()) {
            // The keeper does not have this rank: its process, if any, ends unseen with the pad.
            let killed = ExitStatus::Signal { signal: Signal::SIGKILL as i32, core_dumped: false };
            let exit = rank_exit(rank, killed, Usage::default());
            self.tell(HostEvent::Exited { job: key, exit });
        }
        let mut inputs = Vec::new();
        for (rank, of_rank) in task.ranks().zip(job.ranks) {
            let has_ended = of_rank.ended.is_some();
            if has_ended {
                // A rank that has ended waits neither for an answer nor for input.
                open.remove(&rank);
            }
            match self.take_over_rank(&live, rank, of_rank, open.get(&rank)) {
                Ok(taken_bytes) => inputs.push(InheritedInput { rank, taken_bytes }),
                Err(_) if has_ended => {}
                Err(why) => {
                    flaw.get_or_insert(Flaw::Unserviceable(why));
                }
            }
        }
        let open_requests = unanswered(&live, open).unwrap_or_else(|| {
            flaw.get_or_insert_with(|| Flaw::Unserviceable(CUT_STREAM.to_owned()));
            Vec::new()
        });
        let outputs = outputs(key, &ledger).unwrap_or_else(|error| {
            let why = format!("its output cannot be read: {error}");
            flaw.get_or_insert(Flaw::Unserviceable(why));
            Vec::new()
        });
        let stopped = live.stopped.get();
        self.jobs.borrow_mut().insert(key, live);
        Inherited { task, stopped, pmi: past.steps, open_requests, inputs, outputs, slices, flaw }
    }

    /// Makes the record of a job that was found, without its ranks.
    fn revive(&self, mut found: Found) -> (Rc<LiveJob>, Found) {
        let (job, entry) = (&found.job, &found.entry);
        let task = Rc::new(entry.task());
        let key = task.key();
        let freezer = (!job.given_back).then(|| self.keeper.freezer(job.pad)).flatten();
        let stopped = freezer.as_ref().is_some_and(|freezer| freezer.is_stopped());
        if let Some(freezer) = freezer.as_ref().filter(|_| stopped)
            && let Err(error) = freezer.stop()
        {
            // A former node manager that stops by signals may have stopped only a part of the job.
            tracing::warn!(job = %key, error = crate::reason::explain(&error), "it may not be stopped");
        }
        if let Some(lock) = found.lock.take() {
            self.shared_memory.take_over(key, lock);
        }
        let shared_files = found.shared_files.take();
        let shared_files = shared_files
            .map(|socket| Rc::new(SharedFiles::take_over(&task, &self.names(), socket)));
        let live = LiveJob {
            memory_limit_bytes: entry.memory_limit_bytes,
            memory_kills_before: entry.memory_kills_before,
            task: task.clone(),
            pad: job.pad,
            over: Cell::new(job.given_back),
            freezer,
            spec: None,
            program: entry.program.clone(),
            directory: self.job_directory(key),
            streams: RefCell::default(),
            ranks: RefCell::default(),
            cpus: self.binding(&task),
            waiting: Vec::new(),
            page: found.page.take().map(Arc::new),
            processes: RefCell::default(),
            stopped: Cell::new(stopped),
            shared_files,
            ledger: Some(found.ledger.clone()),
        };
        if let Some(page) = &live.page {
            let boosts = task.launch.coscheduling == Coscheduling::PeriodicBoost;
            self.booster.watch(key, page.clone(), boosts);
        }
        if job.has_processes() {
            self.by_pad.borrow_mut().insert(job.pad, key);
        }
        if !job.given_back {
            self.pads.took_over();
        }
        (Rc::new(live), found)
    }

    /// Takes over a rank. Returns how much input it has taken, or why its job does not continue.
    fn take_over_rank(
        &self,
        job: &Rc<LiveJob>,
        rank: Rank,
        found: InheritedRank,
        request: Option<&OpenRequest>,
    ) -> Result<u64, String> {
        let (key, names) = (job.task.key(), self.names());
        let ledger = job.ledger.clone().ok_or("it has no ledger")?;
        let taken_bytes = ledger.taken(rank).map_err(|error| error.to_string())?;
        request.into_iter().for_each(|request| skip_unread(&found.ends, request.unread));
        let pl = found.pl;
        let noted = self.remembered(ledger, key, (pl, rank), taken_bytes.unwrap_or(0));
        let _ = noted.ledger.has_read(rank);
        let has_ended = found.ended.is_some();
        let last = if has_ended { last_lines(&found.ends, &noted) } else { Vec::new() };
        let ends = (found.ends, OwnEnds::default());
        let streams = RankStreams::open(ends, (key, rank), &self.events, Some(noted));
        let streams = streams.map_err(|error| format!("its streams cannot be read: {error}"))?;
        job.streams.borrow_mut().insert(rank, Rc::new(streams));
        job.ranks.borrow_mut().insert(pl, rank);
        match found.launch {
            InheritedLaunch::Failed(failure) => {
                let refused = crate::live::launch_plan::refused(
                    failure,
                    &job.program,
                    &job.task,
                    (rank, &names),
                );
                self.tell(HostEvent::LaunchFailed { job: key, rank, refused });
            }
            InheritedLaunch::Executed => self.tell(HostEvent::Launched { job: key, rank }),
            InheritedLaunch::UnderWay => {}
        }
        match found.ended {
            Some((status, usage)) => {
                for line in last {
                    self.tell(HostEvent::Pmi { job: key, rank, line });
                }
                self.tell(HostEvent::Exited { job: key, exit: rank_exit(rank, status, usage) });
            }
            None => {
                job.processes.borrow_mut().insert(rank, found.pid);
                self.follow(job, key, rank, found.pid);
            }
        }
        taken_bytes.ok_or_else(|| CUT_STREAM.to_owned())
    }
}

/// The missing parts of a job's launch; `None` if all its ranks were ordered to start and the
/// keeper has them.
fn cut_of(told: LaunchProgress, has_all_ranks: bool) -> Option<CutLaunch> {
    match told {
        LaunchProgress::Unkept => Some(CutLaunch::NotKept),
        LaunchProgress::All if has_all_ranks => None,
        LaunchProgress::Nobody | LaunchProgress::Some | LaunchProgress::All => {
            Some(CutLaunch::Interrupted)
        }
    }
}

/// The requests that wait for an answer. Returns `None` if it is unknown whether an answer was
/// given.
fn unanswered(
    job: &LiveJob,
    open: BTreeMap<Rank, OpenRequest>,
) -> Option<Vec<(Rank, Option<String>)>> {
    let mut waiting = Vec::new();
    for (rank, request) in open {
        let Some(streams) = job.streams_of(rank) else { continue };
        if streams.was_answered(&request)? {
            continue;
        }
        // The rest of an incomplete request has not arrived yet.
        let Some(line) = request.line.strip_suffix('\n') else { continue };
        waiting.push((rank, (!request.logged).then(|| line.to_owned())));
    }
    Some(waiting)
}

/// Output of the job that may not have reached the Machine Manager.
pub(super) fn outputs(job: JobKey, ledger: &Ledger) -> io::Result<Vec<Report>> {
    let Some(spool) = ledger.spool() else { return Ok(Vec::new()) };
    let report = |spooled: Spooled| Report::Output {
        step: job.step,
        incarnation: job.incarnation,
        rank: spooled.rank,
        stream: spooled.stream,
        offset: spooled.offset,
        data: spooled.data.into(),
    };
    Ok(spool.kept()?.into_iter().map(report).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the job of an unreadable fate continued without the messages of its ranks.
    #[test]
    fn only_a_job_whose_fate_is_known_continues_without_messages() {
        assert!(matches!(left_in_slices(Ok(Fate::Continues), None), Ok(None)));
        assert!(left_in_slices(Ok(Fate::Ends), None).is_err());
        assert!(left_in_slices(Ok(Fate::HandedOver), None).is_err());
        assert!(left_in_slices(Err(io::ErrorKind::InvalidData.into()), None).is_err());
    }

    #[test]
    fn a_launch_is_whole_only_if_all_ranks_were_told_and_the_keeper_has_them() {
        use CutLaunch::{Interrupted, NotKept};
        for (told, has_all_ranks, cut) in [
            (LaunchProgress::Nobody, false, Some(Interrupted)),
            (LaunchProgress::Some, true, Some(Interrupted)),
            (LaunchProgress::All, false, Some(Interrupted)),
            (LaunchProgress::All, true, None),
            (LaunchProgress::Unkept, true, Some(NotKept)),
            (LaunchProgress::Unkept, false, Some(NotKept)),
        ] {
            assert_eq!(cut_of(told, has_all_ranks), cut, "{told:?} {has_all_ranks}");
        }
    }
}
