//! Carries out the durable effects of the core, in order, once the journal entries before them are
//! durable.

use super::followed::Followed;
use super::job_tasks::Duty;
use super::pending::Item;
use super::{Contents, DriverError, Shared, staging, step_orders, watches};
use crate::journal::Journal;
use crate::{Durable, Notice};
use std::rc::Rc;
use storm_primitives::{Primitives, Runtime};
use storm_rm::JobId;

/// Runs until the cluster is down or the manager must stop.
pub(super) async fn run<P: Primitives, J: Journal, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    journal: &J,
) -> Result<(), DriverError> {
    loop {
        let entries = shared.pending.begin();
        if let Some(error) = shared.pending.take_failure() {
            return Err(error);
        }
        let Some(entries) = entries else {
            if shared.core().is_down() {
                return Ok(());
            }
            shared.pending.news().await;
            continue;
        };
        if !entries.is_empty() {
            journal.append(entries).await?;
        }
        while let Some(item) = shared.pending.next() {
            match item {
                Item::Effect(effect) => perform(shared, effect),
                Item::Action(action) => action(),
            }
        }
    }
}

fn perform<P: Primitives, C: Contents + 'static>(shared: &Rc<Shared<P, C>>, effect: Durable) {
    match effect {
        Durable::Journal(..) => {}
        Durable::Command(nodes, command) => shared.say(nodes, command),
        Durable::Draft(nodes, draft) => shared.outbox.say(nodes, draft),
        Durable::Step(order) => step_orders::perform(shared, order),
        Durable::Stage(stage) => {
            let job = stage.job;
            let task = shared.primitives.runtime().spawn(staging::run(shared.clone(), stage));
            shared.runs.set_task(job, Duty::Staging, task);
        }
        Durable::AbandonStaging(job) => shared.runs.end_tasks_of(job),
        Durable::AwaitStarted(watch) => shared.runs.starting().watch(watch),
        Durable::NameUnstarted(watch) => {
            let (job, run) = (watch.step.job, watch.incarnation);
            let number = shared.core().further_step(job, run);
            let asking = watches::name_unstarted(shared.clone(), watch);
            let task = shared.primitives.runtime().spawn(asking);
            let duty = number.map_or(Duty::Launch, Duty::StepLaunch);
            shared.runs.set_task(job, duty, task);
        }
        Durable::AwaitTermination(watch) => shared.runs.terminating().watch(watch),
        Durable::Timer { at, timer } => {
            let due = shared.primitives.runtime().sleep_until(at);
            let this = shared.clone();
            let task = shared.primitives.runtime().spawn(async move {
                due.await;
                this.drive(|core, now| core.timer(now, timer));
            });
            shared.runs.set_timer(timer, task);
        }
        Durable::Notify(job, notice) => notify(shared, job, notice),
        Durable::NotifyStep(job, ask, notice) => shared.notify_step(job, ask, notice),
    }
}

fn notify<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    job: JobId,
    notice: Notice,
) {
    let run_is_over = match &notice {
        Notice::Over(view) => return shared.clients.waits().end(job, view.as_deref()),
        Notice::Output(_) => false,
        Notice::Event(reply) => super::following::ends_the_run(reply),
    };
    if run_is_over {
        shared.runs.end(job);
    }
    shared.publish(Followed::Job(job), notice);
    if run_is_over {
        shared.forget_flow(job);
    }
}
