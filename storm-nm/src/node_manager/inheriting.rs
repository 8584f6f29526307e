//! Going on with the jobs of a former node manager of this node, and leaving them to the next one.

use super::Node;
use crate::core::Event;
use crate::{Host, HostEvent, InheritedInput};
use std::rc::Rc;
use storm_primitives::Primitives;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Takes over what a former node manager has left; whether there was anything.
    pub(super) fn inherit(self: &Rc<Self>) -> bool {
        let all = self.host.inherit();
        let any = !all.is_empty();
        for inherited in all {
            let job = inherited.task.key();
            let mut answers = self.core.borrow_mut().inherit(&inherited);
            self.inherit_output(job, inherited.outputs);
            let reads = |input: &InheritedInput| inherited.task.reads_input(input.rank);
            for input in inherited.inputs.into_iter().filter(reads) {
                self.inputs.inherit(job, input);
            }
            self.open_streams(&inherited.task);
            for (rank, line) in inherited.open_requests {
                match (line, answers.remove(&rank)) {
                    (Some(line), _) => {
                        self.handle(Event::Host(HostEvent::Pmi { job, rank, line }));
                    }
                    (None, Some(answer)) => self.host.pmi_reply(job, rank, &answer),
                    // It is answered when its barrier is over.
                    (None, None) => {}
                }
            }
            if let Some(reason) = inherited.flaw {
                self.handle(Event::Unserviceable { job, reason });
            }
        }
        any
    }

    /// Whether jobs go on without this node manager.
    pub(super) fn leaves_jobs(&self) -> bool {
        // Also one that is over here: the Machine Manager may not have heard of it.
        self.host.keeps_jobs().is_some() && self.core.borrow().jobs().next().is_some()
    }
}
