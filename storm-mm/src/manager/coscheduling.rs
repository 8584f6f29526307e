//! Partitions whose jobs communicate in slices ([decision
//! 0093](../../../docs/decisions/0093-ranks-under-buffered-coscheduling.md)). All nodes of a
//! partition begin each slice together. The methods find these nodes, let the slices stand while a
//! Node Manager is replaced ([decision
//! 0153](../../../docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md)), and end
//! the jobs when there can be no more slices.

use super::live::LivePlace;
use super::{Core, Durable};
use crate::job::{EndCause, JobRecord, Phase};
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, HeldJob};
use storm_rm::{JobId, JobIncarnation, PartitionId};

/// The reason for ending a job whose state was handed over under another manager.
const FORMER_MANAGER: &str = "its messages moved in slices of the Machine Manager, which is gone";

impl Core {
    /// Whether the jobs of a partition communicate in slices.
    pub fn is_coscheduled(&self, partition: PartitionId) -> bool {
        self.partitions[partition].policy().communication_slice().is_some()
    }

    /// The nodes that have ranks of a coscheduled partition and whose slices do not stand, and the
    /// length of the slices; `None` while no job could communicate.
    pub fn coscheduled(&self, partition: PartitionId) -> Option<(NodeSet, Duration)> {
        let slice = self.partitions[partition].policy().communication_slice()?;
        let launched = self.live.of(partition).filter(|(_, live)| live.is_launched());
        // Nodes whose part of a job is over take part too: others may wait for their messages of
        // the job.
        let nodes = launched.fold(NodeSet::new(), |nodes, (_, live)| nodes.union(live.nodes()));
        let nodes = self.up(&nodes).difference(&self.standing(partition));
        (!nodes.is_empty()).then_some((nodes, slice))
    }

    /// The nodes on which no slice may begin: those of jobs that stand, and those of jobs that
    /// share a node with such a job. All nodes of a job take part in a slice, or none does. A job
    /// that ends lets no slices stand.
    fn standing(&self, partition: PartitionId) -> NodeSet {
        let of = || self.live.of(partition).filter(|(_, live)| live.is_on_nodes());
        let stands = |(job, live): &(JobId, &LivePlace)| {
            let phase = self.jobs.get(job).map(|record| &record.phase);
            live.stands(&self.leaving) && matches!(phase, Some(Phase::Starting | Phase::Running))
        };
        let first = of().filter(stands);
        let mut nodes = first.fold(NodeSet::new(), |nodes, (_, live)| nodes.union(live.nodes()));
        loop {
            let touched = of().filter(|(_, live)| !live.nodes().intersection(&nodes).is_empty());
            let more = touched.fold(nodes.clone(), |nodes, (_, live)| nodes.union(live.nodes()));
            if more == nodes {
                return nodes;
            }
            nodes = more;
        }
    }

    /// The Node Manager of a node was asked to end. The next time that no slice of the partition is
    /// under way, the node is told to hand over.
    pub(super) fn node_leaves(&mut self, node: NodeId) {
        let mut partitions = self.partitions.ids();
        let partition = partitions.find(|id| self.partitions[*id].index_of(node).is_some());
        self.leaving.insert(node);
        if let Some(partition) = partition.filter(|id| !self.is_coscheduled(*id)) {
            self.slices_stand(partition);
        }
    }

    /// Whether a node waits until the slices of its jobs in the partition stand.
    pub fn awaits_standing(&self, partition: PartitionId) -> bool {
        self.leaving.iter().any(|node| self.partitions[partition].index_of(node).is_some())
    }

    /// No slice of the partition is under way: the nodes that leave are told to hand over the jobs
    /// that communicate in slices. No slice begins on the nodes of these jobs before all of their
    /// nodes are back.
    pub fn slices_stand(&mut self, partition: PartitionId) {
        let here = |node: &NodeId| self.partitions[partition].index_of(*node).is_some();
        let leaving: Vec<NodeId> = self.leaving.iter().filter(here).collect();
        for node in leaving {
            self.leaving.remove(node);
            let has_part = |live: &LivePlace| live.is_in_slices() && live.has_part_on(node);
            let jobs = self.live.of(partition).filter(|(_, live)| has_part(live));
            let runs = jobs.map(|(job, live)| HeldJob {
                step: self.first_step(job),
                incarnation: live.incarnation(),
            });
            let runs: Vec<HeldJob> = runs.collect();
            for job in runs.iter().map(|held| held.step.job) {
                self.live.hand_over_slices(job, node);
            }
            tracing::info!(node = %self.node_name(node), runs = runs.len(), "its slices stand");
            let answer = Command::HandOver { runs };
            self.effects.durable.push(Durable::Command(NodeSet::single(node), answer));
        }
    }

    /// A Node Manager continues the slices of a job with the state of the former one. Under another
    /// manager, other Node Managers of the job may have nothing of it any more.
    pub(super) fn slices_back(
        &mut self,
        now: Instant,
        node: NodeId,
        job: JobId,
        run: JobIncarnation,
    ) {
        if self.live.slices_are_back((job, run), node) == Some(false) {
            let reason = FORMER_MANAGER.to_owned();
            self.end_job(now, job, EndCause::Unserviceable { reason });
        }
    }

    /// How the ranks of a job communicate, in words, where its partition is coscheduled. Only a
    /// job's nodes know which library its program is linked with.
    pub(super) fn communication_of(&self, record: &JobRecord) -> Option<String> {
        let partition = self.partitions.named(&record.partition)?;
        let slice_us = partition.policy().communication_slice()?.as_micros();
        Some(format!(
            "in slices of {slice_us} us if it is linked with storm-mpi; else (MPICH, Open MPI) by \
             itself at any time, and its row keeps the processors while it waits"
        ))
    }

    /// A slice has ended with nothing on the way: the nodes' memories hold the whole state of the
    /// partition's jobs.
    pub fn slice_ended(&mut self, partition: PartitionId, slice: u64) {
        self.partitions.set_checkpoint(partition, slice);
    }

    /// There can be no more slices: the jobs that communicate in them end.
    pub fn coscheduling_failed(&mut self, now: Instant, partition: PartitionId, reason: &str) {
        let launched = self.live.of(partition).filter(|(_, live)| live.is_launched());
        let jobs: Vec<JobId> = launched.map(|(job, _)| job).collect();
        for job in jobs {
            let reason = format!("buffered coscheduling has stopped: {reason}");
            self.end_job(now, job, EndCause::Unserviceable { reason });
        }
    }
}
