//! Experiments that several exhibits share. Each is carried out once.

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
/// The least number of slices in a job. The rest of its last slice is lost, and must be a small
/// part of the whole.
const LEAST_SLICES: u64 = 100;
/// The wavefront: sweeps there and back, each in blocks.
const SWEEPS: u32 = 20;
const BLOCKS: u32 = 10;
const LEAST_BLOCK_US: u64 = 1_000;
const MESSAGE_BYTES: u64 = 4096;
/// Least time of the wavefront on 64 or 128 ranks, computing and waiting, as a multiple of a
/// block's time.
const WAVEFRONT_BLOCKS: u64 = 1_000;
/// The application that only computes.
const LEAST_COMPUTE_US: u64 = 1_000_000;
/// The bulk-synchronous application: CPU time before each barrier.
const COMPUTE_US: u64 = 5_000;
const LEAST_BARRIERS: u64 = 200;
/// Virtual time in which one job alone must be over.
const ALONE_LIMIT: Duration = Duration::from_secs(3600);
/// An experiment with several jobs at once is ended when it takes this multiple of their time one
/// after the other.
pub(super) const GIVEN_UP_TIMES: u32 = 3;

/// How much is simulated, and with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Larger machines than this are left out, and the bounds on them are untested.
    pub max_nodes: u32,
    /// The seed.
    pub seed: u64,
}

/// The application of the jobs that share processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// SWEEP3D's pattern: ranks depend on their neighbours, in a pipeline through all ranks. The
    /// time grows with the number of ranks.
    Wavefront,
    /// Each rank computes, and waits for no other rank.
    Synthetic,
    /// All ranks wait for each other; the load is the same on machines of any size.
    BulkSynchronous,
}

/// Carries out experiments and remembers their results.
pub struct Laboratory<'a> {
    effort: Effort,
    watch: &'a mut dyn FnMut(&str),
    launches: BTreeMap<(u32, u64, bool, bool), LaunchPoint>,
    gangs: BTreeMap<(Pattern, u32, u32, u32, u64), GangPoint>,
}

impl<'a> Laboratory<'a> {
    /// A new laboratory. It calls `watch` before each experiment.
    pub fn new(effort: Effort, watch: &'a mut dyn FnMut(&str)) -> Laboratory<'a> {
        Laboratory { effort, watch, launches: BTreeMap::new(), gangs: BTreeMap::new() }
    }

    /// The sizes among these that are simulated.
    pub(super) fn sizes(&self, nodes: &[u32]) -> Vec<u32> {
        nodes.iter().copied().filter(|&nodes| nodes <= self.effort.max_nodes).collect()
    }

    /// A launch of a program of `binary_mib` MiB on the paper's machine.
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

    /// Runs `mpl` equal jobs at once, each with `pes` processes on each of `nodes` nodes.
    pub(super) fn gang(
        &mut self,
        pattern: Pattern,
        (nodes, pes): (u32, u32),
        mpl: u32,
        slice_us: u64,
    ) -> Result<GangPoint, FigureError> {
        let key = (pattern, nodes, pes, mpl, slice_us);
        if let Some(known) = self.gangs.get(&key) {
            return Ok(known.clone());
        }
        let limit = match mpl {
            1 => ALONE_LIMIT,
            _ => self.gang(pattern, (nodes, pes), 1, slice_us)?.runtime * mpl * GIVEN_UP_TIMES,
        };
        (self.watch)(&format!("{mpl} jobs on {nodes} nodes"));
        let point = gang(&GangSetup {
            profile: PROFILE.to_owned(),
            nodes,
            pes,
            mpl,
            quantum: Duration::from_micros(slice_us),
            application: pattern.application(slice_us),
            limit,
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
    /// A job of this kind that lasts long enough for the slice.
    fn application(self, slice_us: u64) -> Application {
        let least_us = slice_us * LEAST_SLICES;
        match self {
            Pattern::Wavefront => {
                let block_us = least_us.div_ceil(WAVEFRONT_BLOCKS).max(LEAST_BLOCK_US);
                Application::Wavefront {
                    iterations: SWEEPS,
                    blocks: BLOCKS,
                    block_time: Duration::from_micros(block_us),
                    message_bytes: MESSAGE_BYTES,
                }
            }
            Pattern::Synthetic => {
                let compute_us = least_us.max(LEAST_COMPUTE_US);
                Application::Compute { time: Duration::from_micros(compute_us) }
            }
            Pattern::BulkSynchronous => {
                let barriers = least_us.div_ceil(COMPUTE_US).max(LEAST_BARRIERS);
                let barriers = u32::try_from(barriers).unwrap_or(u32::MAX);
                Application::bulk_synchronous(barriers, Duration::from_micros(COMPUTE_US))
            }
        }
    }
}
