//! Reports the classes of ranks under flexible coscheduling to the Machine Manager: when a class
//! changes, and the figures with each status.

use super::Node;
use crate::{Host, HostEvent, JobKey};
use std::rc::Rc;
use storm_primitives::Primitives;
use storm_rm::message::Report;
use storm_rm::termination::Urgency;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Takes an event of the host. Returns true if it needs no further handling.
    pub(super) fn hear_of_classes(self: &Rc<Self>, event: &HostEvent) -> bool {
        let HostEvent::Classified { job } = event else { return false };
        self.tell_classes(*job);
        true
    }

    /// Reports the classes of all jobs that have classes.
    pub(super) fn tell_all_classes(self: &Rc<Self>) {
        let jobs: Vec<JobKey> = self.core.borrow().jobs().collect();
        jobs.into_iter().for_each(|job| self.tell_classes(job));
    }

    fn tell_classes(self: &Rc<Self>, key: JobKey) {
        let heard = self.core.borrow().is_heard(key);
        let ranks = if heard { self.host.classes(key) } else { Vec::new() };
        if !ranks.is_empty() {
            let JobKey { step, incarnation } = key;
            let report = Report::Classes { step, incarnation, ranks };
            self.post(report, Urgency::WhenConvenient);
        }
    }
}
