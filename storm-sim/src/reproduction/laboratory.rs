//! Experiments that the exhibits share: each is carried out once.

use super::paper::GANG_PES;
use crate::Application;
use crate::figures::{
    BarrierPoint, FigureError, GangPoint, GangSetup, LaunchPoint, LaunchSetup, barrier, gang,
    launch,
};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_qsnet_sim::Load;

/// The machine of all experiments.
const PROFILE: &str = "es40-qsnet";
/// The wavefront: sweeps there and back, each in blocks; on 64 ranks it runs for
/// about a second, as long as hundreds of the slices that matter.
const SWEEPS: u32 = 20;
const BLOCKS: u32 = 10;
const BLOCK_TIME: Duration = Duration::from_millis(1);
const MESSAGE_BYTES: u64 = 4096;
/// The bulk-synchronous one: barriers, and what is computed before each; it runs
/// for a second on machines of any size.
const BARRIERS: u32 = 200;
const COMPUTE: Duration = Duration::from_millis(5);

/// How much is simulated, and with which random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Larger machines than this are left out, and the bounds on them untested.
    pub max_nodes: u32,
    /// The seed.
    pub seed: u64,
}

/// What the jobs that share processors do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// SWEEP3D's: ranks depend on their neighbours, in a pipeline across all of
    /// them that takes the longer the more there are.
    Wavefront,
    /// Everybody waits for everybody: the same on machines of any size.
    BulkSynchronous,
}

/// Carries out experiments and remembers what came of them.
pub struct Laboratory<'a> {
    effort: Effort,
    watch: &'a mut dyn FnMut(&str),
    launches: BTreeMap<(u32, u64, bool, bool), LaunchPoint>,
    gangs: BTreeMap<(Pattern, u32, u32, u64), GangPoint>,
}

impl<'a> Laboratory<'a> {
    /// A new one; `watch` is told of each experiment before it begins.
    pub fn new(effort: Effort, watch: &'a mut dyn FnMut(&str)) -> Laboratory<'a> {
        Laboratory { effort, watch, launches: BTreeMap::new(), gangs: BTreeMap::new() }
    }

    /// Those of these sizes that are simulated.
    pub(super) fn sizes(&self, nodes: &[u32]) -> Vec<u32> {
        nodes.iter().copied().filter(|&nodes| nodes <= self.effort.max_nodes).collect()
    }

    /// A launch of a program of so many MiB on the paper's machine.
    pub(super) fn launch(
        &mut self,
        nodes: u32,
        binary_mib: u64,
        load: Load,
    ) -> Result<LaunchPoint, FigureError> {
        let key = (nodes, binary_mib, load.cpu, load.network);
        if let Some(known) = self.launches.get(&key) {
            return Ok(known.clone());
        }
        (self.watch)(&format!("launch on {nodes} nodes"));
        let setup = LaunchSetup {
            binary_mib,
            load,
            seed: self.effort.seed,
            ..LaunchSetup::of_paper(nodes)
        };
        let point = launch(&setup)?;
        self.launches.insert(key, point.clone());
        Ok(point)
    }

    /// So many equal jobs at once.
    pub(super) fn gang(
        &mut self,
        pattern: Pattern,
        nodes: u32,
        mpl: u32,
        slice_us: u64,
    ) -> Result<GangPoint, FigureError> {
        let key = (pattern, nodes, mpl, slice_us);
        if let Some(known) = self.gangs.get(&key) {
            return Ok(known.clone());
        }
        (self.watch)(&format!("{mpl} jobs on {nodes} nodes"));
        let point = gang(&GangSetup {
            profile: PROFILE.to_owned(),
            nodes,
            pes: GANG_PES,
            mpl,
            quantum: Duration::from_micros(slice_us),
            application: pattern.application(),
            seed: self.effort.seed,
        })?;
        self.gangs.insert(key, point.clone());
        Ok(point)
    }

    /// The latency of a barrier.
    pub(super) fn barrier(&mut self, nodes: u32) -> Result<BarrierPoint, FigureError> {
        (self.watch)(&format!("barrier on {nodes} nodes"));
        barrier(PROFILE, nodes, self.effort.seed)
    }
}

impl Pattern {
    fn application(self) -> Application {
        match self {
            Pattern::Wavefront => Application::Wavefront {
                iterations: SWEEPS,
                blocks: BLOCKS,
                block_time: BLOCK_TIME,
                message_bytes: MESSAGE_BYTES,
            },
            Pattern::BulkSynchronous => {
                Application::BulkSynchronous { iterations: BARRIERS, compute: COMPUTE }
            }
        }
    }
}
