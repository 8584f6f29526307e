//! Clients that follow a job: they get its events and its output, and its nodes hold the output
//! while a client is behind.

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
    /// Lets a client follow a job.
    pub(super) fn subscribe(self: &Rc<Self>, job: JobId, sink: ReplySink) {
        let own = self.clients.subscribers().add(job, sink);
        self.drive(|core, _| core.release_output(job));
        let this = self.clone();
        let passing = self.primitives.runtime().spawn(async move {
            own.pass_on(|| this.adjust_flow(job)).await;
            this.unsubscribe(job, &own);
        });
        passing.detach();
    }

    fn unsubscribe(&self, job: JobId, gone: &Rc<Subscriber>) {
        if self.clients.subscribers().remove(job, gone) {
            self.adjust_flow(job);
        }
    }

    /// Passes an event of a job to the clients attached to it.
    pub(super) fn publish(&self, job: JobId, notice: Notice) {
        let reply = match notice {
            Notice::Event(reply) | Notice::Output(reply) => reply,
            // Only for clients that wait, not for those that follow.
            Notice::Over(_) => return,
        };
        self.clients.subscribers().push(job, &reply);
        self.adjust_flow(job);
    }

    /// The run of a job is over: its nodes hold no output any more and take no input.
    pub(super) fn forget_flow(&self, job: JobId) {
        self.clients.subscribers().run_is_over(job);
        self.forget_input(job);
    }

    /// Makes the nodes hold the job's output while a client is behind.
    fn adjust_flow(&self, job: JobId) {
        let Some(hold) = self.clients.subscribers().hold(job) else { return };
        let (step, nodes): (StepRef, NodeSet) = match self.core().job(job) {
            Ok(record) => (record.first_step(), record.step_nodes()),
            Err(_) => return,
        };
        self.say_in_turn(nodes, Command::HoldOutput { step, hold });
    }

    /// A node has rejoined: sends it again the jobs whose output is held.
    pub(super) fn hold_again(&self, node: NodeId) {
        let step_there = |job: JobId| {
            let core = self.core();
            let record = core.job(job).ok()?;
            let is_there = record.step_ranks().any(|share| share.node == node);
            is_there.then(|| record.first_step())
        };
        for step in self.clients.subscribers().held().into_iter().filter_map(step_there) {
            self.say_in_turn(NodeSet::single(node), Command::HoldOutput { step, hold: true });
        }
    }
}
