//! Switches that a modelled node does by itself when they are due.

use super::ModelledHost;
use crate::ahead::DueSwitch;
use crate::{Host, SwitchAhead, SwitchDone};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use storm_primitives::{Runtime, Task};

/// The switches that are ordered ahead on a node.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Does the switches until it is dropped.
    task: RefCell<Option<Task>>,
    done: Rc<RefCell<Vec<SwitchDone>>>,
    /// How often orders were withdrawn.
    withdrawals: Cell<u64>,
}

impl Ahead {
    pub(super) fn order<R: Runtime>(
        &self,
        host: &ModelledHost<R>,
        runtime: &R,
        plan: Vec<SwitchAhead>,
    ) {
        let (done, host, own) = (self.done.clone(), host.clone(), runtime.clone());
        let task = runtime.spawn(async move {
            let mut plan = VecDeque::from(plan);
            while let Some(next) = plan.front() {
                own.sleep_until(next.due).await;
                host.attend().await;
                let before = own.now();
                let Some(due) = DueSwitch::take(&mut plan, before) else { continue };
                let mut strobes = due.strobes();
                host.switch(strobes.next(), &due.jobs.stop, &due.jobs.resume);
                strobes.for_each(|strobe| host.switch(Some(strobe), &[], &[]));
                done.borrow_mut().extend(due.done((before, own.now())));
            }
        });
        let former = self.task.replace(Some(task));
        drop(former);
    }

    pub(super) fn withdraw(&self) -> Vec<SwitchDone> {
        let task = self.task.take();
        self.withdrawals.update(|count| count + u64::from(task.is_some()));
        drop(task);
        self.done.take()
    }

    pub(super) fn withdrawals(&self) -> u64 {
        self.withdrawals.get()
    }
}
