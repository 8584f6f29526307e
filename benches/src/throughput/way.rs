//! The ways to submit jobs, and the measurement of one way.

use super::JobSystem;
use crate::switches::Percentiles;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Clients at once.
pub const CLIENTS: u32 = 4;
/// A peer takes so long to follow a job that only one in this number is followed.
const FOLLOWED_SHARE: u32 = 10;
/// The longest latency that the histogram resolves, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of the latencies.
const DIGITS: u8 = 3;

/// The way to submit jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A command for each job, one after the other.
    OneByOne,
    /// A command for each job, by [`CLIENTS`] clients at once.
    FourClients,
    /// All in one process.
    AtOnce,
    /// All as one array of jobs.
    Array,
    /// One command after the other, each of which waits for the end of its job.
    Followed,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The time from the first submission to the last end.
    pub elapsed: Duration,
    /// The number of jobs.
    pub jobs: u32,
    /// The latency of each command in nanoseconds, if there is one command per job.
    pub latency: Histogram<u64>,
}

impl Way {
    /// The name for the report.
    pub fn name(self) -> &'static str {
        match self {
            Way::OneByOne => "submitted one by one",
            Way::FourClients => "by four clients",
            Way::AtOnce => "in one process",
            Way::Array => "as an array",
            Way::Followed => "run one by one",
        }
    }

    /// Measures this way with `jobs` jobs at most; `None` if the system lacks it.
    ///
    /// # Errors
    /// A job was refused, or did not end well.
    pub fn measure(self, system: &mut dyn JobSystem, jobs: u32) -> Result<Option<Sample>> {
        let mut latency = Histogram::new_with_max(LONGEST_NS, DIGITS)?;
        let since = Instant::now();
        let jobs = match self {
            Way::OneByOne | Way::FourClients => {
                let clients = if self == Way::OneByOne { 1 } else { CLIENTS };
                let Some(commands) = shares(&*system, clients, jobs) else { return Ok(None) };
                for client in by_clients(commands)? {
                    latency.add(client)?;
                }
                system.wait_ended(jobs)?;
                jobs
            }
            Way::AtOnce | Way::Array => {
                let submitted = match self {
                    Way::Array => system.submit_array(jobs),
                    _ => system.submit_all(jobs),
                };
                let Some(submitted) = submitted else { return Ok(None) };
                submitted?;
                system.wait_ended(jobs)?;
                jobs
            }
            Way::Followed => {
                let jobs = jobs.div_ceil(FOLLOWED_SHARE);
                for _ in 0..jobs {
                    record(&mut latency, system.run())?;
                }
                jobs
            }
        };
        let elapsed = since.elapsed();
        if self == Way::Followed {
            // Otherwise the jobs would be counted with those of the next measurement.
            system.wait_ended(jobs)?;
        }
        Ok(Some(Sample { elapsed, jobs, latency }))
    }
}

impl Sample {
    /// Jobs in a second.
    pub fn jobs_per_s(&self) -> f64 {
        f64::from(self.jobs) / self.elapsed.as_secs_f64()
    }

    /// Percentiles of the commands, over several samples. `None` without any sample.
    ///
    /// # Errors
    /// The histograms do not fit together, which cannot happen within one measurement.
    pub fn latency(samples: &[Sample]) -> Result<Option<Percentiles>> {
        let mut all = Histogram::new_with_max(LONGEST_NS, DIGITS)?;
        for sample in samples {
            all.add(&sample.latency)?;
        }
        Ok((!all.is_empty()).then(|| Percentiles::of(&all)))
    }
}

/// The commands of each client; `None` if the system has no such command.
fn shares(system: &dyn JobSystem, clients: u32, jobs: u32) -> Option<Vec<Vec<Command>>> {
    let mut shares: Vec<Vec<Command>> = (0..clients).map(|_| Vec::new()).collect();
    for (_, client) in (0..jobs).zip((0..clients as usize).cycle()) {
        shares[client].push(system.submit()?);
    }
    Some(shares)
}

/// Runs each client's commands one after the other. Returns the latencies of each client.
fn by_clients(shares: Vec<Vec<Command>>) -> Result<Vec<Histogram<u64>>> {
    thread::scope(|scope| {
        let client = |commands: Vec<Command>| {
            move || {
                let mut latency = Histogram::new_with_max(LONGEST_NS, DIGITS)?;
                commands.into_iter().try_for_each(|command| record(&mut latency, command))?;
                anyhow::Ok(latency)
            }
        };
        let clients: Vec<_> = shares.into_iter().map(|share| scope.spawn(client(share))).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| anyhow::bail!("a client panicked")))
            .collect()
    })
}

fn record(latency: &mut Histogram<u64>, mut command: Command) -> Result<()> {
    let since = Instant::now();
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let elapsed_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, said.trim());
    latency.saturating_record(elapsed_ns);
    Ok(())
}
