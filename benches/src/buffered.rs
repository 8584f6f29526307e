//! Buffered coscheduling compared with direct message passing, on a simulated machine in its
//! virtual time.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::modelled::{
    DirectMachine, Exchange, Machine, ModelledRank, Peer, Place, Stencil, ping_pong,
};
use storm_bcs::{BcsConfig, BcsError, JobKey};
use storm_primitives::sim::{Fabric, SimRuntime, Simulation};
use storm_primitives::{Instant, NodeId, Runtime};
use storm_qsnet_sim::Profile;

/// How often to check whether all ranks have ended.
const LOOK: Duration = Duration::from_micros(50);
/// The longest message that direct mode is asked for.
const LONGEST_BYTES: u64 = 16 << 20;

/// The machine that everything runs on.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The simulated machine: a built-in profile.
    pub profile: String,
    /// Settings of buffered coscheduling.
    pub config: BcsConfig,
    /// The seed of all random choices.
    pub seed: u64,
}

/// One-way times of blocking messages between two nodes.
#[derive(Clone, Debug, Serialize)]
pub struct PingPong {
    /// Length of a message.
    pub bytes: usize,
    /// The time from posting until the receiver continues, in slices, if ranks send at any time.
    pub mean_slices: f64,
    /// The shortest.
    pub least_slices: f64,
    /// The longest.
    pub most_slices: f64,
    /// The mean if ranks answer at once, so that they post when a slice begins.
    pub at_once_slices: f64,
    /// The mean of direct mode.
    pub direct_us: f64,
}

/// A stencil, buffered and directly.
#[derive(Clone, Debug, Serialize)]
pub struct StencilTimes {
    /// Compute nodes, a rank on each.
    pub nodes: u32,
    /// Whether exchanges block.
    pub blocking: bool,
    /// Computation per step.
    pub granularity_us: u64,
    /// Per step, buffered.
    pub buffered_us: f64,
    /// Per step, directly.
    pub direct_us: f64,
    /// By how many percent buffered coscheduling takes longer.
    pub slowdown_percent: f64,
}

/// Two jobs on the same processing elements.
#[derive(Clone, Debug, Serialize)]
pub struct TwoJobs {
    /// Compute nodes, a rank of each job on each.
    pub nodes: u32,
    /// Computation per step; every step exchanges with four neighbours, one after the other.
    pub granularity_us: u64,
    /// One job alone.
    pub one_ms: f64,
    /// The time of both at once.
    pub both_ms: f64,
    /// The time of both jobs at once, divided by their time one after the other.
    pub ratio: f64,
}

impl Setting {
    /// Blocking messages of `bytes` there and back.
    ///
    /// # Errors
    /// Like [`Setting::slice_of`].
    pub fn ping_pong(&self, bytes: usize, rounds: u32) -> Result<PingPong> {
        let slice_s = self.config.slice.as_secs_f64();
        let any_time = self.buffered_ping_pong(bytes, rounds, self.config.slice)?;
        let at_once = self.buffered_ping_pong(bytes, rounds, Duration::ZERO)?;
        let direct = self.direct_ping_pong(bytes, rounds)?;
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        Ok(PingPong {
            bytes,
            mean_slices: mean(&any_time) / slice_s,
            least_slices: any_time.iter().copied().fold(f64::INFINITY, f64::min) / slice_s,
            most_slices: any_time.iter().copied().fold(0.0, f64::max) / slice_s,
            at_once_slices: mean(&at_once) / slice_s,
            direct_us: mean(&direct) * 1e6,
        })
    }

    /// A stencil on `columns` times `rows` nodes.
    ///
    /// # Errors
    /// Like [`Setting::slice_of`].
    pub fn stencil(&self, stencil: Stencil) -> Result<StencilTimes> {
        let nodes = stencil.columns * stencil.rows;
        let places = one_per_node(nodes);
        let simulation = self.simulation();
        let machine = Machine::new(&simulation, nodes, self.fabric(nodes)?, self.config);
        let _strobing = machine.strobe();
        let ranks = machine.launch(JobKey(1), &places);
        let buffered = all_steps(&simulation, ranks, stencil)?;
        let simulation = self.simulation();
        let fabric = self.fabric(nodes)?;
        let direct = DirectMachine::new(&simulation, nodes, fabric, &places, LONGEST_BYTES);
        let direct = all_steps(&simulation, direct.ranks(), stencil)?;
        let per_step = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(stencil.steps);
        Ok(StencilTimes {
            nodes,
            blocking: stencil.exchange == Exchange::Blocking,
            granularity_us: stencil.granularity.as_micros() as u64,
            buffered_us: per_step(buffered),
            direct_us: per_step(direct),
            slowdown_percent: 100.0 * (buffered.as_secs_f64() / direct.as_secs_f64() - 1.0),
        })
    }

    /// One job of this stencil, and two of them on the same processing elements.
    ///
    /// # Errors
    /// Like [`Setting::slice_of`].
    pub fn two_jobs(&self, stencil: Stencil) -> Result<TwoJobs> {
        let one = self.jobs(stencil, 1)?.as_secs_f64() * 1e3;
        let both = self.jobs(stencil, 2)?.as_secs_f64() * 1e3;
        Ok(TwoJobs {
            nodes: stencil.columns * stencil.rows,
            granularity_us: stencil.granularity.as_micros() as u64,
            one_ms: one,
            both_ms: both,
            ratio: both / (2.0 * one),
        })
    }

