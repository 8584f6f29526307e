//! The peers' launch times of a program, for benchmarks that vary a setting that only storm has.

use super::{Absent, LaunchPeer};
use crate::payload::Payloads;
use crate::spread::Spread;
use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

/// A launch to measure.
#[derive(Clone, Copy, Debug)]
pub struct LaunchCase {
    /// Nodes.
    pub nodes: u32,
    /// Processes on all nodes together.
    pub processes: u32,
    /// Size of the program in MB (10^6 bytes).
    pub size_mb: usize,
}

/// The times of one peer for one case: milliseconds of its whole commands.
#[derive(Clone, Debug, Serialize)]
pub struct PeerTimes {
    /// The name with its version.
    pub peer: String,
    /// Nodes.
    pub nodes: u32,
    /// Processes on all nodes together.
    pub processes: u32,
    /// Size of the program in MB.
    pub size_mb: usize,
    /// No node had the program.
    pub first_ms: Spread,
    /// The second launch, when all nodes had the program.
    pub again_ms: Spread,
}

/// Launches a program that no node has, then again, `runs` times with each peer.
///
/// # Errors
/// A command failed.
pub fn launch_times(
    peers: &[Box<dyn LaunchPeer>],
    case: LaunchCase,
    runs: u32,
) -> Result<Vec<PeerTimes>> {
    let LaunchCase { nodes, processes, size_mb } = case;
    let dir = tempfile::tempdir()?;
    let mut payloads = Payloads::new(dir.path())?;
    let mut times = vec![(Vec::new(), Vec::new()); peers.len()];
    for _ in 0..runs {
        let program = payloads.make(size_mb * 1_000_000)?;
        for (peer, (first, again)) in peers.iter().zip(&mut times) {
            first.push(peer.first(nodes, processes, &program)?.as_secs_f64() * 1e3);
            again.push(peer.again(nodes, processes)?.as_secs_f64() * 1e3);
        }
        std::fs::remove_file(program)?;
    }
    let named = peers.iter().zip(times);
    Ok(named
        .map(|(peer, (first, again))| PeerTimes {
            peer: peer.name(),
            nodes,
            processes,
            size_mb,
            first_ms: Spread::of(first),
            again_ms: Spread::of(again),
        })
        .collect())
}

/// One row for each peer and case, and for each missing peer.
pub fn launch_times_table(times: &[PeerTimes], absent: &[Absent]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["nodes", "processes", "MB", "with", "first ms", "again ms"]);
    for time in times {
        table.add_row([
            time.nodes.to_string(),
            time.processes.to_string(),
            time.size_mb.to_string(),
            time.peer.clone(),
            time.first_ms.to_string(),
            time.again_ms.to_string(),
        ]);
    }
    for peer in absent {
        table.add_row(["", "", "", peer.name, "NOT MEASURED", &peer.not_measured]);
    }
    table
}
