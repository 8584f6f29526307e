//! The loop of the node manager, which connects the network, the node and the core.

mod buffered;
mod classes;
mod exit_reason;
mod following;
mod handing_over;
mod inheriting;
mod inputs;
mod leasing;
mod life_state;
mod node_tasks;
mod reception;
mod returning;
mod streams;

use crate::core::{Action, CoreConfig, Event, NodeCore};
use crate::outbox::Outbox;
use crate::switch_log::SwitchLog;
use crate::{Host, NmConfig};
use buffered::BufferedJobs;
pub use exit_reason::ExitReason;
use following::OwnSlices;
use futures_util::future::{Either, select};
use leasing::Leasing;
pub use life_state::Life;
use life_state::LifeState;
use node_tasks::NodeTasks;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use storm_primitives::{Primitives, Runtime};
use storm_rm::GlobalPlan;
use storm_rm::heartbeat::{heartbeat_handled, receive_heartbeat};
use storm_rm::message::{Command, Heartbeat, MAX_REPORT_BYTES, Report};
use storm_rm::remote_queue::{Reader, Writer};
use storm_rm::termination::{Outbox as _, Urgency, announce_termination};
use streams::Streams;

/// The result of a node manager.
#[derive(Clone, Debug)]
pub struct NmExit {
    /// Why it ended.
    pub reason: ExitReason,
    /// The times of its switches.
    pub switches: SwitchLog,
}

/// Runs the node manager of `primitives.node()` until the Machine Manager shuts it down or the
/// cluster is lost. By then its jobs have ended.
pub async fn run<P: Primitives, H: Host>(
    primitives: P,
    plan: GlobalPlan,
    host: H,
    config: NmConfig,
) -> NmExit {
    run_and_return(primitives, plan, host, config, async || None::<P>).await
}

/// Like [`run`], but keeps jobs when the node is cut off or its Machine Manager is gone. For
/// [`NmConfig::manager_lost`], `way_back` may join the cluster again, under another id or plan of
/// global memory ([`Life`]). `way_back` completes with `None` if there is no way back.
pub async fn run_and_return<P: Primitives, H: Host, L: Into<Life<P>>>(
    primitives: P,
    plan: GlobalPlan,
    host: H,
    config: NmConfig,
    mut way_back: impl AsyncFnMut() -> Option<L>,
) -> NmExit {
    let info = host.info(primitives.node());
    let node = Rc::new(Node::new(primitives, plan, host, config, &info));
    // Cancels the tasks, which hold the node, even when this future is dropped.
    let _guard = CancelOnDrop(node.clone());
    let mut returns = node.inherit();
    node.watch_host();
    let reason = loop {
        let reason = match node.begin(info.clone(), returns) {
            Ok(()) => node.serve().await,
            Err(reason) => reason,
        };
        match node.return_after(&reason, &mut way_back).await {
            Some(life) => node.begin_life(life),
            None => break reason,
        }
        returns = true;
    };
    let asked = reason.is_lost_link() && node.host.is_asked_to_end();
    let reason = if asked { ExitReason::AskedToEnd } else { reason };
    node.recall_slices();
    if asked && node.leaves_jobs() {
        tracing::info!(node = node.life.name(), "leaving its jobs to the next Node Manager");
        node.host.detach();
    } else {
        node.leave(&reason).await;
    }
    node.recall_slices();
    NmExit { reason, switches: node.slices.take_log() }
}

struct CancelOnDrop<P: Primitives, H: Host>(Rc<Node<P, H>>);

impl<P: Primitives, H: Host> Drop for CancelOnDrop<P, H> {
    fn drop(&mut self) {
        self.0.tasks.end();
        self.0.end_life();
    }
}

/// A node manager. Each kind of state is a type of its own, which alone may change it
/// (`docs/decisions/0146-the-nodes-rooms.md`).
struct Node<P: Primitives, H: Host> {
    runtime: P::Runtime,
    host: H,
    config: NmConfig,
    core: RefCell<NodeCore>,
    life: LifeState<P>,
    tasks: NodeTasks,
    leasing: Leasing,
    slices: OwnSlices,
    streams: Streams,
    buffered: BufferedJobs,
}

impl<P: Primitives, H: Host> Node<P, H> {
    fn new(
        primitives: P,
        plan: GlobalPlan,
        host: H,
        config: NmConfig,
        info: &storm_rm::message::NodeInfo,
    ) -> Node<P, H> {
        let name = host.name(primitives.node());
        let core = NodeCore::new(CoreConfig {
            node: primitives.node(),
            name: name.clone(),
            hostname: info.hostname.clone(),
            pes: info.pes,
            only_uid: info.only_uid,
        });
        let outbox = Outbox::new(plan.config.report_bytes as usize, config.output_backlog_bytes);
        Node {
            runtime: primitives.runtime().clone(),
            core: RefCell::new(core),
            life: LifeState::new(name, primitives, plan),
            tasks: NodeTasks::default(),
            leasing: Leasing::default(),
            slices: OwnSlices::new(config.switch_records),
            streams: Streams::new(outbox),
            buffered: BufferedJobs::default(),
            host,
            config,
        }
    }

