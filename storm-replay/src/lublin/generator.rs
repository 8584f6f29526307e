//! A workload of the model: a number of jobs, for a machine, with a load.

use std::iter::Peekable;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use storm_sched::MAX_PES;
use storm_sched::swf::{LogJob, SwfHeader, SwfRecord};

use super::{Arrivals, ClassParams, JobClass, MIN_PES, RunTime, Size};
use crate::{Estimates, LoadError, MAX_JOBS, Trace, TraceError};

/// The default number of jobs.
pub const DEFAULT_JOBS: u32 = 10_000;

/// The classes of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobClasses {
    /// Batch and interactive jobs, each with a stream of arrivals.
    #[default]
    Typed,
    /// All jobs alike.
    Typeless,
}

/// The settings of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LublinOptions {
    /// Processors of the machine.
    pub pes: u32,
    /// Jobs.
    pub jobs: u32,
    /// Classes of jobs.
    pub classes: JobClasses,
    /// The load to reach by scaling the times between arrivals; `None` for the
    /// model's own.
    pub load: Option<f64>,
    /// The seed.
    pub seed: u64,
}

/// Why a workload cannot be generated.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LublinError {
    /// A machine for which the model has no sizes.
    #[error("the model has no jobs for a machine of {pes} processors: use {MIN_PES} to {MAX_PES}")]
    Machine {
        /// Processors.
        pes: u32,
    },
    /// No jobs, or too many.
    #[error("{jobs} jobs cannot be generated: use 1 to {MAX_JOBS}")]
    Jobs {
        /// Jobs.
        jobs: u32,
    },
    /// No gamma distribution.
    #[error("there is no gamma distribution of shape {shape} and scale {scale}")]
    Gamma {
        /// The shape.
        shape: f64,
        /// The scale.
        scale: f64,
    },
    /// The jobs are no trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The load cannot be reached.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Generated jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The header of the log that they make.
    pub header: SwfHeader,
    /// The jobs by time of submission.
    pub records: Vec<SwfRecord>,
}

/// Generates a workload. The same options give the same jobs.
///
/// # Errors
/// If the options allow no workload.
pub fn generate(options: &LublinOptions) -> Result<Workload, LublinError> {
    let &LublinOptions { pes, jobs, classes, load, seed } = options;
    if !(MIN_PES..=MAX_PES).contains(&pes) {
        return Err(LublinError::Machine { pes });
    }
    if jobs == 0 || jobs as usize > MAX_JOBS {
        return Err(LublinError::Jobs { jobs });
    }
    let classes: &[JobClass] = match classes {
        JobClasses::Typed => &[JobClass::Batch, JobClass::Interactive],
        JobClasses::Typeless => &[JobClass::Typeless],
    };
    let streams = classes.iter().zip(0_u64..).map(|(class, stream)| {
        // A stream of random numbers each, so that classes do not depend on each other.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Ok(Stream::new(*class, pes, random)?.peekable())
    });
    let mut streams = streams.collect::<Result<Vec<Peekable<Stream>>, LublinError>>()?;
    let mut records = Vec::with_capacity(jobs as usize);
    for number in 1..=i64::from(jobs) {
        // The class whose next job arrives first. A stream never ends.
        let mut arrives = |stream: &usize| streams[*stream].peek().map(|job| job.submit_s);
        let next = (0..classes.len()).min_by_key(|stream| arrives(stream));
        let Some(record) = next.and_then(|stream| streams[stream].next()) else { break };
        records.push(SwfRecord { job: number, ..record });
    }
    if let Some(load) = load {
        scale(&mut records, pes, load)?;
    }
    Ok(Workload { header: header(options), records })
}

/// The jobs of one class by time of submission, without end.
struct Stream {
    class: JobClass,
    arrivals: Arrivals,
    size: Size,
    run_time: RunTime,
    random: ChaCha8Rng,
}

impl Stream {
    fn new(class: JobClass, pes: u32, random: ChaCha8Rng) -> Result<Self, LublinError> {
        let ClassParams { size, run_time, arrivals } = class.params();
        Ok(Self {
            class,
            arrivals: Arrivals::new(arrivals)?,
            size: Size::new(size, pes),
            run_time: RunTime::new(run_time)?,
            random,
        })
    }
}

impl Iterator for Stream {
    type Item = SwfRecord;

