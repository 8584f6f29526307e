//! The jobs that hold processors under a time-sharing policy, and their remaining work.

use std::time::Duration;

use crate::JobIndex;
use crate::running::Started;

/// The position of a job among those that hold processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held(pub(crate) u32);

/// No place.
const NOWHERE: Held = Held(u32::MAX);

/// The remaining work of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) job: JobIndex,
    pub(crate) order: u32,
    pub(crate) left: Duration,
    pub(crate) procs: u32,
}

/// Jobs by their places, which are given again when they have ended.
#[derive(Debug, Default)]
pub(crate) struct HeldJobs {
    /// The places by position in the trace, as far as jobs were started.
    places: Vec<Held>,
    work: Vec<Work>,
    free: Vec<Held>,
}

impl HeldJobs {
    /// A job was started.
    pub(crate) fn insert(&mut self, started: Started) {
        let Started { job, order, run, procs } = started;
        let work = Work { job, order, left: run, procs };
        let place = match self.free.pop() {
            Some(free) => {
                self.work[free.0 as usize] = work;
                free
            }
            None => {
                self.work.push(work);
                Held((self.work.len() - 1) as u32)
            }
        };
        if self.places.len() <= job.position() {
            self.places.resize(job.position() + 1, NOWHERE);
        }
        self.places[job.position()] = place;
    }

    /// The place of a job, if it holds processors.
    pub(crate) fn place(&self, job: JobIndex) -> Option<Held> {
        self.places.get(job.position()).copied().filter(|place| *place != NOWHERE)
    }

    /// The remaining work of a job that holds processors.
    pub(crate) fn work(&self, held: Held) -> Option<&Work> {
        self.work.get(held.0 as usize)
    }

    /// A job has run for `time`.
    pub(crate) fn ran(&mut self, held: Held, time: Duration) {
        if let Some(work) = self.work.get_mut(held.0 as usize) {
            work.left = work.left.saturating_sub(time);
        }
    }

    /// A job has ended.
    pub(crate) fn remove(&mut self, job: JobIndex) {
        if let Some(place) = self.place(job) {
            self.places[job.position()] = NOWHERE;
            self.free.push(place);
        }
    }

    /// The upper bound of all places.
    pub(crate) fn places(&self) -> usize {
        self.work.len()
    }
}
