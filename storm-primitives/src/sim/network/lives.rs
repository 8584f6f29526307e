//! Incarnations of nodes: deaths, freezes and rejoins, and how the other nodes are notified.

use super::delivery::{by_instant, times_of};
use super::state::{Network, Node, Seat, State};
use crate::membership::Roster;
use crate::sim::group::Group;
use crate::sim::link::Link;
use crate::sim::operation::{OpId, Phase, Request};
use crate::sim::runtime::SimRuntime;
use crate::{EventTable, GlobalMemory, Incarnation, Membership, NodeId, NodeSet, PrimitiveError};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Network {
    /// Counts a step of a node's incarnation. False if the node is dead, or dies at this step.
    pub(super) fn step(self: &Rc<Self>, node: NodeId, life: u64) -> bool {
        let dies = {
            let mut state = self.state.borrow_mut();
            let node = &mut state.nodes[node.index()];
            if node.life != life || !node.up {
                return false;
            }
            match &mut node.steps_left {
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => false,
            }
        };
        if dies {
            self.kill(node);
        }
        !dies
    }

    /// Whether the node is alive and the sequencer still accepts messages from it.
    pub(super) fn is_connected(&self, node: NodeId, life: u64) -> bool {
        let state = self.state.borrow();
        let mm = &state.nodes[NodeId::MM.index()];
        state.nodes[node.index()].up && self.is_known_in(&state, node, life) && mm.up
    }

    /// Whether the sequencer still accepts the answers of this incarnation.
    pub(super) fn is_known(&self, node: NodeId, life: u64) -> bool {
        self.is_known_in(&self.state.borrow(), node, life)
    }

    fn is_known_in(&self, state: &State, node: NodeId, life: u64) -> bool {
        let node = &state.nodes[node.index()];
        node.life == life && !node.known_dead
    }

    pub(super) fn kill(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = &mut self.state.borrow_mut().nodes[node.index()];
            if !state.up {
                return;
            }
            state.up = false;
            state.inbox.clear();
            state.held.clear();
            state.life
        };
        self.core.trace().record(self.core.now(), node, "killed");
        self.core.kill_group(self.group_of(node));
        let noticed = self.core.now() + self.fabric.detection();
        self.at(noticed, move |network| network.declare_dead(node, life));
    }

    /// Ends the present incarnation of a node before the next one. Operations that wait for the old
    /// incarnation fail, however soon the new incarnation begins.
    pub(super) fn end_life(self: &Rc<Self>, node: NodeId) {
        let life = self.state.borrow().nodes[node.index()].life;
        self.core.kill_group(self.group_of(node));
        self.declare_dead(node, life);
    }

    /// The tasks of a node: they continue when it joins again without having died.
    fn group_of(&self, node: NodeId) -> Group {
        self.state.borrow().nodes[node.index()].group
    }

    /// Reports to the management node how a node's present incarnation ended, unless the node's
    /// link is cut.
    pub(super) fn report_end(&self, node: NodeId, end: End) {
        let state = self.state.borrow();
        let ending = &state.nodes[node.index()];
        let mm = state.nodes[NodeId::MM.index()].seat.as_ref();
        let Some(mm) = mm.filter(|_| !ending.link.cut) else { return };
        match end {
            End::OfProcess => mm.membership.process_ended(node, Incarnation(ending.life)),
            End::OfLink => mm.membership.link_closed(node, Incarnation(ending.life)),
        }
    }

    /// Ends the present incarnation of a node whose tasks continue.
    pub(super) fn leave(self: &Rc<Self>, node: NodeId, end: End) {
        self.report_end(node, end);
        let life = self.state.borrow().nodes[node.index()].life;
        self.declare_dead(node, life);
    }

    /// Renumbers the compute nodes while none of them is in the cluster.
    pub(super) fn renumber(&self, numbers: &[NodeId]) {
        let state = &mut *self.state.borrow_mut();
        // Messages on their way are addressed to incarnations that no node has any more.
        let next_life = 1 + state.nodes.iter().map(|node| node.life).max().unwrap_or_default();
        let former: Vec<Node> = state.nodes.drain(1..).collect();
        assert_eq!(former.len(), numbers.len(), "each compute node has a number");
        let mut renumbered: BTreeMap<NodeId, Node> = BTreeMap::new();
        for (mut node, number) in former.into_iter().zip(numbers) {
            node.life = next_life;
            assert!(renumbered.insert(*number, node).is_none(), "{number} is given twice");
        }
        let in_order = renumbered.keys().copied().eq((1..=numbers.len() as u32).map(NodeId));
        assert!(in_order, "the numbers are those of the compute nodes");
        state.nodes.extend(renumbered.into_values());
    }

    /// Starts a new management node after the death of the former one. No other node has joined
    /// yet, and operations under way never end. Runs `meanwhile` before a node can join.
    pub(super) fn restart_manager_with(self: &Rc<Self>, meanwhile: impl FnOnce(&Self)) {
        self.end_life(NodeId::MM);
        {
            let state = &mut *self.state.borrow_mut();
            state.pending.clear();
            state.queue.clear();
            for node in &mut state.nodes {
                node.inbox.clear();
                node.held.clear();
            }
        }
        meanwhile(self);
        self.join(NodeId::MM);
        self.announce_join(NodeId::MM);
    }

    /// A node that was cut off, or lost its management node, joins again with fresh memory. Its
    /// tasks continue. Returns false while there is no management node.
    pub(super) fn join_again(self: &Rc<Self>, node: NodeId) -> bool {
        let (life, group) = {
            let state = self.state.borrow();
            let (mm, entry) = (&state.nodes[NodeId::MM.index()], &state.nodes[node.index()]);
            if !mm.up || mm.known_dead || !entry.up || entry.is_silent() {
                return false;
            }
            (entry.life, entry.group)
        };
        self.declare_dead(node, life);
        self.join_as(node, group);
        self.announce_join(node);
        true
    }

    pub(super) fn freeze(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = &mut self.state.borrow_mut().nodes[node.index()];
            state.frozen = true;
            state.life
        };
        self.core.trace().record(self.core.now(), node, "frozen");
        self.core.set_frozen(self.group_of(node), true);
        self.notice_silence(node, life);
    }

    /// Declares a node dead that is still silent after the detection time.
    pub(super) fn notice_silence(self: &Rc<Self>, node: NodeId, life: u64) {
        let noticed = self.core.now() + self.fabric.detection();
        self.at(noticed, move |network| {
            let silent = network.state.borrow().nodes[node.index()].is_silent();
            if silent {
                network.declare_dead(node, life);
            }
        });
    }

    pub(super) fn thaw(self: &Rc<Self>, node: NodeId) {
        self.state.borrow_mut().nodes[node.index()].frozen = false;
        self.core.trace().record(self.core.now(), node, "thawed");
        self.core.set_frozen(self.group_of(node), false);
        self.work_off_inbox(node);
    }

    /// Makes the sequencer ignore a node, and reports its death to the other nodes.
    fn declare_dead(self: &Rc<Self>, node: NodeId, life: u64) {
        let ops: Vec<OpId> = {
            let state = &mut *self.state.borrow_mut();
            let dying = &mut state.nodes[node.index()];
            if dying.life != life || dying.known_dead {
                return;
            }
            dying.known_dead = true;
            dying.inbox.clear();
            for pending in state.pending.values_mut() {
                let waited = pending.waiting.remove(node);
                if waited && pending.phase == Phase::Compare {
                    pending.dead.insert(node);
                }
            }
            state.pending.keys().copied().collect()
        };
        self.core.trace().record(self.core.now(), node, "declared dead");
        if node == NodeId::MM {
            self.disconnect_everyone();
            return;
        }
        self.disconnect(node);
        for op in ops {
            self.finish_phase_if_complete(op);
        }
        self.announce_change(Change::Lost(node));
    }

    /// Without the management node there is no cluster.
    fn disconnect_everyone(self: &Rc<Self>) {
        let nodes: Vec<NodeId> = {
            let mut state = self.state.borrow_mut();
            for node in &mut state.nodes {
                node.known_dead = true;
            }
            (0..state.nodes.len() as u32).map(NodeId).collect()
        };
        nodes.into_iter().for_each(|node| self.disconnect(node));
    }

    /// A node finds itself alone: its operations fail, and its view is empty.
    fn disconnect(self: &Rc<Self>, node: NodeId) {
        let (seat, requests, held) = {
            let mut state = self.state.borrow_mut();
            let seat = state.nodes[node.index()].seat.clone();
            let life = state.nodes[node.index()].life;
            let own = |pending: &crate::sim::operation::Pending| {
                pending.initiator == node && pending.life == life
            };
            let mut requests: Vec<Request> = state
                .pending
                .values()
                .filter(|pending| own(pending))
                .map(|pending| pending.request.clone())
                .collect();
            let queued = state.queue.iter().filter(|(by, l, _)| *by == node && *l == life);
            requests.extend(queued.map(|(_, _, request)| request.clone()));
            state.queue.retain(|(by, l, _)| *by != node || *l != life);
            // The node finds on its own that it is cut off, and fails.
            (seat, requests, std::mem::take(&mut state.nodes[node.index()].held))
        };
        let Some(seat) = seat else { return };
        for request in requests {
            request.conclude(&seat.events, Err(PrimitiveError::Disconnected));
        }
        held.into_iter().for_each(|action| action(self));
        seat.membership.lost_everyone();
    }

    pub(super) fn join(self: &Rc<Self>, node: NodeId) {
        let life = self.state.borrow().nodes[node.index()].life + 1;
        self.join_as(node, Group { node, life });
    }

    /// Begins the next incarnation of a node, with the tasks of `group`.
    fn join_as(self: &Rc<Self>, node: NodeId, group: Group) {
        let (life, membership) = {
            let mut state = self.state.borrow_mut();
            let entry = &mut state.nodes[node.index()];
            let life = entry.life + 1;
            // The machine behind a new incarnation is as slow as before; its link is whole.
            let link = Link { slow_percent: entry.link.slow_percent, ..Link::SOUND };
            *entry = Node { life, group, up: true, known_dead: false, link, ..Node::absent() };
            (life, Membership::new())
        };
        let seat = Seat {
            runtime: SimRuntime::new(self.core.clone(), Some(group)),
            node,
            life,
            memory: GlobalMemory::sparse(&self.layout),
            events: EventTable::new(&self.layout),
            membership,
        };
        self.state.borrow_mut().nodes[node.index()].seat = Some(seat);
    }

    pub(super) fn everyone_knows_everyone(&self) {
        let state = self.state.borrow();
        let roster = roster_of(&state, |node| node.up);
        for seat in state.nodes.iter().filter_map(|node| node.seat.as_ref()) {
            seat.membership.adopt(&roster);
        }
    }

    /// Announces a join. The new node has the whole membership at once, the others receive the join
    /// later.
    pub(super) fn announce_join(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = self.state.borrow();
            let newcomer = &state.nodes[node.index()];
            if let Some(seat) = &newcomer.seat {
                seat.membership.adopt(&roster_of(&state, |node| !node.known_dead));
            }
            newcomer.life
        };
        self.core.trace().record(self.core.now(), node, "joined");
        self.announce_change(Change::Joined(node, Incarnation(life)));
    }

    /// Applies a change of membership on every node, at the time when that node receives it.
    fn announce_change(self: &Rc<Self>, change: Change) {
        let now = self.core.now();
        // The sequencer is the first to receive it.
        self.at(now, move |network| network.change_membership(NodeId::MM, change));
        let groups = {
            let state = self.state.borrow();
            let alive = |node: &NodeId| {
                state.nodes[node.index()].up && !state.nodes[node.index()].known_dead
            };
            let others = (1..state.nodes.len() as u32).map(NodeId).filter(alive);
            let others: NodeSet = others.collect();
            if others.is_empty() {
                return;
            }
            let random = self.random();
            let spread = self.fabric.news(&others, &random);
            let dues = times_of(&spread, &others).map(|(node, time)| {
                let link = state.nodes[node.index()].link;
                (now + link.over(time, &random), node)
            });
            by_instant(dues.collect())
        };
        for (due, nodes) in groups {
            self.at(due, move |network| {
                nodes.iter().for_each(|node| network.change_membership(*node, change));
            });
        }
    }

    fn change_membership(self: &Rc<Self>, node: NodeId, change: Change) {
        let life = self.state.borrow().nodes[node.index()].life;
        self.over_link(node, life, move |network| {
            let seat = {
                let state = network.state.borrow();
                let known = network.is_known_in(&state, node, life);
                state.nodes[node.index()].seat.clone().filter(|_| known)
            };
            match (seat, change) {
                (Some(seat), Change::Joined(other, life)) => {
                    seat.membership.joined(other, life);
                }
                (Some(seat), Change::Lost(other)) => seat.membership.lost(other),
                (None, _) => {}
            }
        });
    }
}

/// How an incarnation of a node ended, as far as the closing of its link shows.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// With its process.
    OfProcess,
    /// The process may continue.
    OfLink,
}

/// A change of the membership.
#[derive(Clone, Copy)]
enum Change {
    Joined(NodeId, Incarnation),
    Lost(NodeId),
}

/// The nodes that `is_there`, with their incarnations.
fn roster_of(state: &State, is_there: impl Fn(&Node) -> bool) -> Rc<Roster> {
    let nodes = state.nodes.iter().enumerate().filter(|(_, node)| is_there(node));
    let lives = nodes.map(|(index, node)| (NodeId(index as u32), Incarnation(node.life)));
    Rc::new(lives.collect())
}
