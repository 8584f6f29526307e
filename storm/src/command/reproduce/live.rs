//! Figs. 3 and 5 on clusters of this host's own processes: the times of two or more simultaneous
//! jobs, divided by their number, compared with one job alone.
//!
//! The result is about the real daemons on this host. The paper's machine had a processor for each
//! process, a network, and no other load.

use super::Reproduced;
use crate::attach::Interrupts;
use crate::cli::JobOptions;
use crate::command::on_cluster::{on_cluster, run_well};
use crate::command::progress::Steps;
use crate::failure::Failure;
use crate::job_request::find_program;
use crate::local_cluster::LocalClusterShape;
use futures_util::future::try_join_all;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storm_sim::reproduction::{Exhibit, Reproduction, Row};

/// Nodes of the cluster; each job has a process on each.
const NODES: u32 = 2;
const PES: u32 = 1;
const SCHED: &str = "gang";
/// Measurements of each case; their median counts.
const RUNS: usize = 3;
/// Slices of Fig. 3 that a host with other load can keep.
const SLICES_MS: [u64; 6] = [1, 2, 5, 10, 50, 200];
/// The slice of Fig. 5, and its number of simultaneous jobs.
const USUAL_SLICE_MS: u64 = 50;
const LEVELS: [u32; 4] = [1, 2, 4, 8];
/// Number of times that sweep3d solves its problem, in about a second.
const SWEEP_STEPS: &str = "4";

/// The program of the jobs.
#[derive(Debug)]
pub(super) struct LiveProgram(Vec<OsString>);

/// The user's program, or sweep3d.
pub(super) fn program(given: Option<&Path>) -> Result<LiveProgram, Failure> {
    if let Some(path) = given {
        return Ok(LiveProgram(vec![find_program(path.as_os_str())?.into()]));
    }
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("sweep3d"));
    let found: PathBuf = match beside.filter(|path| path.is_file()) {
        Some(path) => path,
        None => find_program("sweep3d".as_ref()).map_err(|error| {
            Failure::of("program", &error)
                .hint("build it with `cargo build --release -p sweep3d`, or give --program")
        })?,
    };
    Ok(LiveProgram(vec![found.into(), "--steps".into(), SWEEP_STEPS.into()]))
}

/// Measures those of the two figures that are requested, and adds the results to them.
pub(super) async fn add(
    reproduced: &mut [Reproduced],
    program: &LiveProgram,
    interrupts: &mut Interrupts,
    silent: bool,
) -> Result<(), Failure> {
    for one in reproduced {
        let cases: Vec<(u64, u32)> = match one.what.exhibit {
            Exhibit::Fig3 => SLICES_MS.map(|slice_ms| (slice_ms, 2)).to_vec(),
            Exhibit::Fig5 => LEVELS.map(|jobs| (USUAL_SLICE_MS, jobs)).to_vec(),
            _ => continue,
        };
        let steps = Steps::new(silent, cases.len());
        for (slice_ms, jobs) in cases {
            steps.next(&format!("live: {jobs} jobs, {slice_ms} ms"));
            let case = case(program, slice_ms, jobs, interrupts, silent).await?;
            case.add_to(&mut one.what);
        }
        one.what.notes.push(format!(
            "Live: on this host, medians of {RUNS}; {NODES} nodes of {PES} processing element, \
             each a process here, beside whatever else runs here. They are not checked against \
             bounds."
        ));
    }
    Ok(())
}

/// The medians of a case.
#[derive(Clone, Copy, Debug)]
struct Case {
    slice_ms: u64,
    jobs: u32,
    alone: Duration,
    each: Duration,
}

impl Case {
    fn add_to(self, figure: &mut Reproduction) {
        let Case { slice_ms, jobs, alone, each } = self;
        let what = format!("live, slice {slice_ms} ms, jobs at once: {jobs}");
        let percent = (each.as_secs_f64() / alone.as_secs_f64() - 1.0) * 100.0;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        figure.rows.extend([
            Row::live(format!("{what}, one alone"), ms(alone), "ms"),
            Row::live(format!("{what}, each"), ms(each), "ms"),
            Row::live(format!("{what}, slowdown"), percent, "%"),
        ]);
    }
}

async fn case(
    program: &LiveProgram,
    slice_ms: u64,
    jobs: u32,
    interrupts: &mut Interrupts,
    silent: bool,
) -> Result<Case, Failure> {
    let quantum = Duration::from_millis(slice_ms);
    let sched = vec![SCHED.to_owned()];
    let shape = LocalClusterShape {
        nodes: NODES,
        pes: PES,
        sched,
        quantum,
        params: Vec::new(),
        switch_log: None,
        backend: None,
    };
    let (mut alone, mut each) = (Vec::new(), Vec::new());
    on_cluster(&shape, 0, interrupts, async |socket| {
        for _ in 0..RUNS {
            alone.push(together(socket, program, 1, silent).await?);
            each.push(together(socket, program, jobs, silent).await? / jobs);
        }
        Ok(())
    })
    .await?;
    Ok(Case { slice_ms, jobs, alone: median(alone), each: median(each) })
}

/// The time from the first submission to the last end.
async fn together(
    socket: &Path,
    program: &LiveProgram,
    jobs: u32,
    silent: bool,
) -> Result<Duration, Failure> {
    let job = JobOptions {
        procs: Some(NODES * PES),
        no_bcast: true,
        output: Some("/dev/null".into()),
        program: program.0.clone(),
        ..JobOptions::default()
    };
    let since = Instant::now();
    try_join_all((0..jobs).map(|_| run_well(socket, &job, silent))).await?;
    Ok(since.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
