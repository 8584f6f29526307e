//! One replay, and its cost.

use super::Workload;
use anyhow::{Context, Result, ensure};
use procfs::process::{Process, Status};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use storm_replay::{ReplayOptions, replay};
use storm_sched::{Machine, PolicyParams, registry};
use tokio::time::timeout;

/// The shortest processor time that is reported: several ticks of the kernel's account, which are 4
/// ms at most.
const SHORTEST_CPU_S: f64 = 0.02;

/// The cost of a replay, without reading or generating its jobs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// Jobs.
    pub jobs: u64,
    /// Submissions and ends.
    pub job_events: u64,
    /// Seconds of real time.
    pub real_s: f64,
    /// Seconds that it had a processor.
    pub cpu_s: f64,
    /// The replay's peak memory in addition to its jobs, in KiB.
    pub memory_kib: u64,
}

/// The outcome of a process that replays.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The replay was measured.
    Measured(Replayed),
    /// The process was ended after this many seconds.
    LongerThanS(u64),
}

impl Replayed {
    /// Submissions and ends in a second.
    #[must_use]
    pub fn events_per_s(&self) -> f64 {
        self.job_events as f64 / self.real_s.max(f64::MIN_POSITIVE)
    }

    /// Submissions and ends per second of processor time, which other work on the machine affects
    /// less than real time. `None` if the kernel's account is too coarse for so short a time.
    #[must_use]
    pub fn events_per_cpu_s(&self) -> Option<f64> {
        (self.cpu_s >= SHORTEST_CPU_S).then(|| self.job_events as f64 / self.cpu_s)
    }

    /// Replays in this process.
    ///
    /// # Errors
    /// There is no such workload or policy, or the replay fails.
    pub fn here(workload: &Workload, sched: &str) -> Result<Replayed> {
        let trace = workload.trace()?;
        let machine = Machine::uniform(1, trace.pes())?;
        let mut policy = registry::by_name(sched, machine, &PolicyParams::default())?;
        // Resets the peak that reading the jobs left: proc(5). If that fails, the peak includes it.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let before_kib = status()?.vmrss.context("no VmRSS")?;
        let (begun, cpu_before_s) = (Instant::now(), cpu_s()?);
        let schedule = replay(&trace, policy.as_mut(), ReplayOptions::default(), &mut |_| {})?;
        let real_s = begun.elapsed().as_secs_f64();
        let cpu_s = cpu_s()? - cpu_before_s;
        let memory_kib = status()?.vmhwm.context("no VmHWM")?.saturating_sub(before_kib);
        let jobs = schedule.starts.len() as u64;
        let job_events = schedule.job_events;
        Ok(Replayed { jobs, job_events, real_s, cpu_s, memory_kib })
    }
}

/// Replays in a process of this program, which gets `options` and prints a [`Replayed`].
///
/// # Errors
/// The process fails.
pub fn measure(options: &[String], limit: Duration) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(options).stdout(Stdio::piped());
    runtime.block_on(async {
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().context("cannot start it")?;
        let Ok(done) = timeout(limit, child.wait_with_output()).await else {
            return Ok(Outcome::LongerThanS(limit.as_secs()));
        };
        let done = done?;
        ensure!(done.status.success(), "a replay with {options:?} failed: {}", done.status);
        Ok(Outcome::Measured(serde_json::from_slice(&done.stdout)?))
    })
}

/// The seconds that this process, which has one thread, has had a processor: the first field of
/// schedstat, in nanoseconds (proc(5)).
fn cpu_s() -> Result<f64> {
    Ok(Process::myself()?.schedstat()?.sum_exec_runtime as f64 / 1e9)
}

fn status() -> Result<Status> {
    Ok(Process::myself()?.status()?)
}
