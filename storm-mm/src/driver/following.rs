//! Clients that follow a job or a step: they get its events and its output, and its nodes hold the
//! output while a client is behind.

use super::followed::Followed;
use super::subscriber::Subscriber;
use super::{Contents, Shared};
use crate::Notice;
use crate::api::{JobState, Reply, ReplySink};
use std::rc::Rc;
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::message::Command;
use storm_rm::{JobId, StepRef};

/// Whether an event ends a run of a job: it is over, or waits again.
pub(super) fn ends_the_run(reply: &Reply) -> bool {
    matches!(reply, Reply::Ended { .. } | Reply::State { state: JobState::Pending, .. })
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    /// Lets a client follow a job or a step.
    pub(super) fn subscribe(self: &Rc<Self>, followed: Followed, sink: ReplySink) {
        let own = self.clients.subscribers().add(followed, sink);
        if let Followed::Job(job) = followed {
            self.drive(|core, _| core.release_output(job));
        }
        let this = self.clone();
        let passing = self.primitives.runtime().spawn(async move {
            own.pass_on(|| this.adjust_flow(followed)).await;
            this.unsubscribe(followed, &own);
        });
        passing.detach();
    }

    fn unsubscribe(&self, followed: Followed, gone: &Rc<Subscriber>) {
        if self.clients.subscribers().remove(followed, gone) {
            self.adjust_flow(followed);
        }
    }

    /// Passes an event of a job or a step to the clients attached to it.
    pub(super) fn publish(&self, followed: Followed, notice: Notice) {
        let reply = match notice {
            Notice::Event(reply) | Notice::Output(reply) => reply,
            // Only for clients that wait, not for those that follow.
            Notice::Over(_) => return,
        };
        self.clients.subscribers().push(followed, &reply);
        self.adjust_flow(followed);
    }

    /// The run of a job is over: its nodes hold no output any more and take no input.
    pub(super) fn forget_flow(&self, job: JobId) {
        self.clients.subscribers().run_is_over(Followed::Job(job));
        self.forget_input(job);
    }

    /// Makes the nodes hold the output of a job or a step while a client is behind.
    pub(super) fn adjust_flow(&self, followed: Followed) {
        let Some(hold) = self.clients.subscribers().hold(followed) else { return };
        let Some((step, nodes)) = self.step_followed(followed) else { return };
        self.say_in_turn(nodes, Command::HoldOutput { step, hold });
    }

    /// A client has returned to a step: its nodes, which may have held its output since the manager
    /// was restarted, send the output again.
    pub(super) fn release_step_output(&self, followed: Followed) {
        // Another client may still be behind.
        self.clients.subscribers().hold(followed);
        let hold = self.clients.subscribers().held().contains(&followed);
        if let Some((step, nodes)) = self.step_followed(followed) {
            self.say_in_turn(nodes, Command::HoldOutput { step, hold });
        }
    }

    /// The step that is followed, and its nodes. `None` if it is over, or waits.
    fn step_followed(&self, followed: Followed) -> Option<(StepRef, NodeSet)> {
        let core = self.core();
        match followed {
            Followed::Job(job) => {
                let record = core.job(job).ok()?;
                Some((record.first_step(), record.step_nodes()))
            }
            Followed::Step(job, ask) => core.asked_step(job, ask),
        }
    }

    /// A node has rejoined: sends it again the jobs and steps whose output is held.
    pub(super) fn hold_again(&self, node: NodeId) {
        for followed in self.clients.subscribers().held() {
            if let Some((step, nodes)) = self.step_followed(followed)
                && nodes.contains(node)
            {
                self.say_in_turn(NodeSet::single(node), Command::HoldOutput { step, hold: true });
            }
        }
    }
}