    fn next(&mut self) -> Option<SwfRecord> {
        let submit_s = self.arrivals.next_s(&mut self.random) as i64;
        let procs = self.size.draw(&mut self.random);
        let run_s = self.run_time.draw_s(procs, &mut self.random);
        Some(SwfRecord {
            submit_s,
            run_s: i64::try_from(run_s).ok()?,
            allocated: i64::from(procs),
            status: 1,
            queue: self.class.queue(),
            ..SwfRecord::UNKNOWN
        })
    }
}

/// Scales the times between submissions, to whole seconds.
fn scale(records: &mut [SwfRecord], pes: u32, load: f64) -> Result<(), LublinError> {
    let jobs: Vec<LogJob> = records.iter().filter_map(|job| LogJob::of(job).ok()).collect();
    let scaled = Trace::new(pes, &jobs, Estimates::Perfect)?.scaled_to(load)?;
    for (record, job) in records.iter_mut().zip(scaled.jobs()) {
        let submit_s = job.submit.since(storm_sched::SchedTime::ZERO).as_secs_f64().round();
        record.submit_s = submit_s as i64;
    }
    Ok(())
}

fn header(options: &LublinOptions) -> SwfHeader {
    let LublinOptions { pes, jobs, classes, load, seed } = options;
    let classes = match classes {
        JobClasses::Typed => "batch (queue 1) and interactive (queue 0)",
        JobClasses::Typeless => "typeless",
    };
    let load = load.map_or_else(|| "as the model has it".to_owned(), |load| load.to_string());
    let mut header = SwfHeader::default();
    header.push("Version", "2.2");
    header.push("Computer", "none: the workload model of Lublin and Feitelson");
    header.push("Note", format!("{classes} jobs, load {load}, seed {seed}"));
    header.push("MaxJobs", jobs.to_string());
    header.push("MaxRecords", jobs.to_string());
    header.push("MaxNodes", pes.to_string());
    header.push("MaxProcs", pes.to_string());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: LublinOptions = LublinOptions {
        pes: 256,
        jobs: 2_000,
        classes: JobClasses::Typed,
        load: Some(0.7),
        seed: 1,
    };

    #[test]
    fn each_seed_gives_its_own_workload() {
        let first = generate(&OPTIONS).unwrap();
        assert_eq!(generate(&OPTIONS), Ok(first.clone()));
        assert_ne!(generate(&LublinOptions { seed: 2, ..OPTIONS }), Ok(first.clone()));
        assert_eq!(first.header.max_procs(), Some(256));
        assert_eq!(first.records.len(), 2_000);
    }

    #[test]
    fn jobs_ascend_fit_the_machine_and_have_the_requested_load() {
        for (classes, load) in [(JobClasses::Typed, 0.5), (JobClasses::Typeless, 0.95)] {
            let options = LublinOptions { classes, load: Some(load), ..OPTIONS };
            let records = generate(&options).unwrap().records;
            assert!(records.is_sorted_by_key(|job| job.submit_s));
            let jobs: Vec<LogJob> = records.iter().map(|job| LogJob::of(job).unwrap()).collect();
            assert!(jobs.iter().all(|job| (1..=256).contains(&job.procs)));
            let trace = Trace::new(256, &jobs, Estimates::OfUsers).unwrap();
            let offered = trace.offered_load().unwrap();
            assert!((offered - load).abs() < 1e-5, "{offered}, not {load}");
        }
    }

    #[test]
    fn every_machine_of_the_model_has_jobs_and_others_are_refused() {
        for pes in [8, 9, 100, 1 << 20] {
            let records = generate(&LublinOptions { pes, jobs: 500, ..OPTIONS }).unwrap().records;
            assert!(records.iter().all(|job| (1..=i64::from(pes)).contains(&job.allocated)));
            assert!(records.iter().any(|job| job.allocated > 1));
        }
        for pes in [0, 7, MAX_PES + 1] {
            let refused = generate(&LublinOptions { pes, ..OPTIONS });
            assert_eq!(refused, Err(LublinError::Machine { pes }));
        }
        assert!(generate(&LublinOptions { jobs: 0, ..OPTIONS }).is_err());
        assert!(generate(&LublinOptions { load: Some(-1.0), ..OPTIONS }).is_err());
    }
}
