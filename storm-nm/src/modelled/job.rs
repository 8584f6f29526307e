//! A job on a modelled node: its processes, and their stops and resumes.

use super::flexible::Flexible;
use super::ledger::Ledger;
use super::process::{Freezer, Process};
use crate::classes::ClassRules;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::{Instant, Runtime};
use storm_rm::message::CutLaunch;
use storm_rm::{Coscheduling, Rank, RowSet};

#[derive(Debug)]
pub(super) struct Job<R: Runtime> {
    pub(super) rows: Cell<RowSet>,
    pub(super) freezer: Rc<Freezer>,
    /// Set under flexible coscheduling.
    pub(super) flexible: RefCell<Option<Flexible>>,
    /// Number of stops and resumes so far; a resume that is outdated has no effect.
    pub(super) switches: Cell<u64>,
    /// Whether the job was resumed and the processors have not changed hands yet.
    pub(super) is_resuming: Cell<bool>,
    /// The ledger that outlives the node manager. Without a ledger the job ends with it.
    pub(super) ledger: Option<Ledger>,
    /// The parts of the job that the keeper lacks.
    pub(super) cut: Cell<Option<CutLaunch>>,
    pub(super) processes: RefCell<BTreeMap<Rank, Rc<Process<R>>>>,
}

impl<R: Runtime> Job<R> {
    /// Stops or resumes the job. Returns whether the class of a process has changed.
    pub(super) fn set_stopped(&self, stopped: bool, now: Instant) -> bool {
        let processes = self.processes.borrow();
        if let Some(flexible) = &mut *self.flexible.borrow_mut() {
            let changed = flexible.switch(!stopped, now, &processes);
            self.freezer.set(flexible.apply(&processes));
            return changed;
        }
        self.freezer.set(stopped);
        for share in processes.values().filter_map(|process| process.share()) {
            share.hold(stopped);
        }
        false
    }

    /// Changes how its processes are coscheduled, and so their shares.
    pub(super) fn coschedule(&self, coscheduling: Coscheduling, rules: ClassRules, now: Instant) {
        let in_slot = match &*self.flexible.borrow() {
            Some(flexible) => flexible.in_slot(),
            None => !self.freezer.is_frozen(),
        };
        let ranks: Vec<Rank> = self.processes.borrow().keys().copied().collect();
        let flexible = coscheduling == Coscheduling::Flexible;
        *self.flexible.borrow_mut() = flexible.then(|| {
            let mut flexible = Flexible::new(rules, ranks.into_iter(), now);
            flexible.set_rows(self.rows.get());
            flexible
        });
        self.set_stopped(!in_slot, now);
    }
}
