//! Figures 2 and 8: the time to launch a do-nothing program.

use super::FigureError;
use crate::{Application, JobRequest, Machine, profile};
use std::time::Duration;
use storm_primitives::Runtime;
use storm_qsnet_sim::Load;

/// Virtual time in which a launch must be over, however loaded the machine is.
const LIMIT: Duration = Duration::from_secs(120);
/// The heartbeats of the launch experiments (section 4.2.1).
const TIMESLICE: Duration = Duration::from_millis(1);
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// A launch to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchSetup {
    /// The machine's profile.
    pub profile: String,
    /// Nodes.
    pub nodes: u32,
    /// Processes on each.
    pub pes: u32,
    /// MiB of the program.
    pub binary_mib: u64,
    /// The load on the machine.
    pub load: Load,
    /// The manager acts only at multiples of this time.
    pub act_every: Duration,
    /// The seed.
    pub seed: u64,
}

impl LaunchSetup {
    /// 12 MiB on `nodes` nodes of the paper's cluster, as in section 4.2.1: four processes on each,
    /// a timeslice of 1 ms, no load.
    pub fn of_paper(nodes: u32) -> LaunchSetup {
        LaunchSetup {
            profile: "es40-qsnet".to_owned(),
            nodes,
            pes: 4,
            binary_mib: 12,
            load: Load::NONE,
            act_every: TIMESLICE,
            seed: 1,
        }
    }
}

/// Times of a launch, and the cost of its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchPoint {
    /// From the submission to the order to start: reading, broadcasting, writing, and the report to
    /// the manager.
    pub send: Duration,
    /// From the order to start until the manager knows the end.
    pub exec: Duration,
    /// The sum of `send` and `exec`.
    pub total: Duration,
    /// Events of the simulation.
    pub events: u64,
}

/// Launches a do-nothing program on a fresh machine.
///
/// # Errors
/// [`FigureError`].
pub fn launch(setup: &LaunchSetup) -> Result<LaunchPoint, FigureError> {
    let mut config = profile::machine(&setup.profile, setup.seed, setup.nodes, setup.load)?;
    config.pes = setup.pes;
    config.act_every = Some(setup.act_every);
    config.checks = false;
    let machine = Machine::start(config)?;
    let request = JobRequest {
        name: "do-nothing".to_owned(),
        procs: setup.nodes.saturating_mul(setup.pes),
        binary_bytes: setup.binary_mib * MIB,
        application: Application::Compute { time: Duration::ZERO },
        requeue: false,
        fences: 0,
        partition: None,
    };
    let this = machine.clone();
    let act_every = setup.act_every;
    let times = machine.run(LIMIT, async move {
        this.joined(this.config().nodes).await;
        // The job arrives at a random time of a timeslice.
        let phase = this.random_below(act_every.as_nanos() as u64 + 1);
        this.runtime().sleep(Duration::from_nanos(phase)).await;
        let job = this.submit(&request).await?;
        Ok(this.over_first(job).await)
    })?;
    let incomplete = || FigureError::NeverLaunched(times.reason.clone().unwrap_or_default());
    let launched = times.launched.ok_or_else(incomplete)?;
    let over = times.over().ok_or_else(incomplete)?;
    Ok(LaunchPoint {
        send: launched - times.submitted,
        exec: over - launched,
        total: over - times.submitted,
        events: machine.events(),
    })
}
