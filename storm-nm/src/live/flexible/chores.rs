//! Puts ranks behind others and back, and sets their way of waiting.
//!
//! The watching thread holds no lock while it makes these changes. A rank may have many threads,
//! and its user may keep the page file so busy that a write has to wait.

use super::{Former, Job, Shared, State};
use crate::JobKey;
use nix::errno::Errno;
use std::io;
use std::sync::Arc;
use storm_mpi::page::{RankPage, Way};
use storm_pl::boost::Process;
use storm_rm::Rank;

/// An order to put a rank behind others, or back.
struct Put {
    of: Of,
    process: Arc<Process>,
    behind: bool,
}

/// An order to set a rank's way of waiting.
struct Tell {
    of: Of,
    page: Arc<RankPage>,
    place: usize,
    way: Way,
}

/// A rank of a job as it is watched now.
#[derive(Clone, Copy)]
struct Of {
    job: JobKey,
    number: u64,
    rank: Rank,
}

impl State {
    /// Whether anything is to be done.
    pub(super) fn has_chores(&self) -> bool {
        let of_job = |job: &Job| {
            job.ranks.keys().any(|rank| job.is_elsewhere(*rank) || job.is_untold(*rank))
        };
        !self.former.is_empty() || self.jobs.values().any(of_job)
    }

    fn job_of(&mut self, of: Of) -> Option<&mut Job> {
        self.jobs.get_mut(&of.job).filter(|job| job.number == of.number)
    }
}

impl Job {
    fn is_elsewhere(&self, rank: Rank) -> bool {
        self.behind.contains(&rank) != self.wanted(rank).0
    }

    fn is_untold(&self, rank: Rank) -> bool {
        let told = self.ways.get(&rank).copied().unwrap_or(Way::Own);
        self.page.is_some() && told != self.wanted(rank).1
    }

    fn puts(&mut self, job: JobKey) -> Vec<Put> {
        let elsewhere = self.ranks.iter().filter(|(rank, _)| self.is_elsewhere(**rank));
        let puts = elsewhere.map(|(rank, process)| Put {
            of: Of { job, number: self.number, rank: *rank },
            process: process.clone(),
            behind: self.wanted(*rank).0,
        });
        let puts: Vec<Put> = puts.collect();
        self.touched.extend(puts.iter().map(|put| put.of.rank));
        puts
    }

    fn tells(&mut self, job: JobKey) -> Vec<Tell> {
        let Some(page) = &self.page else { return Vec::new() };
        let untold = self.ranks.keys().filter(|rank| self.is_untold(**rank));
        let tells = untold.map(|rank| Tell {
            of: Of { job, number: self.number, rank: *rank },
            page: page.clone(),
            place: self.place(*rank),
            way: self.wanted(*rank).1,
        });
        let tells: Vec<Tell> = tells.collect();
        self.touched.extend(tells.iter().map(|tell| tell.of.rank));
        tells
    }

    /// Stops the job out of its slots from now on, with all processes that it has started.
    pub(super) fn cannot_yield(&mut self, rank: Rank, why: &str) {
        self.may_yield = false;
        tracing::warn!(%rank, why, "a job is stopped out of its slots: a rank cannot be put behind others");
    }

    /// Notes that a rank was put behind others or back. If the rank cannot be put behind others,
    /// its job is stopped out of its slots.
    pub(super) fn was_put(&mut self, rank: Rank, behind: bool, done: io::Result<()>) {
        match done {
            Ok(()) => {}
            // The rank has just ended.
            Err(error) if is_over(&error) => tracing::debug!(%rank, "a rank is over"),
            Err(error) if behind => return self.cannot_yield(rank, &error.to_string()),
            Err(error) => tracing::warn!(%rank, %error, "a rank may be behind others"),
        }
        if behind {
            self.behind.insert(rank);
        } else {
            self.behind.remove(&rank);
        }
    }
}

/// Puts ranks behind others or back, and then resumes the jobs that waited for it.
pub(super) fn put(shared: &Shared) {
    let mut state = shared.lock();
    let former = std::mem::take(&mut state.former);
    let puts: Vec<Put> = state.jobs.iter_mut().flat_map(|(key, job)| job.puts(*key)).collect();
    drop(state);
    former.iter().for_each(Former::put_back);
    let done: Vec<io::Result<()>> =
        puts.iter().map(|put| put.process.set_background(put.behind)).collect();
    if !puts.is_empty() {
        let mut state = shared.settled();
        for (put, done) in puts.iter().zip(done) {
            if let Some(job) = state.job_of(put.of) {
                job.was_put(put.of.rank, put.behind, done);
            }
        }
        state.jobs.values_mut().for_each(Job::apply);
    }
    former.iter().for_each(Former::tell);
}

/// Sets the ways in which ranks wait.
pub(super) fn tell(shared: &Shared) {
    let mut state = shared.lock();
    let tells: Vec<Tell> = state.jobs.iter_mut().flat_map(|(key, job)| job.tells(*key)).collect();
    drop(state);
    for tell in tells {
        // Do not try again: a user who made the file shorter may let the ranks wait as they like.
        if let Err(error) = tell.page.tell(tell.place, tell.way) {
            tracing::debug!(rank = %tell.of.rank, %error, "a rank is not told how to wait");
        }
        if let Some(job) = shared.lock().job_of(tell.of) {
            job.ways.insert(tell.of.rank, tell.way);
        }
    }
}

impl Former {
    fn put_back(&self) {
        for process in self.job.touched.iter().filter_map(|rank| self.job.ranks.get(rank)) {
            if let Err(error) = process.set_background(false)
                && !is_over(&error)
            {
                tracing::warn!(pid = %process.pid(), %error, "a process may be behind others");
            }
        }
    }

    fn tell(&self) {
        let Some(page) = self.job.page.as_ref().filter(|_| self.goes_on) else { return };
        for rank in &self.job.touched {
            if let Err(error) = page.tell(self.job.place(*rank), Way::Own) {
                tracing::debug!(%rank, %error, "a rank is not told how to wait");
            }
        }
    }
}

/// The process has ended, or its directory in `/proc` is gone.
fn is_over(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ESRCH as i32) || error.kind() == io::ErrorKind::NotFound
}
