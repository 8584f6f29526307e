//! The queue behind the journal: durable effects of the core and actions of the driver, in order.
//! No effect or action is carried out before the journal entries that precede it are durable.

use super::DriverError;
use crate::Durable;
use crate::journal::Entry;
use std::cell::RefCell;
use std::collections::VecDeque;
use storm_primitives::{Bell, NodeSet};
use storm_rm::message::Command;

/// The queue behind the journal.
#[derive(Default)]
pub(super) struct Pending {
    waiting: RefCell<VecDeque<Item>>,
    /// Items whose entries are being made durable.
    committing: RefCell<VecDeque<Item>>,
    /// Why the manager must stop.
    failure: RefCell<Option<DriverError>>,
    bell: Bell,
}

/// An item of the queue.
pub(super) enum Item {
    Effect(Durable),
    /// An action of the driver, in its place among the effects.
    Action(Box<dyn FnOnce()>),
}

impl Pending {
    /// Queues a durable effect of the core.
    pub(super) fn effect(&self, effect: Durable) {
        self.waiting.borrow_mut().push_back(Item::Effect(effect));
    }

    /// Queues an act of the driver.
    pub(super) fn action(&self, action: impl FnOnce() + 'static) {
        self.waiting.borrow_mut().push_back(Item::Action(Box::new(action)));
    }

    /// The manager must stop. The first error counts.
    pub(super) fn fail(&self, error: DriverError) {
        self.failure.borrow_mut().get_or_insert(error);
        self.ring();
    }

    /// Why the manager must stop.
    pub(super) fn take_failure(&self) -> Option<DriverError> {
        self.failure.borrow_mut().take()
    }

    /// Wakes the reader of the queue.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Waits until there may be something in the queue.
    pub(super) async fn news(&self) {
        self.bell.heard().await;
    }

    /// Makes all waiting items ready for [`next`](Self::next), and returns the journal entries
    /// among them, which must be durable before `next` is called. `None` when nothing waits.
    pub(super) fn begin(&self) -> Option<Vec<Entry>> {
        let batch = self.waiting.take();
        if batch.is_empty() {
            return None;
        }
        let entries = batch.iter().filter_map(|item| match item {
            Item::Effect(Durable::Journal(entry)) => Some(entry.clone()),
            Item::Effect(_) | Item::Action(_) => None,
        });
        let entries = entries.collect();
        self.committing.borrow_mut().extend(batch);
        Some(entries)
    }

    /// The next item to carry out, once the entries from [`begin`](Self::begin) are durable.
    pub(super) fn next(&self) -> Option<Item> {
        self.committing.borrow_mut().pop_front()
    }

    /// Nodes died: the commands and watches for them were for their former incarnations. A launch
    /// that reached a next incarnation would never be ended.
    pub(super) fn nodes_died(&self, dead: &NodeSet) {
        for queue in [&self.waiting, &self.committing] {
            for item in queue.borrow_mut().iter_mut() {
                match item {
                    // A node that rejoins must leave as well.
                    Item::Effect(Durable::Command(_, Command::Shutdown)) => {}
                    Item::Effect(Durable::Command(nodes, _) | Durable::Draft(nodes, _)) => {
                        *nodes = nodes.difference(dead);
                    }
                    Item::Effect(Durable::Step(order)) => {
                        order.nodes = order.nodes.difference(dead);
                    }
                    Item::Effect(
                        Durable::AwaitStarted(watch) | Durable::AwaitTermination(watch),
                    ) => {
                        watch.nodes = watch.nodes.difference(dead);
                    }
                    Item::Effect(_) | Item::Action(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobEvent, JobEventKind};
    use crate::manager::Watch;
    use jiff::Timestamp;
    use storm_primitives::NodeId;
    use storm_rm::{JobId, JobIncarnation, JobSlot, Row, StepRef};

    fn nodes(numbers: &[u32]) -> NodeSet {
        numbers.iter().map(|number| NodeId(*number)).collect()
    }

    fn destroy(job: u64, to: &[u32]) -> Durable {
        Durable::Command(nodes(to), Command::DestroyJob { step: StepRef::program(JobId(job)) })
    }

    /// The nodes that each remaining command is sent to, or that a remaining watch polls.
    fn told(pending: &Pending) -> Vec<NodeSet> {
        let left = std::iter::from_fn(|| pending.next());
        let told = left.filter_map(|item| match item {
            Item::Effect(Durable::Command(nodes, _)) => Some(nodes),
            Item::Effect(Durable::AwaitTermination(watch)) => Some(watch.nodes),
            Item::Effect(_) | Item::Action(_) => None,
        });
        told.collect()
    }

    /// A command that waited for the journal while its node died was sent to the node's next
    /// incarnation.
    #[test]
    fn nothing_that_waits_for_the_journal_is_for_the_next_life_of_a_node() {
        let pending = Pending::default();
        let kind = JobEventKind::Moved { row: Row(0) };
        let event = JobEvent { at: Timestamp::UNIX_EPOCH, kind };
        pending.effect(Durable::Journal(Entry::Job(JobId(1), event)));
        pending.effect(destroy(1, &[1, 2]));
        let entries = pending.begin().expect("something waits");
        assert_eq!(entries.len(), 1);
        pending.effect(destroy(2, &[2, 3]));
        let (step, slot, incarnation) = (StepRef::program(JobId(3)), JobSlot(0), JobIncarnation(1));
        let watch = Watch { step, slot, incarnation, nodes: nodes(&[1, 2]) };
        pending.effect(Durable::AwaitTermination(watch));
        pending.nodes_died(&nodes(&[2]));
        // A command for the next incarnation follows the death.
        pending.effect(destroy(4, &[2]));
        assert_eq!(told(&pending), [nodes(&[1])]);
        assert_eq!(pending.begin(), Some(Vec::new()));
        assert_eq!(told(&pending), [nodes(&[3]), nodes(&[1]), nodes(&[2])]);
        assert!(pending.begin().is_none());
    }
}
