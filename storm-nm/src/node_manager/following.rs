//! Slices that this node begins by its own clock, as a strobe ordered them. The host gets the
//! switches ahead of time
//! ([decision 0091](../../../docs/decisions/0091-slices-by-the-nodes-clocks.md)). `SliceOrder`
//! decides which ones, and when they are recalled.

use super::Node;
use crate::Host;
use crate::core::{Action, Event, NodeCore};
use crate::slice_order::{Begun, SliceOrder};
use crate::switch_log::SwitchLog;
use std::cell::{Cell, RefCell};
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;
use storm_rm::message::{Slices, Strobe};

/// The slices of this node, and the times of its switches.
#[derive(Debug)]
pub(super) struct OwnSlices {
    order: RefCell<SliceOrder>,
    log: RefCell<SwitchLog>,
    /// Whether the core's actions for an event are being done. An action may itself cause an event.
    in_event: Cell<bool>,
}

impl OwnSlices {
    /// No slices, and a log of the last `records` switches.
    pub(super) fn new(records: usize) -> OwnSlices {
        OwnSlices {
            order: RefCell::default(),
            log: RefCell::new(SwitchLog::new(records)),
            in_event: Cell::new(false),
        }
    }

    /// Begins an event. Returns false within another event.
    pub(super) fn enter(&self) -> bool {
        !self.in_event.replace(true)
    }

    /// Lets the core take an event, and recalls from the host what the event makes wrong.
    pub(super) fn take(
        &self,
        core: &RefCell<NodeCore>,
        event: Event,
        host: &impl Host,
    ) -> Vec<Action> {
        let mut order = self.order.borrow_mut();
        let (actions, begun) = order.take(&mut core.borrow_mut(), event, || host.withdraw_ahead());
        self.note(begun);
        actions
    }

    /// Recalls all orders from the host.
    pub(super) fn recall(&self, core: &RefCell<NodeCore>, host: &impl Host) {
        let mut order = self.order.borrow_mut();
        let begun = order.recall(&mut core.borrow_mut(), || host.withdraw_ahead());
        self.note(begun);
    }

    fn note(&self, begun: Vec<Begun>) {
        for Begun { done, switched } in begun {
            self.record(done.strobe, (done.before, done.after), switched);
        }
    }

    /// Records a switch.
    pub(super) fn record(
        &self,
        strobe: Strobe,
        times: (Instant, Instant),
        switched: (usize, usize),
    ) {
        self.log.borrow_mut().record(strobe, times, switched);
    }

    /// Ends an event: orders the coming slices from the host, unless it has orders that are right.
    fn leave(&self, core: &RefCell<NodeCore>, host: &impl Host, now: Instant) {
        let mut order = self.order.borrow_mut();
        let plan = order.order(|| core.borrow().row_jobs());
        if !plan.is_empty() && !host.switch_ahead(now, plan) {
            order.refused();
        }
        self.in_event.set(false);
    }

    /// Whether the host has orders, and may switch by itself.
    pub(super) fn are_ordered(&self) -> bool {
        self.order.borrow().is_ordered()
    }

    /// The first switch that the host does at `time` or later.
    pub(super) fn due_from(&self, time: Instant) -> Option<Instant> {
        self.order.borrow().due_from(time)
    }

    /// Forgets the slices of a life in the cluster. The host has no orders any more.
    pub(super) fn forget(&self) {
        self.order.borrow_mut().forget();
    }

    /// Takes the log, which is empty afterwards.
    pub(super) fn take_log(&self) -> SwitchLog {
        self.log.replace(SwitchLog::new(0))
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Begins these slices of a partition when they are due, in place of earlier ones.
    pub(super) fn follow(&self, partition: PartitionId, slices: Option<Slices>) {
        self.slices.order.borrow_mut().follow(partition, slices, self.runtime.now());
    }

    /// Recalls the host's orders, and reports to the core which slices have begun.
    pub(super) fn recall_slices(&self) {
        self.slices.recall(&self.core, &self.host);
    }

    /// Orders from the host the switches of the coming slices, by the present state.
    pub(super) fn order_ahead(&self) {
        self.slices.leave(&self.core, &self.host, self.runtime.now());
    }
}
