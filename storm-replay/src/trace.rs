//! The jobs that a replay submits.

use std::time::Duration;

use storm_sched::swf::LogJob;
use storm_sched::{JobId, JobRequest, MAX_PES, SchedTime};

/// The most jobs of a trace: several times the largest log of the Parallel
/// Workloads Archive. It bounds the memory of a replay.
pub const MAX_JOBS: usize = 20_000_000;
/// Nanoseconds of a second.
const NS_PER_S: f64 = 1e9;

/// The position of a job in its trace, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIndex(pub u32);

/// A job to submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceJob {
    /// The job's number in the log. It need not be unique.
    pub number: i64,
    /// The user's number in the log, or -1.
    pub user: i64,
    /// When the job is submitted.
    pub submit: SchedTime,
    /// The run time on its processors.
    pub run: Duration,
    /// The user's estimate of the run time; no shorter than `run`.
    pub estimate: Duration,
    /// The processors.
    pub procs: u32,
}

/// The estimate of the run time that a policy gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Estimates {
    /// The user's estimate.
    #[default]
    OfUsers,
    /// The time that it will run (clairvoyance).
    Perfect,
}

/// Jobs in the order of their submission, and the machine for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pes: u32,
    jobs: Vec<TraceJob>,
}

/// Why jobs are no trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The number of processors is zero or too large.
    #[error("a machine of {pes} processors cannot be replayed: it has 1 to {MAX_PES}")]
    Machine {
        /// Processors asked for.
        pes: u32,
    },
    /// More than [`MAX_JOBS`].
    #[error("{jobs} jobs are more than the {MAX_JOBS} that can be replayed")]
    TooManyJobs {
        /// Jobs.
        jobs: usize,
    },
}

/// Why a trace cannot have a load.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The load is not a number above 0.
    #[error(
        "a load of {load} is not possible: use a number above 0; 1 keeps the machine always busy"
    )]
    OutOfRange {
        /// The load asked for.
        load: f64,
    },
    /// All jobs arrive at once: there is nothing to scale.
    #[error("the jobs are all submitted at once, so their load cannot be changed")]
    NoTime,
    /// The last submission would be beyond the end of time.
    #[error("with a load of {load} the last job would be submitted after more than 136 years")]
    TooLong {
        /// The load asked for.
        load: f64,
    },
}

impl Trace {
    /// The jobs of a cleaned log, for a machine of `pes` processors. Jobs submitted in the same
    /// second keep the order of the log.
    ///
    /// # Errors
    /// An impossible machine, or too many jobs.
    pub fn new(pes: u32, jobs: &[LogJob], estimates: Estimates) -> Result<Self, TraceError> {
        if pes == 0 || pes > MAX_PES {
            return Err(TraceError::Machine { pes });
        }
        if jobs.len() > MAX_JOBS {
            return Err(TraceError::TooManyJobs { jobs: jobs.len() });
        }
        let trace_job = |job: &LogJob| {
            let run = Duration::from_secs(job.run_s);
            TraceJob {
                number: job.number,
                user: job.user,
                submit: SchedTime::from_secs(job.submit_s),
                run,
                estimate: match estimates {
                    Estimates::OfUsers => Duration::from_secs(job.estimate_s),
                    Estimates::Perfect => run,
                },
                procs: job.procs,
            }
        };
        let mut jobs: Vec<TraceJob> = jobs.iter().map(trace_job).collect();
        jobs.sort_by_key(|job| job.submit);
        Ok(Self { pes, jobs })
    }

    /// The processors of the machine.
    #[must_use]
    pub fn pes(&self) -> u32 {
        self.pes
    }

    /// The jobs by time of submission.
    #[must_use]
    pub fn jobs(&self) -> &[TraceJob] {
        &self.jobs
    }

    /// The job at this index, if any.
    #[must_use]
    pub fn job(&self, index: JobIndex) -> Option<&TraceJob> {
        self.jobs.get(index.0 as usize)
    }

