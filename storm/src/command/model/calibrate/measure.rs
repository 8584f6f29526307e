//! The measurements: the clusters, their order, and the programs on them.

use super::do_nothing::DoNothing;
use super::{Measured, strobe_log};
use crate::attach::Interrupts;
use crate::cli::{CalibrateOptions, JobOptions};
use crate::command::on_cluster::{on_cluster, run_well};
use crate::command::progress::Steps;
use crate::failure::Failure;
use crate::local_cluster::LocalClusterShape;
use crate::outcome::Outcome;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use storm_model::Mib;
use storm_model::calibrate::{LaunchSample, StrobeSample};

/// Time slice of the clusters for launches: the usual length.
const LAUNCH_QUANTUM: Duration = Duration::from_millis(50);
/// Time slice of the clusters for strobes: short, to have many of them.
const STROBE_QUANTUM: Duration = Duration::from_millis(5);
/// Length of the two alternating jobs, for `sleep`.
const STROBE_SECONDS: &str = "1";
const SCHED: &str = "gang";

/// Measures all shapes in turn, `runs` times, and then the strobes.
pub(super) async fn all(
    options: &CalibrateOptions,
    node_counts: &BTreeSet<u32>,
    silent: bool,
) -> Result<Measured, Failure> {
    let directory = tempfile::tempdir().map_err(|error| Failure::of("file", &error))?;
    let mut programs = DoNothing::new(directory.path(), options.program.as_deref())?;
    let mut interrupts = Interrupts::listen()?;
    let mut measured = Measured::default();
    let launches = options.runs as usize * options.sizes.len() * node_counts.len();
    let steps = Steps::new(silent, launches + node_counts.len());
    for _ in 0..options.runs {
        for &size_bytes in &options.sizes {
            for &nodes in node_counts {
                steps.next(&format!("launching on {nodes} nodes"));
                let shape = shape(options, nodes, options.pes, LAUNCH_QUANTUM);
                let program = programs.make(size_bytes)?;
                let launched = on_cluster(&shape, size_bytes, &mut interrupts, async |socket| {
                    twice(socket, &shape, &program, silent).await
                });
                measured.add(&shape, &launched.await?);
                // The program is not needed again, and its file takes room.
                let _ = std::fs::remove_file(&program);
            }
        }
    }
    for &nodes in node_counts {
        steps.next(&format!("strobes on {nodes} nodes"));
        measured.strobes.extend(strobe(options, nodes, &mut interrupts, silent).await?);
    }
    Ok(measured)
}

fn shape(options: &CalibrateOptions, nodes: u32, pes: u32, quantum: Duration) -> LocalClusterShape {
    let (sched, backend) = (vec![SCHED.to_owned()], options.backend);
    LocalClusterShape { nodes, pes, sched, quantum, params: Vec::new(), switch_log: None, backend }
}

/// Launches a program that no node has, and again when all nodes have it.
async fn twice(
    socket: &Path,
    shape: &LocalClusterShape,
    program: &Path,
    silent: bool,
) -> Result<[Outcome; 2], Failure> {
    let procs = shape.nodes * shape.pes;
    let job = JobOptions {
        procs: Some(procs),
        program: vec![program.as_os_str().to_owned()],
        ..JobOptions::default()
    };
    Ok([run_well(socket, &job, silent).await?, run_well(socket, &job, silent).await?])
}

/// Runs two jobs that alternate on all nodes, and measures the strobes between them.
async fn strobe(
    options: &CalibrateOptions,
    nodes: u32,
    interrupts: &mut Interrupts,
    silent: bool,
) -> Result<Option<StrobeSample>, Failure> {
    let unreadable = |error| Failure::of("calibration", &error);
    let log = tempfile::tempdir().map_err(unreadable)?;
    let switch_log = Some(log.path().to_owned());
    let shape = LocalClusterShape { switch_log, ..shape(options, nodes, 1, STROBE_QUANTUM) };
    let job = JobOptions {
        procs: Some(nodes),
        no_bcast: true,
        program: vec!["sleep".into(), STROBE_SECONDS.into()],
        ..JobOptions::default()
    };
    let done = on_cluster(&shape, 0, interrupts, async |socket| {
        tokio::try_join!(run_well(socket, &job, silent), run_well(socket, &job, silent))
    })
    .await;
    done.and(strobe_log::read(log.path(), nodes).map_err(unreadable))
}

impl Measured {
    /// Adds the launches of a cluster.
    fn add(&mut self, shape: &LocalClusterShape, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let Some(parts) = outcome.breakdown else {
                self.without_parts += 1;
                continue;
            };
            self.launches.push(LaunchSample {
                nodes: shape.nodes,
                processes: shape.nodes * shape.pes,
                sent: Mib::from_bytes(parts.sent_bytes),
                read_ms: parts.read_ms,
                write_ms: parts.write_ms,
                exec_ms: parts.exec_ms,
                slice_ms: parts.wait_for_slice_ms,
                total_ms: parts.total_ms,
            });
        }
    }
}
