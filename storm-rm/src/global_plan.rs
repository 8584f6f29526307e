//! The plan of global memory that the daemons share: every queue, flag and
//! buffer, at the same address on every node.

use crate::remote_queue::QueuePlan;
use crate::{Channel, JobSlot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use storm_primitives::{Layout, MAX_NODES, NodeId, Var, VarArray};
use storm_slices::{BcsConfig, RANK_COLLECTIVE_BYTES};

/// Sizes of the plan. Daemons with different sizes would have different layouts. The Machine
/// Manager's sizes hold, and a node that joins with other sizes receives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanConfig {
    /// Most compute nodes of the cluster; each has a queue to the Machine Manager.
    pub max_nodes: u32,
    /// Most jobs that can be on the machine at once.
    pub job_slots: u32,
    /// Heartbeats that may be under way.
    pub heartbeat_slots: u32,
    /// Largest heartbeat: a job's arguments and environment must fit.
    pub heartbeat_bytes: u32,
    /// Items that may be under way from one node.
    pub report_slots: u32,
    /// Largest item from a node. A longer report is sent in parts.
    pub report_bytes: u32,
    /// Files that can be transferred at once.
    pub channels: u32,
    /// Chunks of a file under way. The paper has 2 (double buffering) on a network whose
    /// conditionals overtake data; a tree needs more.
    pub chunk_slots: u32,
    /// Bytes per chunk; 512 KiB in the paper.
    pub chunk_bytes: u32,
    /// Bounds the pause between two questions while a file is written or a job starts. The pause is
    /// at most this part of the wait so far, if the part exceeds a millisecond. `None` where
    /// questions cost nodes no working time, as on the paper's machine.
    pub part_of_wait: Option<u32>,
    /// The capacity of a slice of buffered coscheduling.
    pub bcs: BcsConfig,
}

/// Default bytes that each link carries in a slice of buffered coscheduling: 10 Gbit/s for 200 us.
pub const SLICE_LINK_BYTES: u32 = 256 << 10;

/// Collectives that a node may have under way at once, each of another job.
const SLICE_COLLECTIVES: u32 = 8;
impl Default for PlanConfig {
    fn default() -> PlanConfig {
        PlanConfig {
            max_nodes: 1024,
            job_slots: 4096,
            heartbeat_slots: 16,
            heartbeat_bytes: 256 * 1024,
            report_slots: 8,
            report_bytes: 16 * 1024,
            channels: 2,
            chunk_slots: 8,
            chunk_bytes: 128 * 1024,
            part_of_wait: None,
            bcs: BcsConfig {
                link_bytes: u64::from(SLICE_LINK_BYTES),
                collective_slots: SLICE_COLLECTIVES,
                collective_bytes: RANK_COLLECTIVE_BYTES,
                ..BcsConfig::default()
            },
        }
    }
}

impl PlanConfig {
    /// The most bytes of a plan whose sizes another daemon sent: far more than any configuration
    /// makes.
    const MAX_BYTES: u128 = 1 << 44;

