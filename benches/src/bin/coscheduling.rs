//! Other coscheduling compared with gang scheduling. Two copies of a bulk-synchronous program run
//! at once on the same processors, for several lengths of computing between two barriers. They run
//! live on 2 nodes of 1 processing element, which are processes of one host, and on simulated
//! nodes.
//!
//! The slowdown is the time of both copies divided by their computing time on one processor.
//! Literature: 1.0 under gang scheduling; 1.1 to 1.4 under implicit coscheduling and periodic boost
//! up to 10 ms. Under local scheduling, ranks that always poll for messages are the slower the
//! shorter they compute (`storm_sched::policies`).
//!
//! A second experiment runs two jobs whose loads complement each other, under gang and under
//! flexible coscheduling. Half of the ranks of each job compute twice as long as the others, and
//! the two jobs have those ranks on opposite halves. Gang scheduling takes 4 parts of time for 3
//! parts of work, so the ideal gain is a quarter (Frachtenberg et al., IPDPS 2003).

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
    /// Work of the upper half of the ranks as a multiple of the lower half's, in both jobs: at
    /// least 1
    #[arg(long, default_value_t = 1.0)]
    imbalance: f64,
    /// Time of the last rank for its work as a multiple of the first rank's, the others in
    /// proportion: at least 1
    #[arg(long, default_value_t = 1.0)]
    heterogeneity: f64,
    /// Policies; `local` twice, with ranks that look all the time and as storm-mpi waits by itself
    #[arg(long, value_delimiter = ',', default_value = "gang,fcs,ics,pb,local")]
    sched: Vec<String>,
    /// Seconds that each rank computes in all
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Milliseconds that the lighter ranks of complementing jobs compute between two barriers; an
    /// empty list leaves these jobs out
    #[arg(long, value_delimiter = ',', default_value = "2,5,10,20,50")]
    complementing: Vec<f64>,
    /// Seconds that the heavier ranks of complementing jobs compute in all; nodes need 0.4 s to
    /// learn about them
    #[arg(long, default_value_t = 6.0)]
    complementing_seconds: f64,
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
    /// The value of `STORM_MPI_WAIT`, if set.
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

/// Two bulk-synchronous jobs at once.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The computing time of a rank between two barriers; that of the lighter ranks if they differ.
    granularity_ms: f64,
    steps: u32,
    /// The work of half of the ranks as a multiple of the others'.
    imbalance: f64,
    /// The time of the last rank for its work as a multiple of the first rank's.
    heterogeneity: f64,
    /// Whether the two jobs have their heavy ranks on opposite halves.
    complementing: bool,
}

impl Pair {
    /// The computing time of a processor for both jobs, for the ranks with the most work.
    fn gang_ms(&self) -> f64 {
        let factor = self.imbalance * self.heterogeneity;
        2.0 * factor * f64::from(self.steps) * self.granularity_ms
    }

    /// The heavy half of the ranks in each job.
    fn heavy(&self) -> [&'static str; 2] {
        if self.complementing { ["lower", "upper"] } else { ["upper"; 2] }
    }
}

/// Complementing jobs under gang and under flexible coscheduling.
#[derive(Debug, Serialize)]
struct Complementing {
    where_: &'static str,
    granularity_ms: f64,
    /// The time of both, as a multiple of the computing of the ranks with the most work.
    gang: Spread,
    fcs: Spread,
    /// The gain of flexible coscheduling by the medians, in percent; ideally 25.
    gain_percent: f64,
}

#[derive(Debug, Serialize)]
struct Measured {
    slowdowns: Vec<Case>,
    complementing: Vec<Complementing>,
}

#[derive(Debug, Serialize)]
struct Case {
    where_: &'static str,
    way: Way,
    granularity_ms: f64,
    slowdown: Spread,
}

/// A job in the output of `storm sim --json`.
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
    for factor in [options.imbalance, options.heterogeneity] {
        ensure!((1.0..=1000.0).contains(&factor), "{factor} is no factor from 1 to 1000");
    }
    ensure!(!options.measuring.peers, "no peer does this: Slurm's shortest slice is 5 s");
    let slowdowns = slowdowns(&options)?;
    let complementing = complementing(&options)?;
    if let Some(path) = &options.plot {
        draw(path, &slowdowns).context("the plot cannot be drawn")?;
    }
    if options.measuring.json {
        let measured = Measured { slowdowns, complementing };
        println!("{}", serde_json::to_string_pretty(&measured)?);
        return Ok(());
    }
    println!("Slowdown, median [least..greatest] of {} runs.", options.measuring.runs);
    println!("{}", table(&options, &slowdowns));
    if !complementing.is_empty() {
        println!("Complementing jobs: time as a multiple of what the heavier ranks compute.");
        println!("{}", complementing_table(&complementing));
    }
    Ok(())
}

/// Two equal jobs under each policy.
fn slowdowns(options: &Options) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for sched in &options.sched {
        let waits: &[Option<&'static str>] =
            if sched == "local" { &[Some("spin"), None] } else { &[None] };
        for &wait in waits {
            let way = Way { sched: sched.clone(), wait };
            for &granularity_ms in &options.granularity {
                eprintln!("{way}, {granularity_ms} ms ...");
                let steps = steps(options.seconds, granularity_ms);
                let Options { imbalance, heterogeneity, .. } = *options;
                let complementing = false;
                let pair = Pair { granularity_ms, steps, imbalance, heterogeneity, complementing };
                if !options.simulated_only {
                    let slowdown = live(options, &way, &pair)?;
                    let way = way.clone();
                    cases.push(Case { where_: "live", way, granularity_ms, slowdown });
                }
                // Modelled ranks always poll unless the policy defines another way to wait.
                if options.simulated > 0 && (sched != "local" || wait.is_some()) {
                    let slowdown = simulated(options, sched, &pair)?;
                    let way = way.clone();
                    cases.push(Case { where_: "simulated", way, granularity_ms, slowdown });
                }
            }
        }
    }
    Ok(cases)
}

