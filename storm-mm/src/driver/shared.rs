//! The state that the driver's tasks share: the core, and the rooms, which each own a part of the
//! state. [`Shared`] only routes between them.

use super::clients::Clients;
use super::outbox::Outbox;
use super::pending::Pending;
use super::runs::Runs;
use super::slices::Slicing;
use super::staging::Staging;
use super::{Contents, DriverConfig, DriverError};
use crate::{ActiveRows, Core, Durable, Immediate};
use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet, Primitives, Runtime};
use storm_rm::message::Command;
use storm_rm::{GlobalPlan, PartitionId};

/// The state that the tasks share.
pub(super) struct Shared<P, C> {
    pub(super) primitives: P,
    pub(super) plan: GlobalPlan,
    pub(super) config: DriverConfig,
    core: RefCell<Core>,
    /// Effects and actions that wait until the journal entries before them are durable.
    pub(super) pending: Pending,
    /// The contents of the next heartbeat.
    pub(super) outbox: Outbox,
    /// The edges of the partitions' slices.
    pub(super) slicing: Slicing,
    /// The runs of jobs that are watched, and their tasks.
    pub(super) runs: Runs,
    /// Files on their way to nodes.
    pub(super) staging: Staging<C>,
    /// The events and ends of jobs that clients wait for.
    pub(super) clients: Clients,
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    pub(super) fn new(
        primitives: P,
        plan: GlobalPlan,
        core: Core,
        contents: C,
        config: DriverConfig,
    ) -> Shared<P, C> {
        Shared {
            clients: Clients::new(primitives.runtime().now()),
            slicing: Slicing::new(core.partition_count()),
            staging: Staging::new(contents, plan.config.channels),
            primitives,
            plan,
            config,
            core: RefCell::new(core),
            pending: Pending::default(),
            outbox: Outbox::default(),
            runs: Runs::default(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.primitives.runtime().now()
    }

    /// The core as it is.
    pub(super) fn core(&self) -> Ref<'_, Core> {
        self.core.borrow()
    }

    /// Runs a query or an update on the core, without carrying out effects.
    pub(super) fn ask<T>(&self, ask: impl FnOnce(&mut Core, Instant) -> T) -> T {
        ask(&mut self.core.borrow_mut(), self.now())
    }

    /// Lets the core act, and queues its effects.
    pub(super) fn drive<T>(&self, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        self.pass_slices();
        let result = self.ask(act);
        self.act();
        self.wake_for_slices();
        result
    }

    /// Lets the core pass the edges through which the manager slept: it must have the present row
    /// before it acts or is shown.
    pub(super) fn pass_slices(&self) {
        if self.ask(|core, now| core.pass_slices(now)) {
            self.act();
        }
    }

    /// The rows that are active now.
    pub(super) fn active_rows(&self) -> ActiveRows {
        self.pass_slices();
        self.core().active_rows()
    }

    /// A slice of a partition ends.
    pub(super) fn cut_slice(&self, partition: PartitionId) {
        self.ask(|core, now| core.cut_slice(now, partition));
        self.act();
        self.wake_for_slices();
    }

    fn wake_for_slices(&self) {
        let wake = self.core.borrow().slices_to_wake_for();
        wake.into_iter().for_each(|partition| self.slicing.changed(partition));
    }

    /// Queues the durable effects of the core, and carries out the immediate effects.
    fn act(&self) {
        let effects = self.core.borrow_mut().take_effects();
        for effect in effects.immediate {
            match effect {
                Immediate::Strobe(nodes, strobe) => self.outbox.strobe(nodes, strobe),
                Immediate::SlicesChanged(partition) => self.slicing.changed(partition),
            }
        }
        effects.durable.into_iter().for_each(|effect| self.pending.effect(effect));
        self.pending.ring();
        let core = self.core.borrow();
        self.slicing.acted(|partition| core.is_coscheduled(partition));
    }

    /// Queues an action after all effects that the core has queued so far.
    pub(super) fn defer(&self, action: impl FnOnce() + 'static) {
        self.pending.action(action);
        self.pending.ring();
    }

    /// Waits for the instant at which the manager may act.
    pub(super) async fn time_to_act(&self) {
        let Some(every) = self.config.act_every else { return };
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let past_ns = self.now().as_nanos() % every_ns;
        if past_ns > 0 {
            let left = Duration::from_nanos(every_ns - past_ns);
            self.primitives.runtime().sleep(left).await;
        }
    }

    /// Sends a command at once, ahead of the effects that wait for the journal.
    pub(super) fn say(&self, nodes: NodeSet, command: Command) {
        self.outbox.say(nodes, command);
    }

    /// Sends a command after all effects that the core has queued so far. A command to a node that
    /// joins follows the answer to its join, since the node accepts nothing before that answer.
    pub(super) fn say_in_turn(&self, nodes: NodeSet, command: Command) {
        self.pending.effect(Durable::Command(nodes, command));
        self.pending.ring();
    }

    pub(super) fn fail(&self, error: impl Into<DriverError>) {
        self.pending.fail(error.into());
    }

    /// Orders the nodes to leave, and waits until they have left or [`DriverConfig::farewell`] is
    /// over.
    pub(super) async fn farewell(self: &Rc<Self>) {
        let nodes = self.primitives.membership().alive().difference(&NodeSet::single(NodeId::MM));
        self.say(nodes, Command::Shutdown);
        let membership = self.primitives.membership().clone();
        let all_left = async {
            let mut epoch = membership.epoch();
            while membership.alive().len() > 1 {
                epoch = membership.changed(epoch).await;
            }
        };
        self.primitives.runtime().timeout(self.config.farewell, all_left).await;
    }
}
