//! The jobs to replay: a log, or a number of generated jobs.

use anyhow::{Context, Result, ensure};
use clap::Args;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use storm_replay::lublin::{JobClasses, LublinOptions, generate};
use storm_replay::{Estimates, Trace};
use storm_sched::swf::{Cleaned, Cleaning, Conformity, SwfReader};

/// Processors of the machine of the generated jobs.
pub const MACHINE_PES: u32 = 256;

/// A log, or generated jobs.
#[derive(Clone, Debug, Args)]
pub struct Workload {
    /// A log, compressed by gzip
    #[arg(long, hide = true)]
    pub log: Option<PathBuf>,
    /// Jobs to generate instead
    #[arg(long, hide = true, default_value_t = 1)]
    pub generated: u32,
    /// Their load
    #[arg(long, hide = true, default_value_t = 0.7)]
    pub load: f64,
}

impl Workload {
    /// The log of a file.
    #[must_use]
    pub fn of_log(log: PathBuf) -> Workload {
        Workload { log: Some(log), generated: 1, load: 0.0 }
    }

    /// A workload of `jobs` generated jobs of this load.
    #[must_use]
    pub fn of_jobs(jobs: u32, load: f64) -> Workload {
        Workload { log: None, generated: jobs, load }
    }

    /// The options by which another process makes the same workload.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        match &self.log {
            Some(log) => vec!["--log".to_owned(), log.display().to_string()],
            None => {
                vec![format!("--generated={}", self.generated), format!("--load={}", self.load)]
            }
        }
    }

    /// The jobs.
    ///
    /// # Errors
    /// The log cannot be read, or there are no such jobs.
    pub fn trace(&self) -> Result<Trace> {
        let mut cleaning = Cleaning::default();
        let pes = match &self.log {
            Some(log) => {
                let file = File::open(log).with_context(|| log.display().to_string())?;
                let mut text = Vec::new();
                MultiGzDecoder::new(BufReader::new(file)).read_to_end(&mut text)?;
                let mut reader = SwfReader::new(Conformity::Lenient);
                reader.push(&text, &mut |record| cleaning.add(&record));
                let contents = reader.finish(&mut |record| cleaning.add(&record));
                contents.header.max_procs().context("the log has no MaxProcs")?
            }
            None => {
                let (jobs, load) = (self.generated, Some(self.load));
                let classes = JobClasses::Typed;
                let options = LublinOptions { pes: MACHINE_PES, jobs, classes, load, seed: 1 };
                generate(&options)?.records.iter().for_each(|record| cleaning.add(record));
                MACHINE_PES
            }
        };
        let Cleaned { jobs, .. } = cleaning.for_machine(pes);
        ensure!(!jobs.is_empty(), "there are no jobs");
        Ok(Trace::new(pes, &jobs, Estimates::OfUsers)?)
    }
}
