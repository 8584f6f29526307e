//! The delivery of an operation to the nodes of its set: its arrival in the order, its effects, and
//! the answers.
//!
//! The nodes that an operation reaches at one instant are one event, and so are their answers.

use super::operations::ONE_AFTER_THE_OTHER;
use super::state::{Network, Seat};
use crate::sim::fabric::Arrivals;
use crate::sim::operation::{Message, OpId};
use crate::{Instant, NodeId, NodeSet};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// An incarnation of a node.
type Life = (NodeId, u64);

/// The answer of one node to one operation.
struct Answer {
    op: OpId,
    by: Life,
    verdict: bool,
}

/// The effects of one instant at a set of nodes.
#[derive(Default)]
struct Done {
    answers: Vec<Answer>,
    /// The waiters of signalled events, each with the time at which it notices.
    woken: Vec<(Instant, Waker)>,
}

impl Network {
    /// Sends a message to every node of an operation's set.
    pub(super) fn tell_all(self: &Rc<Self>, op: OpId, message: &Message) {
        let groups = {
            let state = &mut *self.state.borrow_mut();
            let Some(pending) = state.pending.get(&op) else { return };
            let (operation, random) = (pending.operation(self.core.now()), self.random());
            if operation.set.is_empty() {
                return;
            }
            let spread = self.fabric.to_nodes(&operation, &random);
            let dues = times_of(&spread, operation.set).map(|(node, time)| {
                let entry = &mut state.nodes[node.index()];
                let due = operation.now + entry.link.over(time, &random);
                entry.last_arrival = due.max(entry.last_arrival + ONE_AFTER_THE_OTHER);
                (entry.last_arrival, (node, entry.life))
            });
            by_instant(dues.collect())
        };
        for (due, lives) in groups {
            let message = message.clone();
            self.at(due, move |network| network.arrive(&lives, op, &message));
        }
    }

    fn arrive(self: &Rc<Self>, lives: &[Life], op: OpId, message: &Message) {
        let mut done = Done::default();
        for (node, life) in lives.iter().copied() {
            if !self.step(node, life) {
                continue;
            }
            let seat = {
                let mut state = self.state.borrow_mut();
                let entry = &mut state.nodes[node.index()];
                if entry.is_silent() || !entry.inbox.is_empty() {
                    entry.inbox.push_back((op, message.clone()));
                    None
                } else {
                    entry.seat.clone()
                }
            };
            match seat {
                Some(seat) => {
                    self.apply(&seat, op, message, &mut done);
                }
                None => self.work_off(node, &mut done),
            }
        }
        self.follow_up(done);
    }

    /// Carries out the waiting messages of a node that can be reached again.
    pub(super) fn work_off_inbox(self: &Rc<Self>, node: NodeId) {
        let mut done = Done::default();
        self.work_off(node, &mut done);
        self.follow_up(done);
    }

    fn work_off(&self, node: NodeId, done: &mut Done) {
        loop {
            let (op, message, seat) = {
                let mut state = self.state.borrow_mut();
                let entry = &mut state.nodes[node.index()];
                if entry.is_silent() || !entry.up {
                    return;
                }
                let Some((op, message)) = entry.inbox.pop_front() else { return };
                let Some(seat) = entry.seat.clone() else { return };
                (op, message, seat)
            };
            self.apply(&seat, op, &message, done);
        }
    }

    /// Carries out a message on a node.
    fn apply(&self, seat: &Seat, op: OpId, message: &Message, done: &mut Done) {
        let trace = self.core.trace();
        trace.record_with(self.core.now(), seat.node, || describe(op, message));
        // Bounds were checked when the operation was issued.
        let verdict = match message {
            Message::Put { addr, data, event } => {
                let _ = seat.memory.write_shared(*addr, data);
                if let Some(event) = event {
                    for waiter in seat.events.signal_quietly(*event, Ok(())) {
                        done.woken.push((self.wake_time(seat.node), waiter));
                    }
                }
                true
            }
            Message::Compare { var, relation, value } => {
                seat.memory.load_word(*var).is_ok_and(|word| relation.holds(word, *value))
            }
            Message::Write { addr, value } => seat.memory.store_word(*addr, *value).is_ok(),
        };
        done.answers.push(Answer { op, by: (seat.node, seat.life), verdict });
    }