    /// The sizes, encoded for another daemon.
    pub fn encode(&self) -> Vec<u8> {
        // Numbers alone can be encoded.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Decodes another daemon's sizes; `None` if no plan of these sizes can be made.
    pub fn decode(bytes: &[u8]) -> Option<PlanConfig> {
        let config: PlanConfig = postcard::from_bytes(bytes).ok()?;
        let queue = |slots: u32, bytes: u32| u128::from(slots) * (u128::from(bytes) + 64);
        let words = (u128::from(config.job_slots) * 2 + u128::from(config.channels)) * 8;
        let heartbeats = queue(config.heartbeat_slots, config.heartbeat_bytes);
        let reports = queue(config.report_slots, config.report_bytes);
        let chunks = queue(config.chunk_slots, config.chunk_bytes);
        let bcs = u128::from(config.bcs.descriptor_bytes) * 4;
        let links = u128::from(config.bcs.link_bytes) * 4;
        let collectives = u128::from(config.bcs.collective_slots)
            .checked_mul(u128::from(config.bcs.collective_bytes))?;
        let nodes = u128::from(config.max_nodes);
        let all = nodes.checked_mul(reports.checked_add(bcs)?)?;
        let all = [heartbeats, words, links, collectives.checked_mul(16)?, chunks]
            .into_iter()
            .try_fold(all, u128::checked_add)?;
        let counts = config.max_nodes <= MAX_NODES && config.channels <= MAX_CHANNELS;
        (counts && all <= PlanConfig::MAX_BYTES).then_some(config)
    }
}

/// The most channels of a plan whose sizes another daemon sent.
const MAX_CHANNELS: u32 = 1 << 10;

/// The addresses of all variables and queues.
#[derive(Clone, Debug)]
pub struct GlobalPlan {
    /// The sizes it was made with.
    pub config: PlanConfig,
    /// The layout for the backend.
    pub layout: Layout,
    /// Machine Manager to nodes (Algorithms 4 and 5).
    pub heartbeats: QueuePlan,
    /// Highest heartbeat number that the node has handled.
    pub heartbeat_seen: Var<u64>,
    /// Per job slot, set by a node when all its ranks run: the incarnation.
    pub started: VarArray<u64>,
    /// Per job slot, set by a node when all its ranks ended: the incarnation
    /// (Algorithms 8 and 9).
    pub terminated: VarArray<u64>,
    /// The variables of buffered coscheduling: by default 8 KiB for each possible node, and the
    /// bytes that a link carries in a slice. If no partition is coscheduled, none of this memory is
    /// ever touched.
    pub bcs: storm_slices::Plan,
    chunks: Vec<QueuePlan>,
    file_states: VarArray<u64>,
    /// Shared: a simulated machine has a plan for each of thousands of nodes.
    reports: Arc<[QueuePlan]>,
}

impl GlobalPlan {
    /// Lays out global memory.
    pub fn new(config: PlanConfig) -> GlobalPlan {
        let mut builder = Layout::builder();
        let heartbeats = QueuePlan::declare(
            &mut builder,
            "heartbeat",
            config.heartbeat_slots,
            config.heartbeat_bytes,
        );
        let heartbeat_seen = builder.var("heartbeat.seen");
        let started = builder.vars("started", config.job_slots);
        let terminated = builder.vars("terminated", config.job_slots);
        let file_states = builder.vars("file.state", config.channels);
        let chunks = (0..config.channels)
            .map(|channel| {
                let name = format!("chunk.{channel}");
                QueuePlan::declare(&mut builder, &name, config.chunk_slots, config.chunk_bytes)
            })
            .collect();
        let reports = (0..config.max_nodes)
            .map(|node| {
                let name = format!("report.{}", node + 1);
                QueuePlan::declare(&mut builder, &name, config.report_slots, config.report_bytes)
            })
            .collect();
        let bcs = storm_slices::Plan::new(&mut builder, config.max_nodes, config.bcs);
        let layout = builder.build();
        GlobalPlan {
            config,
            layout,
            heartbeats,
            heartbeat_seen,
            started,
            terminated,
            bcs,
            chunks,
            file_states,
            reports,
        }
    }

    /// The chunk queue of a channel (Algorithms 6 and 7), if there is one.
    pub fn chunks(&self, channel: Channel) -> Option<&QueuePlan> {
        self.chunks.get(channel.0 as usize)
    }

    /// How far a node is with the file of a channel, if there is one.
    pub fn file_state(&self, channel: Channel) -> Option<Var<u64>> {
        (channel.0 < self.file_states.len()).then(|| self.file_states.get(channel.0))
    }

    /// The queue from a compute node to the Machine Manager, if it may exist.
    pub fn reports(&self, node: NodeId) -> Option<&QueuePlan> {
        self.reports.get(node.index().checked_sub(1)?)
    }

    /// The flag of a job slot, if there is one.
    pub fn terminated(&self, slot: JobSlot) -> Option<Var<u64>> {
        (slot.0 < self.terminated.len()).then(|| self.terminated.get(slot.0))
    }

    /// The flag of a job slot, if there is one.
    pub fn started(&self, slot: JobSlot) -> Option<Var<u64>> {
        (slot.0 < self.started.len()).then(|| self.started.get(slot.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_travel_make_the_same_plan() {
        let config = PlanConfig { max_nodes: 3000, job_slots: 77, ..PlanConfig::default() };
        let told = PlanConfig::decode(&config.encode()).expect("it can be made");
        assert_eq!(told, config);
        let hash = |config: PlanConfig| GlobalPlan::new(config).layout.hash();
        assert_eq!(hash(told), hash(config));
    }

    #[test]
    fn sizes_that_no_plan_can_have_are_not_taken() {
        let huge = |change: fn(&mut PlanConfig)| {
            let mut config = PlanConfig::default();
            change(&mut config);
            PlanConfig::decode(&config.encode())
        };
        assert_eq!(huge(|config| config.max_nodes = u32::MAX), None);
        assert_eq!(huge(|config| config.channels = u32::MAX), None);
        assert_eq!(huge(|config| config.bcs.descriptor_bytes = u64::MAX), None);
        assert_eq!(huge(|config| config.bcs.collective_bytes = u64::MAX), None);
        assert_eq!(
            huge(|config| (config.report_slots, config.report_bytes) = (1 << 31, 1 << 31)),
            None
        );
        assert_eq!(PlanConfig::decode(b"nonsense"), None);
    }
}
