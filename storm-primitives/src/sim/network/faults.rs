//! Deaths, freezes and rejoins in the in-memory network, and who is told.

use super::{Network, Node, State};
use crate::sim::executor::Group;
use crate::sim::node::SimPrimitives;
use crate::sim::operation::{OpId, Phase, Request};
use crate::sim::runtime::SimRuntime;
use crate::{
    EventTable, GlobalMemory, Incarnation, Instant, Membership, NodeId, PrimitiveError, Runtime,
};
use std::rc::Rc;
use std::time::Duration;

impl Network {
    /// Counts a step of a node's life; false when the node is dead, or dies by it.
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

    /// The node lives and the sequencer still listens to it.
    pub(super) fn is_connected(&self, node: NodeId, life: u64) -> bool {
        let state = self.state.borrow();
        let mm = &state.nodes[NodeId::MM.index()];
        state.nodes[node.index()].up && self.is_known_in(&state, node, life) && mm.up
    }

    /// Answers of this life still count.
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
            state.life
        };
        self.core.trace().record(self.core.now(), node, "killed");
        self.core.kill_group(Group { node, life });
        let noticed = self.core.now() + self.config.detection;
        self.at(noticed, move |network| network.declare_dead(node, life));
    }

    pub(super) fn kill_tasks(&self, node: NodeId) {
        let life = self.state.borrow().nodes[node.index()].life;
        self.core.kill_group(Group { node, life });
    }

    pub(super) fn freeze(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = &mut self.state.borrow_mut().nodes[node.index()];
            state.frozen = true;
            state.life
        };
        self.core.trace().record(self.core.now(), node, "frozen");
        self.core.set_frozen(Group { node, life }, true);
        let noticed = self.core.now() + self.config.detection;
        self.at(noticed, move |network| {
            let silent = network.state.borrow().nodes[node.index()].frozen;
            if silent {
                network.declare_dead(node, life);
            }
        });
    }

    pub(super) fn thaw(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = &mut self.state.borrow_mut().nodes[node.index()];
            state.frozen = false;
            state.life
        };
        self.core.trace().record(self.core.now(), node, "thawed");
        self.core.set_frozen(Group { node, life }, false);
        self.work_off_inbox(node);
    }

    /// The sequencer stops listening to a node and the others are told.
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
                if pending.waiting.remove(node) && pending.phase == Phase::Compare {
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
        self.tell_memberships(move |membership| membership.lost(node));
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

    /// A node finds itself alone: its operations fail, and it sees nobody.
    fn disconnect(&self, node: NodeId) {
        let (handle, requests) = {
            let mut state = self.state.borrow_mut();
            let handle = state.nodes[node.index()].handle.clone();
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
            (handle, requests)
        };
        let Some(handle) = handle else { return };
        for request in requests {
            match request {
                Request::Compare(_, slot) => slot.put(Err(PrimitiveError::Disconnected)),
                Request::Put(xfer) => {
                    if let Some(event) = xfer.local_event {
                        handle.events.signal(event, Err(PrimitiveError::Disconnected));
                    }
                }
            }
        }
        handle.membership.alive().iter().for_each(|other| handle.membership.lost(other));
    }

    pub(super) fn join(self: &Rc<Self>, node: NodeId) {
        let (life, membership) = {
            let mut state = self.state.borrow_mut();
            let entry = &mut state.nodes[node.index()];
            let life = entry.life + 1;
            *entry = Node { life, up: true, known_dead: false, ..Node::absent() };
            (life, Membership::new())
        };
        let group = Group { node, life };
        let handle = SimPrimitives {
            network: self.clone(),
            runtime: SimRuntime::new(self.core.clone(), Some(group)),
            node,
            life,
            memory: GlobalMemory::new(&self.layout),
            events: EventTable::new(&self.layout),
            membership,
        };
        self.state.borrow_mut().nodes[node.index()].handle = Some(handle);
    }

    pub(super) fn everyone_knows_everyone(&self) {
        let state = self.state.borrow();
        for handle in state.nodes.iter().filter_map(|node| node.handle.as_ref()) {
            for (index, other) in state.nodes.iter().enumerate().filter(|(_, node)| node.up) {
                handle.membership.joined(NodeId(index as u32), Incarnation(other.life));
            }
        }
    }

    /// The newcomer knows all at once; the others hear of it.
    pub(super) fn announce_join(self: &Rc<Self>, node: NodeId) {
        let life = {
            let state = self.state.borrow();
            let newcomer = &state.nodes[node.index()];
            for (index, other) in state.nodes.iter().enumerate().filter(|(_, n)| !n.known_dead) {
                if let Some(handle) = &newcomer.handle {
                    handle.membership.joined(NodeId(index as u32), Incarnation(other.life));
                }
            }
            newcomer.life
        };
        self.core.trace().record(self.core.now(), node, "joined");
        self.tell_memberships(move |membership| membership.joined(node, Incarnation(life)));
    }

    /// Applies a change of membership on every node, each after its own delay.
    fn tell_memberships(self: &Rc<Self>, change: impl Fn(&Membership) + Clone + 'static) {
        let handles: Vec<SimPrimitives> = {
            let state = self.state.borrow();
            let alive = state.nodes.iter().filter(|node| node.up && !node.known_dead);
            alive.filter_map(|node| node.handle.clone()).collect()
        };
        for handle in handles {
            let change = change.clone();
            // The sequencer runs on the management node: it knows first.
            let delay = if handle.node == NodeId::MM { Duration::ZERO } else { self.delay() };
            self.at(self.core.now() + delay, move |network| {
                if network.is_known(handle.node, handle.life) {
                    change(&handle.membership);
                }
            });
        }
    }

    pub(super) fn delay(&self) -> Duration {
        let spread = self.config.max_delay.saturating_sub(self.config.min_delay);
        let extra = self.core.random_below(spread.as_nanos() as u64 + 1);
        self.config.min_delay + Duration::from_nanos(extra)
    }

    /// Runs `action` at a time, whatever becomes of the node that asked.
    pub(super) fn at(self: &Rc<Self>, when: Instant, action: impl FnOnce(&Rc<Network>) + 'static) {
        let network = self.clone();
        let runtime = SimRuntime::new(self.core.clone(), None);
        let timer = runtime.sleep_until(when);
        let task = runtime.spawn(async move {
            timer.await;
            action(&network);
        });
        task.detach();
    }
}
