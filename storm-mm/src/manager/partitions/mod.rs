//! The partitions: their policies, queues and slices, and their settings. Only this module changes
//! them. Its jobs are only the jobs of the policies' events.

mod error;
mod finding;
mod partition;
mod settings;
mod slice_order;
mod transitions;
mod walk;

pub use error::PartitionError;
pub(super) use partition::Partition;
pub use slice_order::NextEdge;
pub(super) use walk::Waiting;

use crate::CoreConfig;
use crate::cluster::{PartitionConfigured, PartitionSetting};
use std::collections::BTreeMap;
use std::ops::Index;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::Slices;
use storm_rm::{PartitionId, Row};
use storm_sched::SchedTime;
use walk::LastWalk;

/// All partitions.
pub(super) struct Partitions {
    /// In the order of the configuration.
    all: Vec<Partition>,
    /// The settings of partitions that were changed at run time, by name.
    settings: BTreeMap<String, PartitionSetting>,
    /// The latest known configuration of each partition, by name.
    configured: BTreeMap<String, PartitionConfigured>,
    /// Strobes since this manager started.
    strobes: u64,
    last_walk: LastWalk,
}

impl Index<PartitionId> for Partitions {
    type Output = Partition;

    fn index(&self, id: PartitionId) -> &Partition {
        &self.all[usize::from(id.0)]
    }
}

impl Partitions {
    /// The partitions as configured; `ids` are those of the nodes.
    pub(super) fn new(config: &CoreConfig, ids: &[NodeId]) -> Result<Partitions, PartitionError> {
        Ok(Partitions {
            all: Partition::make_all(config, ids)?,
            settings: BTreeMap::new(),
            configured: BTreeMap::new(),
            strobes: 0,
            last_walk: LastWalk::default(),
        })
    }

    /// The partition of this number, to be changed.
    fn get_mut(&mut self, id: PartitionId) -> &mut Partition {
        &mut self.all[usize::from(id.0)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.all.iter()
    }

    pub(super) fn count(&self) -> u16 {
        self.all.len() as u16
    }

    /// The numbers of all partitions.
    pub(super) fn ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.count()).map(PartitionId)
    }

    /// The number of the partition of this name.
    pub(super) fn id_of(&self, name: &str) -> Option<PartitionId> {
        self.ids().find(|id| self[*id].name() == name)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Partition> {
        self.iter().find(|partition| partition.name() == name)
    }

    /// The partition of jobs that name none.
    pub(super) fn default_id(&self) -> PartitionId {
        // Every configuration has or gets a default partition.
        self.ids().find(|id| self[*id].is_default()).unwrap_or(PartitionId(0))
    }

    /// A strobe for the nodes of a partition: the active row, and the rows of the next slices.
    /// Nodes among `up` that are ahead get the strobe too. `None` if no node needs a strobe.
    pub(super) fn strobe(
        &mut self,
        now: Instant,
        id: PartitionId,
        nodes: (NodeSet, &NodeSet),
        following: Vec<Row>,
    ) -> Option<(NodeSet, Slices)> {
        let strobe = self.get_mut(id).strobe(now, id, nodes, following);
        self.strobes += u64::from(strobe.is_some());
        strobe
    }

    /// A node is lost, and will have no order when it returns.
    pub(super) fn node_forgets(&mut self, node: NodeId) {
        self.all.iter_mut().for_each(|partition| partition.node_forgets(node));
    }

    /// A node is up, and may have jobs of any partition already.
    pub(super) fn node_comes(&mut self, node: NodeId) {
        let node = NodeSet::single(node);
        self.all.iter_mut().for_each(|partition| partition.job_comes_to(&node));
    }

    /// Strobes since this manager started.
    pub(super) fn strobes(&self) -> u64 {
        self.strobes
    }
}

/// The time as policies count time.
pub(super) fn sched_time(now: Instant) -> SchedTime {
    SchedTime::from_nanos(now.as_nanos())
}