    /// Reports that the node is here, with its jobs if it `returns`, and starts everything that
    /// runs concurrently with the heartbeats.
    fn begin(
        self: &Rc<Self>,
        info: storm_rm::message::NodeInfo,
        returns: bool,
    ) -> Result<(), ExitReason> {
        let (primitives, plan, node) = (self.life.link(), self.life.plan(), self.life.id());
        let queue = plan.reports(node).ok_or(ExitReason::NoPlace { node })?;
        let writer = Writer::new(primitives, queue);
        self.life.set_later(returns);
        if returns {
            self.say_what_is_held();
            self.say_whose_slices_are_back();
        }
        self.post(Report::Joined(info), Urgency::AtOnce);
        self.spawn_in_life(|node| async move {
            let outbox = node.streams.outbox();
            match outbox.send_all(&node.runtime, writer, node.config.coalesce).await {
                Err(error) => node.life.give_up(error.into()),
                Ok(never) => match never {},
            }
        });
        self.spawn_in_life(|node| async move {
            node.lost_cluster().await;
            node.life.give_up(ExitReason::Disconnected);
        });
        self.spawn_in_life(|node| async move { node.await_slices().await });
        self.spawn_in_life(|node| async move { node.hand_over_when_asked().await });
        self.lease_again();
        self.spawn_in_life(|node| async move {
            loop {
                node.runtime.sleep(node.config.status_interval).await;
                node.post(Report::Status(node.host.status()), Urgency::WhenConvenient);
                node.tell_all_classes();
            }
        });
        Ok(())
    }

    /// Takes events of the host, from the beginning to the end.
    fn watch_host(self: &Rc<Self>) {
        self.spawn(|node| async move {
            loop {
                let event = node.host.next_event().await;
                if event == crate::HostEvent::Lost {
                    node.life.give_up(ExitReason::HostLost);
                }
                if !node.hear(&event) && !node.hear_of_classes(&event) {
                    node.handle(Event::Host(event));
                }
            }
        });
    }

    /// RECEIVE-HEARTBEAT (Algorithm 5), for as long as this life in the cluster lasts.
    async fn serve(self: &Rc<Self>) -> ExitReason {
        let (primitives, plan) = (self.life.link(), self.life.plan());
        let mut reader = Reader::new(primitives.clone(), &plan.heartbeats);
        loop {
            let received = {
                let heartbeat = pin!(receive_heartbeat(&mut reader));
                let leave = pin!(self.life.exit());
                match select(heartbeat, leave).await {
                    Either::Left((received, _)) => received,
                    Either::Right((reason, _)) => return reason,
                }
            };
            match received {
                Ok((heartbeat, item)) => {
                    self.host.attend().await;
                    self.obey(&heartbeat);
                    heartbeat_handled(&primitives, &plan, &heartbeat);
                    reader.release(item);
                }
                Err(error) => return error.into(),
            }
            if self.life.is_asked_to_leave() {
                return ExitReason::Shutdown;
            }
        }
    }

    /// Carries out a heartbeat's commands for this node, without waiting: a strobe switches before
    /// the return. The answer to a join is handled first: strobes overtake the answer but count
    /// only after it.
    fn obey(self: &Rc<Self>, heartbeat: &Heartbeat) {
        let id = self.life.id();
        let here = heartbeat.commands.iter().filter(|(set, _)| set.contains(id));
        let is_answer = |command: &Command| matches!(command, Command::Resume { .. });
        for answers in [true, false] {
            for (_, command) in here.clone().filter(|(_, one)| is_answer(one) == answers) {
                match command {
                    Command::RefuseNode { configured_pes } => self.refused(*configured_pes),
                    Command::HandOver { runs } => self.buffered.handing.answer(runs.clone()),
                    Command::FenceDone { step, sequence, puts } => {
                        self.host.remember_fence(*step, *sequence, puts);
                        self.handle(Event::Command(command.clone()));
                    }
                    command => {
                        if let Command::Resume { clients, .. } = command {
                            self.host.clients_connect_at(*clients);
                        }
                        self.handle(Event::Command(command.clone()));
                        if is_answer(command) {
                            self.life.accepted();
                        }
                    }
                }
            }
        }
    }

    /// Ends all jobs and their helpers. A Machine Manager that ordered the end still receives the
    /// reports of how the jobs ended.
    async fn leave(self: &Rc<Self>, reason: &ExitReason) {
        tracing::info!(node = %self.life.name(), %reason, "leaving");
        self.handle(Event::Leave);
        let runtime = self.runtime.clone();
        let idle = self.life.until_core(|| self.core.borrow().is_idle());
        if runtime.timeout(self.config.leave_timeout, idle).await.is_none() {
            tracing::error!("processes of jobs do not die; leaving without them");
        }
        if matches!(reason, ExitReason::Shutdown | ExitReason::HostLost) {
            // A Machine Manager that is gone does not miss the reports.
            let _ =
                runtime.timeout(self.config.leave_timeout, self.streams.outbox().flushed()).await;
        }
        self.host.leave().await;
    }