    /// The offered load: work over the machine's capacity from the first submission to the last.
    /// `None` if that interval is empty.
    #[must_use]
    pub fn offered_load(&self) -> Option<f64> {
        let (first, last) = (self.jobs.first()?.submit, self.jobs.last()?.submit);
        let whole_s = last.since(first).as_secs_f64() * f64::from(self.pes);
        let work = |job: &TraceJob| u128::from(job.procs) * job.run.as_nanos();
        let work_s = self.jobs.iter().map(work).sum::<u128>() as f64 / NS_PER_S;
        (whole_s > 0.0).then(|| work_s / whole_s)
    }

    /// The same jobs, with all times between submissions scaled so that the offered load is `load`.
    ///
    /// # Errors
    /// If there is no such scale.
    pub fn scaled_to(mut self, load: f64) -> Result<Self, LoadError> {
        if !(load.is_finite() && load > 0.0) {
            return Err(LoadError::OutOfRange { load });
        }
        let offered = self.offered_load().ok_or(LoadError::NoTime)?;
        let Some(first) = self.jobs.first().map(|job| job.submit) else {
            return Err(LoadError::NoTime);
        };
        let factor = offered / load;
        for job in &mut self.jobs {
            let later_s = job.submit.since(first).as_secs_f64() * factor;
            if later_s > storm_sched::swf::MAX_LOG_TIME_S as f64 {
                return Err(LoadError::TooLong { load });
            }
            job.submit = first + Duration::from_secs_f64(later_s);
        }
        Ok(self)
    }

    /// The request of this job to a policy.
    pub(crate) fn request(&self, index: JobIndex) -> Option<JobRequest> {
        let job = self.job(index)?;
        Some(JobRequest::new(index.id(), job.procs).with_time_limit(job.estimate))
    }
}

impl JobIndex {
    /// The policy's number of the job: numbers of a log need not be unique.
    #[must_use]
    pub fn id(self) -> JobId {
        JobId(u64::from(self.0) + 1)
    }

    /// The job that a policy calls so.
    pub(crate) fn of(id: JobId) -> Option<Self> {
        u32::try_from(id.0.checked_sub(1)?).ok().map(Self)
    }

    pub(crate) fn position(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: i64, submit_s: u64) -> LogJob {
        LogJob { number, user: 1, submit_s, run_s: 50, estimate_s: 80, procs: 4 }
    }

    #[test]
    fn jobs_are_ordered_by_submission_and_then_as_in_the_log() {
        let jobs = [job(3, 10), job(1, 5), job(2, 10), job(4, 0)];
        let trace = Trace::new(8, &jobs, Estimates::OfUsers).unwrap();
        let numbers: Vec<i64> = trace.jobs().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [4, 1, 3, 2]);
        assert_eq!(trace.jobs()[0].estimate.as_secs(), 80);
        let perfect = Trace::new(8, &jobs, Estimates::Perfect).unwrap();
        assert_eq!(perfect.jobs()[0].estimate.as_secs(), 50);
    }

    #[test]
    fn a_load_is_reached_by_scaling_the_times_between_submissions() {
        let jobs = [job(1, 100), job(2, 150), job(3, 300)];
        let trace = Trace::new(8, &jobs, Estimates::OfUsers).unwrap();
        assert_eq!(trace.offered_load(), Some(600.0 / 1_600.0));
        let half = trace.clone().scaled_to(0.1875).unwrap();
        let submits: Vec<f64> =
            half.jobs().iter().map(|job| job.submit.since(SchedTime::ZERO).as_secs_f64()).collect();
        assert_eq!(submits, [100.0, 200.0, 500.0]);
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-12] {
            assert!(trace.clone().scaled_to(load).is_err(), "{load}");
        }
        let at_once = Trace::new(8, &jobs[..1], Estimates::OfUsers).unwrap();
        assert_eq!(at_once.scaled_to(0.5), Err(LoadError::NoTime));
    }

    #[test]
    fn impossible_machines_are_refused() {
        for pes in [0, MAX_PES + 1] {
            let refused = Trace::new(pes, &[], Estimates::OfUsers);
            assert_eq!(refused, Err(TraceError::Machine { pes }));
        }
    }
}
