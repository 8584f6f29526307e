//! Operations from issue to outcome: the order, the two rounds of a COMPARE-AND-WRITE, and
//! the report to the initiator.

use super::state::Network;
use crate::sim::operation::{Message, OpId, Pending, Phase, Request, Waiting};
use crate::{GlobalAddr, NodeId, NodeSet, OutOfBounds, PrimitiveError};
use std::rc::Rc;
use std::time::Duration;

/// Two messages over one link never arrive at the same instant.
pub(super) const ONE_AFTER_THE_OTHER: Duration = Duration::from_nanos(1);

impl Network {
    /// Takes an operation from a node; it reaches the sequencer after those that
    /// the node issued before.
    pub(in crate::sim) fn issue(
        self: &Rc<Self>,
        initiator: NodeId,
        life: u64,
        request: Request,
    ) -> Result<(), PrimitiveError> {
        self.check(&request)?;
        if !self.is_connected(initiator, life) {
            return Err(PrimitiveError::Disconnected);
        }
        if !self.step(initiator, life) {
            return Ok(());
        }
        let random = self.random();
        let operation = request.operation(initiator, self.core.now());
        let time = self.fabric.to_sequencer(&operation, &random);
        let arrival = {
            let node = &mut self.state.borrow_mut().nodes[initiator.index()];
            let due = operation.now + node.link.over(time, &random);
            node.last_issue = due.max(node.last_issue + ONE_AFTER_THE_OTHER);
            node.last_issue
        };
        self.at(arrival, move |network| {
            network.over_link(initiator, life, move |network| {
                if network.is_connected(initiator, life) {
                    network.state.borrow_mut().queue.push_back((initiator, life, request));
                    network.start_queued();
                } else {
                    network.refuse(initiator, life, &request);
                }
            });
        });
        Ok(())
    }

    /// Reports to an operation's issuer that the operation was never placed in the order.
    pub(super) fn refuse(&self, initiator: NodeId, life: u64, request: &Request) {
        let seat = self.state.borrow().nodes[initiator.index()].seat.clone();
        if let Some(seat) = seat.filter(|seat| seat.life == life) {
            request.conclude(&seat.events, Err(PrimitiveError::Disconnected));
        }
    }

    fn check(&self, request: &Request) -> Result<(), PrimitiveError> {
        let word = |addr: GlobalAddr| {
            if !addr.0.is_multiple_of(8) {
                return Err(PrimitiveError::Misaligned { addr });
            }
            self.in_bounds(addr, 8)
        };
        match request {
            Request::Put(xfer) => {
                self.in_bounds(xfer.addr, xfer.data.len() as u64)?;
                match xfer.remote_event {
                    Some(event) if event.0 >= self.layout.events() => {
                        Err(PrimitiveError::UnknownEvent { event })
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Request::Compare(caw, _) => {
                word(caw.var)?;
                caw.write.map_or(Ok(()), |(addr, _)| word(addr))
            }
        }
    }

    fn in_bounds(&self, addr: GlobalAddr, len: u64) -> Result<(), PrimitiveError> {
        let size = self.layout.size();
        match addr.0.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(OutOfBounds { addr, len, size }.into()),
        }
    }

    /// Starts operations in order until one must wait for a COMPARE-AND-WRITE.
    fn start_queued(self: &Rc<Self>) {
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                let Some((_, _, request)) = state.queue.front() else { return };
                if state.pending.values().any(|earlier| earlier.request.blocks(request)) {
                    return;
                }
                state.queue.pop_front()
            };
            if let Some((initiator, life, request)) = next {
                self.start(initiator, life, request);
            }
        }
    }

    fn start(self: &Rc<Self>, initiator: NodeId, life: u64, request: Request) {
        let message = request.first_message();
        let phase = match request {
            Request::Put(_) => Phase::Put,
            Request::Compare(..) => Phase::Compare,
        };
        let (op, refused) = {
            let mut state = self.state.borrow_mut();
            let op = OpId(state.next_op);
            state.next_op += 1;
            let set = request.set();
            let dead = set.iter().filter(|node| state.is_known_dead(*node)).collect::<NodeSet>();
            let refused = !dead.is_empty();
            let waiting = Waiting::new(if refused { NodeSet::new() } else { set.clone() });
            let pending = Pending { initiator, life, request, phase, waiting, verdict: true, dead };
            state.pending.insert(op, pending);
            (op, refused)
        };
        if !refused {
            self.tell_all(op, &message);
        }
        self.finish_phase_if_complete(op);
    }

    pub(super) fn finish_phase_if_complete(self: &Rc<Self>, op: OpId) {
        let write = {
            let mut state = self.state.borrow_mut();
            let Some(pending) = state.pending.get_mut(&op) else { return };
            if !pending.waiting.is_empty() {
                return;
            }
            match (&pending.request, pending.phase) {
                (Request::Compare(caw, _), Phase::Compare)
                    if pending.verdict && pending.dead.is_empty() && !caw.set.is_empty() =>
                {
                    let write = caw.write;
                    if write.is_some() {
                        pending.phase = Phase::Write;
                        pending.waiting = Waiting::new(caw.set.clone());
                    }
                    write
                }
                (_, Phase::Put | Phase::Compare | Phase::Write) => None,
            }
        };
        match write {
            Some((addr, value)) => {
                self.tell_all(op, &Message::Write { addr, value });
                self.forget_dead_of(op);
            }
            None => self.complete(op),
        }
    }

    /// Nodes may have died between compare and write: the survivors suffice.
    fn forget_dead_of(self: &Rc<Self>, op: OpId) {
        let state = &mut *self.state.borrow_mut();
        if let Some(pending) = state.pending.get_mut(&op) {
            let nodes = &state.nodes;
            pending.waiting.retain(|node| !nodes[node.index()].known_dead);
        }
    }

    fn complete(self: &Rc<Self>, op: OpId) {
        let Some(pending) = self.state.borrow_mut().pending.remove(&op) else { return };
        let answer = match pending.phase {
            Phase::Put | Phase::Compare if !pending.dead.is_empty() => {
                Err(PrimitiveError::NodesDead { nodes: pending.dead.clone() })
            }
            Phase::Put | Phase::Compare | Phase::Write => Ok(pending.verdict),
        };
        let random = self.random();
        let operation = pending.operation(self.core.now());
        let time = self.fabric.outcome(&operation, &random);
        let link = self.state.borrow().nodes[pending.initiator.index()].link;
        let due = operation.now + link.over(time, &random);
        let (initiator, life, request) = (pending.initiator, pending.life, pending.request);
        self.at(due, move |network| {
            network.over_link(initiator, life, move |network| {
                network.tell_initiator(initiator, life, &request, answer);
            });
        });
        self.start_queued();
    }

    fn tell_initiator(
        &self,
        initiator: NodeId,
        life: u64,
        request: &Request,
        answer: Result<bool, PrimitiveError>,
    ) {
        if !self.is_known(initiator, life) {
            return;
        }
        let seat = self.state.borrow().nodes[initiator.index()].seat.clone();
        if let Some(seat) = seat {
            request.conclude(&seat.events, answer);
        }
    }
}
