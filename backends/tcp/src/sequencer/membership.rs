//! The members of the cluster: joins, deaths, and their effects on operations under way.

use super::queue::Progress;
use super::{Output, Sequencer};
use crate::wire::{Join, Member, Operation, PROTOCOL_VERSION, Refusal, Seq, StageId, View};
use std::collections::BTreeMap;
use storm_primitives::{Epoch, Incarnation, NodeId, NodeSet, PrimitiveError};

/// A node that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its id.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl Sequencer {
    /// Lets a node in. `cluster` is the name of this cluster.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn join(&mut self, join: &Join, cluster: &str) -> Result<Joined, Refusal> {
        if join.version != PROTOCOL_VERSION {
            return Err(Refusal::Version { root: PROTOCOL_VERSION, node: join.version });
        }
        if join.cluster != cluster {
            let (root, node) = (cluster.to_owned(), join.cluster.clone());
            return Err(Refusal::Cluster { root, node });
        }
        if join.layout != self.layout.hash() {
            // The root's driver knows the source of the layout, and adds it.
            let (root, plan) = (self.layout.hash(), Vec::new());
            return Err(Refusal::Layout { root, node: join.layout, plan });
        }
        let node = self.names.resolve(&join.name)?;
        if self.alive.contains(node) {
            return Err(Refusal::NameInUse { name: join.name.clone(), node });
        }
        let incarnation = Incarnation(self.lives.get(&node).map_or(1, |last| last.0 + 1));
        if self.host.is_none() || join.host != self.host {
            self.elsewhere.insert(node);
        }
        self.admit_member(Member { node, incarnation, listen: join.listen });
        Ok(Joined { node, incarnation })
    }

    /// The name under which a node joined.
    pub fn name(&self, node: NodeId) -> String {
        self.names.name(node)
    }

    /// The view for a node that has not seen any.
    pub fn snapshot(&self) -> View {
        let members = self.topology.members().iter().cloned();
        self.view((0..).zip(members).collect())
    }

    pub(super) fn admit_member(&mut self, member: Member) {
        self.alive.insert(member.node);
        self.lives.insert(member.node, member.incarnation);
        let at = self.topology.add(member.clone());
        self.publish(vec![(at, member)]);
    }

    /// The nodes have died: removes them from the tree and settles their operations.
    pub fn lost(&mut self, nodes: &NodeSet) {
        let dead = nodes.intersection(&self.alive);
        if dead.is_empty() {
            return;
        }
        self.alive = self.alive.difference(&dead);
        self.elsewhere = self.elsewhere.difference(&dead);
        self.refusing = self.refusing.difference(&dead);
        let mut moved: BTreeMap<u32, Member> = BTreeMap::new();
        for node in dead.iter() {
            if let Some(at) = self.topology.remove(node) {
                moved.insert(at, self.topology.members()[at as usize].clone());
            }
            self.queues.forget(node);
        }
        let len = self.topology.members().len() as u32;
        moved.retain(|at, _| *at < len);
        self.answers.forget(&dead);
        self.give_up_stages(&dead);
        let finished = self.settle_pending(&dead);
        self.publish(moved.into_iter().collect());
        // Only dead nodes have not replied: these operations are complete on all survivors.
        finished.into_iter().for_each(|seq| self.complete(seq, true));
        self.start_stages();
        self.advance();
    }

    /// Sets whether the member `node` takes references. While any member takes none, long transfers
    /// are staged and travel on the bulk lanes.
    pub fn references(&mut self, node: NodeId, taken: bool) {
        if taken {
            self.refusing.remove(node);
        } else if self.alive.contains(node) {
            self.refusing.insert(node);
        }
    }

    /// A link of the tree broke under `epoch`: everything starts over under a new epoch.
    pub fn link_lost(&mut self, epoch: Epoch) {
        if epoch == self.epoch {
            self.publish(Vec::new());
        }
    }

    /// Publishes a new view, and sends every incomplete operation under it.
    fn publish(&mut self, changes: Vec<(u32, Member)>) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let view = self.view(changes);
        self.output.push_back(Output::View(view));
        let pending: Vec<Seq> = self.pending.keys().copied().collect();
        pending.into_iter().for_each(|seq| self.send(seq));
    }

    fn view(&self, changes: Vec<(u32, Member)>) -> View {
        let ids = |committed: bool| {
            let stages = self.stages.iter().filter(|(_, stage)| stage.committed == committed);
            stages.map(|(id, _)| *id).collect()
        };
        View {
            epoch: self.epoch,
            len: self.topology.members().len() as u32,
            changes,
            stages: ids(false),
            committed: ids(true),
            next_stage: self.next_stage,
        }
    }

    /// Drops transfers that are not placed yet and have lost their initiator or a destination.
    fn give_up_stages(&mut self, dead: &NodeSet) {
        let hit: Vec<StageId> = self
            .stages
            .iter()
            .filter(|(_, stage)| {
                let lost = dead.contains(stage.initiator) || stage.dest.intersects(dead);
                lost && !stage.committed
            })
            .map(|(id, _)| *id)
            .collect();
        for id in hit {
            let Some(stage) = self.stages.remove(&id) else { continue };
            let nodes = stage.dest.intersection(dead);
            let error = PrimitiveError::NodesDead { nodes };
            self.set_progress(stage.initiator, stage.request, Progress::Failed(error));
        }
    }

    /// Removes the dead from the operations under way. Returns the operations that no longer wait
    /// for a node.
    fn settle_pending(&mut self, dead: &NodeSet) -> Vec<Seq> {
        let mut finished = Vec::new();
        let mut failed = Vec::new();
        for (seq, pending) in &mut self.pending {
            let dead_initiator = pending.origin.is_some_and(|(node, _)| dead.contains(node));
            if dead_initiator {
                pending.origin = None;
            }
            let compares = matches!(pending.operation, Operation::Compare { .. });
            let hit = pending.dest.intersects(dead);
            if compares && (hit || dead_initiator) {
                failed.push((*seq, pending.dest.intersection(dead)));
                continue;
            }
            if hit {
                pending.dest = pending.dest.difference(dead);
                if pending.dest.is_empty() {
                    finished.push(*seq);
                }
            }
        }
        for (seq, nodes) in failed {
            let Some(pending) = self.pending.remove(&seq) else { continue };
            if self.open.remove(&seq).is_some()
                && let Some((node, _)) = pending.origin
            {
                self.queues.pop(node);
            }
            self.finish(pending.origin, Err(PrimitiveError::NodesDead { nodes }));
        }
        finished
    }
}
