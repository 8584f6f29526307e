//! Slurm's gang scheduling: two jobs that share all processors of two nodes, by turns of whole
//! seconds, and its answer to a shorter turn.

use super::{Absent, Slurm, available};
use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use serde::Serialize;
use std::time::Instant;

/// The smallest time slice by its manual, in seconds.
const SMALLEST_SLICE_S: u32 = 5;
/// A slice below the smallest, to record its answer, in seconds.
const TOO_SMALL_SLICE_S: u32 = 1;
/// If the first job ends later than this share of the whole, the jobs took turns. Jobs that take
/// turns end close to each other. If they run one after the other, the first ends at half of the
/// time.
const TOOK_TURNS: f64 = 0.7;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct SlurmGang {
    /// The version.
    pub peer: String,
    /// Seconds of the time slice.
    pub slice_s: u32,
    /// Seconds for two copies, one after the other.
    pub in_turn_s: Spread,
    /// Seconds for two copies at once.
    pub at_once_s: Spread,
    /// By how many percent gang scheduling takes longer; over all pairs of measurements.
    pub slowdown_percent: Spread,
    /// The answer to a slice of a second.
    pub of_one_second: String,
}

/// Measures Slurm's gang scheduling on `nodes` nodes of one processor, with a job of one process on
/// each. `argv` makes the job take several time slices.
pub fn slurm_gang(nodes: u32, argv: &[String], runs: u32) -> Result<SlurmGang, Absent> {
    available("Slurm", measure(nodes, argv, runs))
}

/// Seconds of processor time that make a job of several time slices.
pub const fn spin_seconds() -> f64 {
    2.5 * SMALLEST_SLICE_S as f64
}

fn measure(nodes: u32, argv: &[String], runs: u32) -> Result<SlurmGang> {
    let of_one_second = {
        let slurm = Slurm::up(1, 1, TOO_SMALL_SLICE_S)?;
        slurm.log_line("SchedulerTimeSlice").unwrap_or_else(|| "takes it".to_owned())
    };
    let slurm = Slurm::up(nodes, 1, SMALLEST_SLICE_S)?;
    let (mut in_turn, mut at_once, mut slowdown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        slurm.wait_idle()?;
        let since = Instant::now();
        for _ in 0..2 {
            let before = slurm.ended()?;
            submit(&slurm, nodes, argv)?;
            slurm.wait_ended(before + 1)?;
        }
        let in_turn_s = since.elapsed().as_secs_f64();
        slurm.wait_idle()?;
        let before = slurm.ended()?;
        let since = Instant::now();
        submit(&slurm, nodes, argv)?;
        submit(&slurm, nodes, argv)?;
        let first_s = (slurm.wait_ended(before + 1)? - since).as_secs_f64();
        let at_once_s = (slurm.wait_ended(before + 2)? - since).as_secs_f64();
        ensure!(first_s >= TOOK_TURNS * at_once_s, "Slurm did not let the two jobs take turns");
        in_turn.push(in_turn_s);
        at_once.push(at_once_s);
        slowdown.push((at_once_s / in_turn_s - 1.0) * 100.0);
    }
    Ok(SlurmGang {
        peer: slurm.version().to_owned(),
        slice_s: SMALLEST_SLICE_S,
        in_turn_s: Spread::of(in_turn),
        at_once_s: Spread::of(at_once),
        slowdown_percent: Spread::of(slowdown),
        of_one_second,
    })
}

/// Submits a batch job. A plain `srun` would repeat a request that a suspended job cannot serve,
/// but only after a minute or more.
fn submit(slurm: &Slurm, nodes: u32, argv: &[String]) -> Result<()> {
    let command: Vec<String> = argv.iter().map(|word| format!("'{word}'")).collect();
    let mut sbatch = slurm.command("sbatch");
    sbatch.args(["--quiet", "--oversubscribe", "--output=/dev/null"]);
    sbatch.args([format!("--nodes={nodes}"), format!("--ntasks={nodes}")]);
    sbatch.arg(format!("--wrap=exec srun {}", command.join(" ")));
    let status = sbatch.status().context("cannot start sbatch")?;
    ensure!(status.success(), "sbatch failed: {status}");
    Ok(())
}

/// One row, or the reason why there is none.
pub fn gang_table(measured: &Result<SlurmGang, Absent>) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "with",
        "slice s",
        "in turn s",
        "at once s",
        "slowdown %",
        "to a slice of 1 s it says",
    ]);
    match measured {
        Ok(gang) => table.add_row([
            gang.peer.clone(),
            gang.slice_s.to_string(),
            gang.in_turn_s.to_string(),
            gang.at_once_s.to_string(),
            gang.slowdown_percent.to_string(),
            gang.of_one_second.clone(),
        ]),
        Err(absent) => table.add_row([absent.name, "NOT MEASURED", &absent.not_measured]),
    };
    table.add_row(["Hydra", "none: it does not schedule"]);
    table
}
