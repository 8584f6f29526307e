//! Coscheduling without strobes beside gang scheduling: two copies of a bulk-synchronous program at
//! once on the same processors, over how long its ranks compute between two barriers; live on 2
//! nodes of 1 processing element, which are processes of one host, and on simulated nodes.
//!
//! The slowdown is the time that both take, as a multiple of what they compute, of one processor.
//! Literature: 1.0 under gang scheduling; 1.1 to 1.4 under implicit coscheduling and periodic boost
//! up to 10 ms; local scheduling with ranks that look for messages all the time gets the
//! worse the finer they are (`storm_sched::policies`).

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, Palette, Palette99,
    PathElement, SVGBackend, WHITE,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storm_benches::cluster::{Cluster, program};
use storm_benches::measuring::Measuring;
use storm_benches::spread::Spread;

/// Live nodes, each of one processing element.
const NODES: u32 = 2;
/// Size of the plot in pixels.
const SIZE: (u32, u32) = (800, 500);

/// Slowdown of two bulk-synchronous jobs at once over their granularity.
#[derive(Debug, Parser)]
struct Options {
    /// Milliseconds that a rank computes between two barriers
    #[arg(long, value_delimiter = ',', default_value = "0.1,1,10,100")]
    granularity: Vec<f64>,
    /// Policies; `local` twice, with ranks that look all the time and as storm-mpi waits by itself
    #[arg(long, value_delimiter = ',', default_value = "gang,ics,pb,local")]
    sched: Vec<String>,
    /// Seconds that each rank computes in all
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Nodes to simulate; 0 leaves the simulation out
    #[arg(long, default_value_t = 64)]
    simulated: u32,
    /// Leave the live cluster out
    #[arg(long)]
    simulated_only: bool,
    /// Draw both into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    measuring: Measuring,
}

/// One policy and way to wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Way {
    sched: String,
    /// What `STORM_MPI_WAIT` is set to, if to anything.
    wait: Option<&'static str>,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.wait {
            Some(wait) => write!(f, "{}, {wait}", self.sched),
            None => f.write_str(&self.sched),
        }
    }
}

#[derive(Debug, Serialize)]
struct Case {
    where_: &'static str,
    way: Way,
    granularity_ms: f64,
    slowdown: Spread,
}

/// What `storm sim --json` says of a job.
#[derive(Deserialize)]
struct SimulatedJob {
    state: String,
    exec_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Simulated {
    jobs: Vec<SimulatedJob>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(!options.measuring.peers, "no peer does this: Slurm's shortest slice is 5 s");
    let mut cases = Vec::new();
    for sched in &options.sched {
        let waits: &[Option<&'static str>] =
            if sched == "local" { &[Some("spin"), None] } else { &[None] };
        for &wait in waits {
            let way = Way { sched: sched.clone(), wait };
            for &granularity_ms in &options.granularity {
                eprintln!("{way}, {granularity_ms} ms ...");
                if !options.simulated_only {
                    let slowdown = live(&options, &way, granularity_ms)?;
                    let way = way.clone();
                    cases.push(Case { where_: "live", way, granularity_ms, slowdown });
                }
                // Modelled ranks look all the time where the policy does not say otherwise.
                if options.simulated > 0 && (sched != "local" || wait.is_some()) {
                    let slowdown = simulated(&options, sched, granularity_ms)?;
                    let way = way.clone();
                    cases.push(Case { where_: "simulated", way, granularity_ms, slowdown });
                }
            }
        }
    }
    if let Some(path) = &options.plot {
        draw(path, &cases).context("the plot cannot be drawn")?;
    }
    if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&cases)?);
    } else {
        println!("Slowdown, median [least..greatest] of {} runs.", options.measuring.runs);
        println!("{}", table(&options, &cases));
    }
    Ok(())
}

/// Steps of a job, at least two.
fn steps(options: &Options, granularity_ms: f64) -> u32 {
    ((options.seconds * 1e3 / granularity_ms).round() as u32).max(2)
}

