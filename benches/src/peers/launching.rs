//! Launching the same programs with the peers, turn by turn with `storm run`.

use super::{Absent, Hydra, Slurm, available};
use crate::spread::Spread;
use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Gang scheduling does not matter to a launch: Slurm's default slice, seconds.
const SLICE_S: u32 = 30;

/// Another system that launches programs.
pub trait LaunchPeer {
    /// The name with its version.
    fn name(&self) -> String;

    /// Brings a program that no node has to all nodes and runs it to its end.
    ///
    /// # Errors
    /// A command failed.
    fn first(&self, nodes: u32, processes: u32, program: &Path) -> Result<Duration>;

    /// Runs the program of the latest [`first`](Self::first) again.
    ///
    /// # Errors
    /// A command failed.
    fn again(&self, nodes: u32, processes: u32) -> Result<Duration>;
}

/// The times of one peer for one case, in milliseconds of its whole commands.
#[derive(Clone, Debug, Serialize)]
pub struct PeerLaunches {
    /// The name with its version.
    pub peer: String,
    /// No node had the program.
    pub first_ms: Spread,
    /// The second launch, when all nodes had the program.
    pub again_ms: Spread,
    /// First launch, over the whole `storm run` of the same turn.
    pub first_over_storm: Spread,
    /// The ratio for the second launch.
    pub again_over_storm: Spread,
}

/// The peers that are installed, for up to `nodes` nodes of `pes` processes, and
/// why others are not there.
pub fn launch_peers(nodes: u32, pes: u32) -> (Vec<Box<dyn LaunchPeer>>, Vec<Absent>) {
    let mut peers: Vec<Box<dyn LaunchPeer>> = Vec::new();
    let mut absent = Vec::new();
    match available("Slurm", Slurm::up(nodes, pes, SLICE_S)) {
        Ok(slurm) => peers.push(Box::new(slurm)),
        Err(why) => absent.push(why),
    }
    match available("Hydra", Hydra::find()) {
        Ok(hydra) => peers.push(Box::new(hydra)),
        Err(why) => absent.push(why),
    }
    (peers, absent)
}

impl PeerLaunches {
    /// Computes the times from the turns of one case: first and second launch of the peer and of
    /// storm, in milliseconds.
    pub fn of(peer: String, turns: &[[f64; 4]]) -> PeerLaunches {
        let spread = |of: fn(&[f64; 4]) -> f64| Spread::of(turns.iter().map(of));
        PeerLaunches {
            peer,
            first_ms: spread(|[first, ..]| *first),
            again_ms: spread(|[_, again, ..]| *again),
            first_over_storm: spread(|[first, _, storm, _]| first / storm),
            again_over_storm: spread(|[_, again, _, storm]| again / storm),
        }
    }
}

/// One row for each peer and case. A case has its name, the medians of storm's two commands, and
/// the peers.
pub fn launch_table<'a>(
    cases: impl Iterator<Item = ([String; 2], [Spread; 2], &'a [PeerLaunches])>,
    absent: &[Absent],
) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
        "nodes x procs",
        "MB",
        "with",
        "first ms",
        "again ms",
        "first / storm's",
        "again / storm's",
    ]);
    for (case, [first, again], peers) in cases {
        let row = |with: &str, times: [String; 4]| {
            case.clone().into_iter().chain([with.to_owned()]).chain(times)
        };
        let none = || "-".to_owned();
        table.add_row(row("storm run", [first.to_string(), again.to_string(), none(), none()]));
        for peer in peers {
            let figures =
                [peer.first_ms, peer.again_ms, peer.first_over_storm, peer.again_over_storm];
            table.add_row(row(&peer.peer, figures.map(|figure| figure.to_string())));
        }
    }
    for peer in absent {
        table.add_row([peer.name, "", "NOT MEASURED", &peer.not_measured]);
    }
    table
}
