//! Continues the jobs of a former node manager of this node, and leaves jobs to the next node
//! manager.

use super::Node;
use crate::core::Event;
use crate::{Flaw, Host, HostEvent, InheritedInput};
use std::rc::Rc;
use storm_primitives::Primitives;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Takes over the jobs of a former node manager. Returns whether there were any.
    pub(super) fn inherit(self: &Rc<Self>) -> bool {
        let all = self.host.inherit();
        let any = !all.is_empty();
        for mut inherited in all {
            let job = inherited.task.key();
            let mut answers = self.core.borrow_mut().inherit(&inherited);
            let flaw = self.inherit_slices(&inherited.task, inherited.slices.take());
            self.inherit_output(job, inherited.outputs);
            let reads = |input: &InheritedInput| inherited.task.reads_input(input.rank);
            for input in inherited.inputs.into_iter().filter(reads) {
                self.streams.inputs().inherit(job, input);
            }
            self.open_streams(&inherited.task);
            for (rank, line) in inherited.open_requests {
                match (line, answers.remove(&rank)) {
                    (Some(line), _) => {
                        let request = HostEvent::Pmi { job, rank, line };
                        if !self.hear(&request) {
                            self.handle(Event::Host(request));
                        }
                    }
                    (None, Some(answer)) => self.host.pmi_reply(job, rank, &answer),
                    // The rank gets its answer when its barrier ends.
                    (None, None) => {}
                }
            }
            match inherited.flaw.or(flaw) {
                Some(Flaw::LaunchCut(cut)) => self.handle(Event::LaunchCut { job, cut }),
                Some(Flaw::Unserviceable(reason)) => {
                    self.handle(Event::Unserviceable { job, reason });
                }
                None => {}
            }
        }
        any
    }

    /// Whether jobs continue without this node manager.
    pub(super) fn leaves_jobs(&self) -> bool {
        // Includes a job that is over here, as the Machine Manager may not have received the report
        // of its end.
        self.host.keeps_jobs().is_some() && self.core.borrow().jobs().next().is_some()
    }
}