    fn jobs(&self, stencil: Stencil, jobs: u64) -> Result<Duration> {
        let nodes = stencil.columns * stencil.rows;
        let simulation = self.simulation();
        let machine = Machine::new(&simulation, nodes, self.fabric(nodes)?, self.config);
        let _strobing = machine.strobe();
        let mut ranks = Vec::new();
        for job in 0..jobs {
            ranks.extend(machine.launch(JobKey(job), &one_per_node(nodes)));
        }
        all_steps(&simulation, ranks, stencil)
    }

    fn buffered_ping_pong(&self, bytes: usize, rounds: u32, think: Duration) -> Result<Vec<f64>> {
        let simulation = self.simulation();
        let machine = Machine::new(&simulation, 2, self.fabric(2)?, self.config);
        let _strobing = machine.strobe();
        let ranks = machine.launch(JobKey(1), &one_per_node(2));
        to_and_fro(&simulation, ranks, bytes, rounds, think)
    }

    fn direct_ping_pong(&self, bytes: usize, rounds: u32) -> Result<Vec<f64>> {
        let simulation = self.simulation();
        let fabric = self.fabric(2)?;
        let places = one_per_node(2);
        let machine = DirectMachine::new(&simulation, 2, fabric, &places, LONGEST_BYTES);
        to_and_fro(&simulation, machine.ranks(), bytes, rounds, Duration::ZERO)
    }

    pub(crate) fn simulation(&self) -> Simulation {
        let simulation = Simulation::new(self.seed);
        simulation.trace().silence(true);
        simulation
    }

    pub(crate) fn fabric(&self, nodes: u32) -> Result<Rc<dyn Fabric>> {
        let profile = Profile::builtin(&self.profile)?;
        Ok(storm_qsnet_sim::Machine::new(profile, nodes)?.fabric()?)
    }
}

/// A rank that can be run on its node.
trait Runs: Peer + Sized + 'static {
    fn go<F: Future<Output = ()> + 'static>(self, program: impl FnOnce(Self) -> F);
}

impl Runs for ModelledRank {
    fn go<F: Future<Output = ()> + 'static>(self, program: impl FnOnce(Self) -> F) {
        self.run(program);
    }
}

impl Runs for storm_bcs::modelled::DirectRank {
    fn go<F: Future<Output = ()> + 'static>(self, program: impl FnOnce(Self) -> F) {
        self.run(program);
    }
}

/// The first error of any rank, and how many have ended.
#[derive(Clone, Default)]
struct Ended {
    ranks: Rc<Cell<usize>>,
    failed: Rc<RefCell<Option<BcsError>>>,
}

impl Ended {
    fn note(&self, outcome: Result<(), BcsError>) {
        self.ranks.set(self.ranks.get() + 1);
        if let Err(error) = outcome {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Waits for `ranks` ranks.
    async fn all(self, runtime: SimRuntime, ranks: usize) -> Result<(), BcsError> {
        while self.ranks.get() < ranks {
            runtime.sleep(LOOK).await;
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// The time of all ranks of stencils.
fn all_steps<R: Runs>(
    simulation: &Simulation,
    ranks: Vec<R>,
    stencil: Stencil,
) -> Result<Duration> {
    let (ended, count) = (Ended::default(), ranks.len());
    let last = Rc::new(Cell::new(Instant::ORIGIN));
    for rank in ranks {
        let (ended, last) = (ended.clone(), last.clone());
        rank.go(|rank| async move {
            let outcome = stencil.run(&rank).await;
            last.set(rank.now());
            ended.note(outcome);
        });
    }
    simulation.run(ended.all(simulation.runtime(), count))??;
    Ok(last.get().since_origin())
}

/// One-way times in seconds.
fn to_and_fro<R: Runs>(
    simulation: &Simulation,
    ranks: Vec<R>,
    bytes: usize,
    rounds: u32,
    think: Duration,
) -> Result<Vec<f64>> {
    ensure!(rounds > 0, "no rounds to measure");
    let ended = Ended::default();
    let sent = Rc::new(Cell::new(Instant::ORIGIN));
    let times = Rc::new(RefCell::new(Vec::new()));
    for rank in ranks {
        let (ended, world) = (ended.clone(), simulation.clone());
        let (departed, sent, times) = (sent.clone(), sent.clone(), times.clone());
        rank.go(move |rank| async move {
            let think_ns = think.as_nanos() as u64;
            let random = || Duration::from_nanos(world.random_below(think_ns + 1));
            let depart = |now| departed.set(now);
            let arrive = |now: Instant| times.borrow_mut().push((now - sent.get()).as_secs_f64());
            ended.note(ping_pong(&rank, rounds, bytes, random, depart, arrive).await);
        });
    }
    simulation.run(ended.all(simulation.runtime(), 2))??;
    let times = times.take();
    // The first message begins before the first slice.
    times.get(1..).map(<[f64]>::to_vec).context("no message arrived")
}

pub(crate) fn one_per_node(nodes: u32) -> Vec<Place> {
    (1..=nodes).map(|node| Place { node: NodeId(node), pe: 0 }).collect()
}