    /// The time at which a waiter notices a signal that arrives now: when the node's operating
    /// system lets it run. A poll sees the signal at once.
    fn wake_time(&self, node: NodeId) -> Instant {
        let now = self.core.now();
        let time = self.fabric.wake(node, now, &self.random());
        let entry = &mut self.state.borrow_mut().nodes[node.index()];
        entry.last_wake = entry.last_wake.max(now + entry.link.slowed(time));
        entry.last_wake
    }

    /// Wakes tasks and sends answers for the work of one instant.
    fn follow_up(self: &Rc<Self>, done: Done) {
        let now = self.core.now();
        for (due, waiters) in by_instant(done.woken) {
            let wake = move || waiters.into_iter().for_each(Waker::wake);
            if due <= now {
                wake();
            } else {
                self.core.call_at(due, wake);
            }
        }
        self.answer(&done.answers);
    }

    /// Sends answers that were given at one instant to the sequencer.
    fn answer(self: &Rc<Self>, answers: &[Answer]) {
        for of_one in answers.chunk_by(|a, b| a.op == b.op) {
            let op = of_one[0].op;
            let sent = of_one.iter().filter(|answer| self.step(answer.by.0, answer.by.1));
            let sent: Vec<(Life, bool)> = sent.map(|answer| (answer.by, answer.verdict)).collect();
            for (due, group) in self.answer_times(op, sent) {
                self.at(due, move |network| network.take_answers(op, group));
            }
        }
    }

    /// The arrival times of the answers to one operation. The answers arrive together, except those
    /// of nodes with a bad link.
    fn answer_times(
        &self,
        op: OpId,
        answers: Vec<(Life, bool)>,
    ) -> Vec<(Instant, Vec<(Life, bool)>)> {
        let state = self.state.borrow();
        let Some(pending) = state.pending.get(&op) else { return Vec::new() };
        if answers.is_empty() {
            return Vec::new();
        }
        let (operation, random) = (pending.operation(self.core.now()), self.random());
        let nodes: Vec<NodeId> = answers.iter().map(|((node, _), _)| *node).collect();
        let time = self.fabric.answer(&operation, &nodes, &random);
        let dues = answers.into_iter().map(|answer| {
            let link = state.nodes[answer.0.0.index()].link;
            (operation.now + link.over(time, &random), answer)
        });
        by_instant(dues.collect())
    }

    fn take_answers(self: &Rc<Self>, op: OpId, answers: Vec<(Life, bool)>) {
        {
            let state = &mut *self.state.borrow_mut();
            for ((node, life), verdict) in answers {
                let entry = &mut state.nodes[node.index()];
                if entry.life != life || entry.known_dead {
                    continue;
                }
                if entry.link.cut {
                    let late = vec![((node, life), verdict)];
                    entry.held.push_back(Box::new(move |network| network.take_answers(op, late)));
                    continue;
                }
                if let Some(pending) = state.pending.get_mut(&op) {
                    pending.waiting.remove(node);
                    pending.verdict &= verdict;
                }
            }
        }
        self.finish_phase_if_complete(op);
    }
}

/// The nodes of a set with the time of each.
pub(super) fn times_of(
    spread: &Arrivals,
    set: &NodeSet,
) -> impl Iterator<Item = (NodeId, Duration)> {
    set.iter().enumerate().map(move |(index, node)| match spread {
        Arrivals::Together(time) => (node, *time),
        // A fabric that names too few times leaves the last for the others.
        Arrivals::Each(times) => {
            let time = times.get(index).or(times.last());
            (node, time.copied().unwrap_or_default())
        }
    })
}

/// Groups items that are due at the same instant, the earliest first. Items of a group keep their
/// order.
pub(super) fn by_instant<T>(mut dues: Vec<(Instant, T)>) -> Vec<(Instant, Vec<T>)> {
    dues.sort_by_key(|(due, _)| *due);
    let mut groups: Vec<(Instant, Vec<T>)> = Vec::new();
    for (due, item) in dues {
        match groups.last_mut() {
            Some((last, group)) if *last == due => group.push(item),
            _ => groups.push((due, vec![item])),
        }
    }
    groups
}

fn describe(op: OpId, message: &Message) -> String {
    match message {
        Message::Put { addr, data, .. } => format!("op {} put {} at {addr}", op.0, data.len()),
        Message::Compare { var, relation, value } => {
            format!("op {} compare {var} {relation:?} {value}", op.0)
        }
        Message::Write { addr, value } => format!("op {} write {value} at {addr}", op.0),
    }
}
