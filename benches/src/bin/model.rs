//! Checks the model's predictions. It alternates `storm model calibrate` on small clusters of this
//! host with the `launch` benchmark on others, then compares `storm model predict` with the
//! measurements. Everything runs on one host, so the results do not describe a network.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use storm_benches::cluster::program;
use storm_benches::measuring::Measuring;
use storm_benches::payload::Payloads;
use storm_benches::peers::{
    Absent, LaunchCase, PeerTimes, launch_peers, launch_times, launch_times_table,
};
use storm_benches::spread::Spread;

/// Processes of each node: those of the `launch` benchmark.
const PES: u32 = 4;

/// Predicted launch times compared with measured ones.
#[derive(Debug, Parser)]
struct Options {
    /// Numbers of nodes to launch on
    #[arg(long, value_delimiter = ',', default_value = "4,16,64")]
    nodes: Vec<u32>,
    /// Sizes of the program in MB (10^6 bytes)
    #[arg(long, value_delimiter = ',', default_value = "12")]
    sizes: Vec<u32>,
    /// Numbers of nodes to calibrate on [default: those of `storm model calibrate`]
    #[arg(long)]
    calibrate_nodes: Option<String>,
    #[command(flatten)]
    measuring: Measuring,
}

/// With `--peers`: the predictions, and the times of the peers for the same.
#[derive(Debug, Serialize)]
struct WithPeers {
    cases: Vec<Compared>,
    peers: Vec<PeerTimes>,
    absent: Vec<Absent>,
}

/// A case of the `launch` benchmark; only the fields used here.
#[derive(Deserialize)]
struct Case {
    nodes: u32,
    size_mb: u32,
    first: Launch,
    again: Launch,
}

#[derive(Deserialize)]
struct Launch {
    total_ms: Spread,
    sent_bytes: u64,
}

/// A launch that was measured several times.
#[derive(Default)]
struct Measured {
    total_ms: Vec<f64>,
    sent_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Compared {
    nodes: u32,
    size_mb: u32,
    /// `first`: no node had the program; `again`: all had.
    launch: &'static str,
    measured_ms: Spread,
    predicted_ms: f64,
    /// The prediction divided by the median of the measurements.
    ratio: f64,
}

#[derive(Deserialize)]
struct Prediction {
    launch: PredictedLaunch,
}

#[derive(Deserialize)]
struct PredictedLaunch {
    total_ms: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let dir = tempfile::tempdir()?;
    let do_nothing = Payloads::new(dir.path())?.make(0)?;
    let mut measured: BTreeMap<(u32, u32, &'static str), Measured> = BTreeMap::new();
    for turn in 1..=options.measuring.runs {
        eprintln!("turn {turn} of {} ...", options.measuring.runs);
        calibrate(&options, dir.path(), &do_nothing, turn > 1)?;
        for case in launch(&options)? {
            for (name, launch) in [("first", case.first), ("again", case.again)] {
                // Without a breakdown there is no time to compare with.
                if launch.total_ms.runs > 0 {
                    let known = measured.entry((case.nodes, case.size_mb, name)).or_default();
                    known.total_ms.push(launch.total_ms.median);
                    known.sent_bytes = known.sent_bytes.max(launch.sent_bytes);
                }
            }
        }
    }
    let profile = dir.path().join("here.toml");
    let compared = measured
        .into_iter()
        .map(|((nodes, size_mb, launch), measured)| {
            let predicted_ms = predict(&profile, nodes, measured.sent_bytes)?;
            let measured_ms = Spread::of(measured.total_ms);
            let ratio = predicted_ms / measured_ms.median;
            Ok(Compared { nodes, size_mb, launch, measured_ms, predicted_ms, ratio })
        })
        .collect::<Result<Vec<Compared>>>()?;
    let (peers, absent) =
        if options.measuring.peers { peers(&options)? } else { Default::default() };
    if options.measuring.json && options.measuring.peers {
        let all = WithPeers { cases: compared, peers, absent };
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else if options.measuring.json {
        println!("{}", serde_json::to_string_pretty(&compared)?);
    } else {
        println!("Milliseconds: median [least..greatest] of {} runs.", options.measuring.runs);
        println!("{}", table(&compared));
        if options.measuring.peers {
            println!("{}", launch_times_table(&peers, &absent));
        }
    }
    Ok(())
}

/// The same launches by other systems.
fn peers(options: &Options) -> Result<(Vec<PeerTimes>, Vec<Absent>)> {
    let most = options.nodes.iter().copied().max().unwrap_or(1);
    let (launchers, absent) = launch_peers(most, PES);
    let mut times = Vec::new();
    for &nodes in &options.nodes {
        for &size in &options.sizes {
            let case = LaunchCase { nodes, processes: nodes * PES, size_mb: size as usize };
            times.extend(launch_times(&launchers, case, options.measuring.runs)?);
        }
    }
    Ok((times, absent))
}

/// Runs one more turn of `storm model calibrate`; `again` adds it to the earlier turns.
fn calibrate(options: &Options, dir: &Path, do_nothing: &Path, again: bool) -> Result<()> {
    let (profile, samples) = (dir.join("here.toml"), dir.join("samples.json"));
    let mut command = Command::new(program("storm")?);
    command.args(["model", "calibrate", "--json", "--runs", "1", "--pes", &PES.to_string()]);
    command.arg("--program").arg(do_nothing).arg("--output").arg(profile);
    if let Some(nodes) = &options.calibrate_nodes {
        command.args(["--nodes", nodes]);
    }
    if again {
        command.arg("--with").arg(&samples);
    }
    fs::write(samples, output(&mut command)?)?;
    Ok(())
}

fn launch(options: &Options) -> Result<Vec<Case>> {
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(program("launch")?);
    command.args(["--json", "--runs", "1"]);
    command.args(["--nodes", &list(&options.nodes), "--sizes", &list(&options.sizes)]);
    Ok(serde_json::from_slice(&output(&mut command)?)?)
}

fn predict(profile: &Path, nodes: u32, bytes: u64) -> Result<f64> {
    let mut command = Command::new(program("storm")?);
    command
        .args(["model", "predict", "--json", "--pes", &PES.to_string(), "--profile"])
        .arg(profile);
    command.args(["--nodes", &nodes.to_string(), "--bytes", &bytes.to_string()]);
    let prediction: Prediction = serde_json::from_slice(&output(&mut command)?)?;
    Ok(prediction.launch.total_ms)
}

/// The output of a command that must succeed.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let done = command.stderr(Stdio::inherit()).output().context("cannot start it")?;
    ensure!(done.status.success(), "{:?} failed: {}", command.get_program(), done.status);
    Ok(done.stdout)
}

fn table(compared: &[Compared]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "nodes x procs",
        "MB",
        "launch",
        "measured",
        "predicted",
        "predicted/measured",
    ]);
    for case in compared {
        table.add_row([
            format!("{} x {PES}", case.nodes),
            case.size_mb.to_string(),
            case.launch.to_owned(),
            case.measured_ms.to_string(),
            format!("{:.0}", case.predicted_ms),
            format!("{:.2}", case.ratio),
        ]);
    }
    table
}
