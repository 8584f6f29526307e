//! Figures 3, 4 and 5: the cost of gang scheduling for a wavefront application.

use super::FigureError;
use crate::{Application, HistogramSummary, JobRequest, Machine, RunError, profile};
use std::time::Duration;
use storm_primitives::Instant;
use storm_qsnet_sim::Load;

/// An experiment of several equal jobs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangSetup {
    /// The machine's profile.
    pub profile: String,
    /// Nodes.
    pub nodes: u32,
    /// Processes of a job on each.
    pub pes: u32,
    /// Jobs, all on the same elements: the multiprogramming level.
    pub mpl: u32,
    /// The quantum.
    pub quantum: Duration,
    /// The application of each job.
    pub application: Application,
    /// The virtual time after which the experiment is ended.
    pub limit: Duration,
    /// The seed.
    pub seed: u64,
}

/// Measurements of the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPoint {
    /// Time from the order to start the first job to the end of the last, divided by the number of
    /// jobs: the runtime of Figures 3 to 5. If the jobs were not over in time, it is a lower bound.
    pub runtime: Duration,
    /// Whether all jobs ended in time.
    pub over: bool,
    /// Strobes that nodes obeyed, each counted on each node.
    pub strobes: u64,
    /// The number of strobes that the quantum demands in this time.
    pub strobes_due: u64,
    /// From the issue of a strobe to its switch on each node.
    pub strobe_to_switch: HistogramSummary,
    /// From the first to the last node that obeyed each strobe.
    pub skew: HistogramSummary,
    /// Events of the simulation.
    pub events: u64,
}

/// Runs the jobs.
///
/// # Errors
/// [`FigureError`].
pub fn gang(setup: &GangSetup) -> Result<GangPoint, FigureError> {
    let mut config = profile::machine(&setup.profile, setup.seed, setup.nodes, Load::NONE)?;
    config.pes = setup.pes;
    config.quantum = setup.quantum;
    config.mpl = setup.mpl;
    config.checks = false;
    let machine = Machine::start(config)?;
    let request = JobRequest {
        name: "application".to_owned(),
        procs: setup.nodes.saturating_mul(setup.pes),
        binary_bytes: 0,
        application: setup.application.clone(),
        requeue: false,
        fences: 0,
        partition: None,
    };
    let (this, mpl) = (machine.clone(), setup.mpl);
    let outcome = machine.run(setup.limit, async move {
        this.joined(this.config().nodes).await;
        for _ in 0..mpl {
            this.submit(&request).await?;
        }
        this.all_ended().await;
        Ok(())
    });
    let over = match outcome {
        Ok(()) => true,
        Err(RunError::Hangs { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    let jobs = machine.jobs();
    let first = jobs.values().filter_map(|times| times.launched).min().unwrap_or(Instant::ORIGIN);
    let last = match over {
        true => jobs.values().filter_map(|times| times.over()).max().unwrap_or(first),
        false => machine.now(),
    };
    let (together, switch_ns) = (last - first, machine.switch_ns());
    let due = (together.as_nanos() / setup.quantum.as_nanos().max(1)) as u64;
    Ok(GangPoint {
        runtime: together / mpl.max(1),
        over,
        strobes: switch_ns.len(),
        strobes_due: due * u64::from(setup.nodes),
        strobe_to_switch: HistogramSummary::of(&switch_ns),
        skew: HistogramSummary::of(&machine.skew_ns()),
        events: machine.events(),
    })
}