/// Two copies at once on a cluster of their own.
fn live(options: &Options, way: &Way, granularity_ms: f64) -> Result<Spread> {
    let mut cluster = Cluster::up(NODES, 1, &["--sched", &way.sched])?;
    let steps = steps(options, granularity_ms);
    let work_s = f64::from(steps) * granularity_ms / 1e3;
    let argv = [
        program("kernels")?.display().to_string(),
        "bsp".to_owned(),
        format!("--steps={steps}"),
        format!("--granularity={}", (granularity_ms * 1e3).round()),
        "--exchange=barrier".to_owned(),
    ];
    let export = way.wait.map(|wait| format!("--export=ALL,STORM_MPI_WAIT={wait}"));
    let mut further = vec!["--no-bcast"];
    further.extend(export.as_deref());
    let mut slowdowns = Vec::new();
    for _ in 0..options.measuring.runs {
        let since = Instant::now();
        let one = cluster.start(NODES, &further, &argv)?;
        let other = cluster.start(NODES, &further, &argv)?;
        // Both are waited for even if the first fails.
        let ends = [one.finish(), other.finish()];
        let both_s = since.elapsed().as_secs_f64();
        ends.into_iter().collect::<Result<Vec<_>>>()?;
        slowdowns.push(both_s / (2.0 * work_s));
    }
    cluster.down()?;
    Ok(Spread::of(slowdowns))
}

/// The same on simulated nodes; each run is another seed.
fn simulated(options: &Options, sched: &str, granularity_ms: f64) -> Result<Spread> {
    let (nodes, steps) = (options.simulated, steps(options, granularity_ms));
    let work_ms = f64::from(steps) * granularity_ms;
    let granularity_us = (granularity_ms * 1e3).round();
    let job = |name: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\nprocs = {nodes}\n[job.application]\n\
             kind = \"bulk-synchronous\"\niterations = {steps}\ncompute = \"{granularity_us}us\"\n"
        )
    };
    let scenario = format!(
        "limit = \"10h\"\n[machine]\nprofile = \"plain\"\nnodes = {nodes}\npes = 1\nmpl = 2\n\
         checks = false\nsched = \"{sched}\"\n{}{}",
        job("one"),
        job("two")
    );
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("coscheduling.toml");
    std::fs::write(&path, scenario)?;
    let mut slowdowns = Vec::new();
    for seed in 0..options.measuring.runs {
        let mut command = std::process::Command::new(program("storm")?);
        command.args(["sim", "--json", "--seed", &seed.to_string()]).arg(&path);
        let output = command.output().context("cannot start storm")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "storm sim failed: {said}");
        let report: Simulated = serde_json::from_slice(&output.stdout)?;
        let times = report.jobs.iter().map(|job| job.exec_ms.filter(|_| job.state == "COMPLETED"));
        let times = times.collect::<Option<Vec<f64>>>().context("a simulated job did not end")?;
        slowdowns.push(times.into_iter().fold(0.0, f64::max) / (2.0 * work_ms));
    }
    Ok(Spread::of(slowdowns))
}

fn table(options: &Options, cases: &[Case]) -> Table {
    let mut table = Table::new();
    let granularities = options.granularity.iter().map(|ms| format!("{ms} ms"));
    let header = ["where".to_owned(), "policy".to_owned()].into_iter().chain(granularities);
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(header);
    let mut rows: BTreeMap<(&str, &Way), Vec<String>> = BTreeMap::new();
    for case in cases {
        rows.entry((case.where_, &case.way)).or_default().push(case.slowdown.to_string());
    }
    for ((place, way), slowdowns) in rows {
        table.add_row([place.to_owned(), way.to_string()].into_iter().chain(slowdowns));
    }
    table
}

/// Slowdown over granularity, both in powers of ten.
fn draw(path: &Path, cases: &[Case]) -> Result<()> {
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (finest, coarsest) = bounds(&mut cases.iter().map(|case| case.granularity_ms));
    let (_, worst) = bounds(&mut cases.iter().map(|case| case.slowdown.median));
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area);
    chart.margin(12).x_label_area_size(40).y_label_area_size(50);
    let (x, y) = ((finest..coarsest * 1.01).log_scale(), (0.9..worst * 1.2).log_scale());
    let mut chart = chart.build_cartesian_2d(x, y)?;
    chart.configure_mesh().x_desc("granularity in ms").y_desc("slowdown").draw()?;
    let mut curves: BTreeMap<(&str, &Way), Vec<(f64, f64)>> = BTreeMap::new();
    for case in cases {
        let point = (case.granularity_ms, case.slowdown.median);
        curves.entry((case.where_, &case.way)).or_default().push(point);
    }
    for (index, ((place, way), points)) in curves.into_iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(format!("{way} ({place})"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