/// Two jobs that complement each other.
fn complementing(options: &Options) -> Result<Vec<Complementing>> {
    let mut cases = Vec::new();
    for &granularity_ms in &options.complementing {
        let steps = steps(options.complementing_seconds / 2.0, granularity_ms);
        let (imbalance, heterogeneity, complementing) = (2.0, 1.0, true);
        let pair = Pair { granularity_ms, steps, imbalance, heterogeneity, complementing };
        let way = |sched: &str| Way { sched: sched.to_owned(), wait: None };
        let mut both = |where_, gang: Spread, fcs: Spread| {
            let gain_percent = 100.0 * (1.0 - fcs.median / gang.median);
            cases.push(Complementing { where_, granularity_ms, gang, fcs, gain_percent });
        };
        eprintln!("complementing jobs, {granularity_ms} ms ...");
        if !options.simulated_only {
            let gang = live(options, &way("gang"), &pair)?;
            both("live", gang, live(options, &way("fcs"), &pair)?);
        }
        if options.simulated > 0 {
            let gang = simulated(options, "gang", &pair)?;
            both("simulated", gang, simulated(options, "fcs", &pair)?);
        }
    }
    Ok(cases)
}

/// Steps of a job, at least two.
fn steps(seconds: f64, granularity_ms: f64) -> u32 {
    ((seconds * 1e3 / granularity_ms).round() as u32).max(2)
}

/// Runs both at once on a cluster of their own.
fn live(options: &Options, way: &Way, pair: &Pair) -> Result<Spread> {
    let mut cluster = Cluster::up(NODES, 1, &["--sched", &way.sched])?;
    let kernels = program("kernels")?.display().to_string();
    let argvs = pair.heavy().map(|heavy| {
        vec![
            kernels.clone(),
            "bsp".to_owned(),
            format!("--steps={}", pair.steps),
            format!("--granularity={}", (pair.granularity_ms * 1e3).round()),
            "--exchange=barrier".to_owned(),
            format!("--imbalance={}", pair.imbalance),
            format!("--heterogeneity={}", pair.heterogeneity),
            format!("--heavy={heavy}"),
        ]
    });
    let export = way.wait.map(|wait| format!("--export=ALL,STORM_MPI_WAIT={wait}"));
    let mut further = vec!["--no-bcast"];
    further.extend(export.as_deref());
    let mut slowdowns = Vec::new();
    for _ in 0..options.measuring.runs {
        let since = Instant::now();
        let one = cluster.start(NODES, &further, &argvs[0])?;
        let other = cluster.start(NODES, &further, &argvs[1])?;
        // Wait for both even if the first fails.
        let ends = [one.finish(), other.finish()];
        let both_s = since.elapsed().as_secs_f64();
        ends.into_iter().collect::<Result<Vec<_>>>()?;
        slowdowns.push(both_s * 1e3 / pair.gang_ms());
    }
    cluster.down()?;
    Ok(Spread::of(slowdowns))
}

/// The slowdown on simulated nodes. Each run has another seed.
fn simulated(options: &Options, sched: &str, pair: &Pair) -> Result<Spread> {
    let (nodes, steps) = (options.simulated, pair.steps);
    let granularity_us = (pair.granularity_ms * 1e3).round();
    let [imbalance, heterogeneity] =
        [pair.imbalance, pair.heterogeneity].map(|factor| (100.0 * factor).round());
    let job = |(name, heavy): (&str, &str)| {
        format!(
            "[[job]]\nname = \"{name}\"\nprocs = {nodes}\n[job.application]\n\
             kind = \"bulk-synchronous\"\niterations = {steps}\ncompute = \"{granularity_us}us\"\n\
             imbalance-percent = {imbalance}\nheavy = \"{heavy}\"\n\
             heterogeneity-percent = {heterogeneity}\n"
        )
    };
    let jobs: Vec<String> = ["one", "two"].into_iter().zip(pair.heavy()).map(job).collect();
    let scenario = format!(
        "limit = \"10h\"\n[machine]\nprofile = \"plain\"\nnodes = {nodes}\npes = 1\nmpl = 2\n\
         checks = false\nsched = \"{sched}\"\n{}",
        jobs.concat()
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
        slowdowns.push(times.into_iter().fold(0.0, f64::max) / pair.gang_ms());
    }
    Ok(Spread::of(slowdowns))
}

fn complementing_table(cases: &[Complementing]) -> Table {
    let mut table = Table::new();
    let header = ["where", "lighter ranks compute", "gang", "fcs", "gain (ideally 25 %)"];
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(header);
    let mut cases: Vec<&Complementing> = cases.iter().collect();
    cases.sort_by_key(|case| case.where_);
    for case in cases {
        table.add_row([
            case.where_.to_owned(),
            format!("{} ms", case.granularity_ms),
            case.gang.to_string(),
            case.fcs.to_string(),
            format!("{:.1} %", case.gain_percent),
        ]);
    }
    table
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