    /// Passes an event to the core and carries out its actions.
    fn handle(self: &Rc<Self>, event: Event) {
        let outermost = self.slices.enter();
        let is_turn = matches!(event, Event::Waiting { .. });
        let actions = self.slices.take(&self.core, event, &self.host);
        for action in actions {
            self.perform(action);
        }
        if outermost {
            self.order_ahead();
            self.look_at_turns(is_turn);
        }
        self.life.core_changed();
    }

    fn perform(self: &Rc<Self>, action: Action) {
        match action {
            Action::Switch { strobe, stop, resume } => {
                debug_assert!(!self.slices.are_ordered(), "a switch without the host's knowledge");
                let before = self.runtime.now();
                self.host.switch(strobe.as_ref(), &stop, &resume);
                if let Some(strobe) = strobe {
                    let times = (before, self.runtime.now());
                    self.slices.record(strobe, times, (stop.len(), resume.len()));
                }
            }
            Action::Follow { partition, slices } => self.follow(partition, slices),
            Action::Rows { job, rows } => self.host.set_rows(job, rows),
            Action::Coschedule { job, coscheduling } => self.host.coschedule(job, coscheduling),
            Action::Receive(info) => self.receive(info),
            Action::RefuseFile { info, reason } => self.refuse_file(&info, reason),
            Action::Prepare(task) if !self.open_slices(&task) => {}
            Action::Prepare(task) => self.spawn(|node| async move {
                let outcome = node.host.prepare(&task).await;
                node.handle(Event::Prepared { job: task.key(), outcome });
            }),
            Action::Launch { task, stopped } => {
                self.lease(&task);
                self.host.launch(&task, stopped);
                self.open_streams(&task);
            }
            Action::Signal { job, signal, whom } => self.host.signal(job, signal, whom),
            Action::GrantSignalGrace { job } => self.spawn(|node| async move {
                node.runtime.sleep(node.config.signal_grace).await;
                node.handle(Event::SignalGraceOver { job });
            }),
            Action::Destroy { job } => self.host.destroy(job),
            Action::HoldOutput { job, hold } => self.hold_output(job, hold),
            Action::End { job } => {
                self.close_slices(job);
                self.host.end(job);
            }
            Action::Forget { job } => {
                self.close_slices(job);
                self.streams.inputs().forget(job);
                self.streams.forget_output(job);
                self.host.forget(job);
            }
            Action::Input { job, ranks, offset, data, eof } => {
                self.input(job, &ranks, (offset, &data), eof);
            }
            Action::TellInput { job, ranks } => self.tell_input(job, &ranks),
            Action::DropInput { job, rank } => self.drop_input(job, rank),
            Action::PmiReply { job, rank, line } => self.host.pmi_reply(job, rank, &line),
            Action::RankGone { job, rank } => self.rank_gone(job, rank),
            Action::ClosePmi { job, rank } => self.host.close_pmi(job, rank),
            Action::MarkStarted { slot, incarnation } => {
                if let Some(flag) = self.life.plan().started(slot) {
                    self.life.link().memory().store(flag, incarnation.0);
                }
            }
            Action::Announce { part, report } => {
                let (link, mut outbox) = (self.life.link(), self.streams.outbox().clone());
                announce_termination(&link, &self.life.plan(), &part, || report, &mut outbox);
            }
            Action::Post { report, urgency } => self.post(report, urgency),
            Action::Leave => self.life.ask_to_leave(),
        }
    }

    /// Queues a report. If the report is too large, ends its job, which would wait for the report's
    /// effect for ever.
    fn post(self: &Rc<Self>, report: Report, urgency: Urgency) {
        if let Report::Fence { step, .. } = &report
            && !self.streams.outbox().try_post(&report, urgency)
        {
            let reason = format!(
                "the keys that its ranks put before a PMI barrier do not fit a report of \
                 {MAX_REPORT_BYTES} bytes"
            );
            tracing::error!(%step, %reason, "a step is ended");
            let keys: Vec<_> = self.core.borrow().jobs().filter(|key| key.step == *step).collect();
            for job in keys {
                self.handle(Event::Unserviceable { job, reason: reason.clone() });
            }
        } else if !matches!(report, Report::Fence { .. }) {
            self.streams.outbox().clone().post(report, urgency);
        }
    }

    /// Runs a future of this node concurrently.
    fn spawn<F: Future<Output = ()> + 'static>(self: &Rc<Self>, make: impl FnOnce(Rc<Self>) -> F) {
        self.tasks.spawn(&self.runtime, make(self.clone()));
    }

    /// The same, until this life in the cluster ends.
    fn spawn_in_life<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        make: impl FnOnce(Rc<Self>) -> F,
    ) {
        self.tasks.spawn_in_life(&self.runtime, make(self.clone()));
    }
}
