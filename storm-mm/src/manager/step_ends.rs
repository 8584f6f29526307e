//! The end of steps: reported, ordered, or because the job ends
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`, number 12).

use super::ending::{SIGTERM, outcome};
use super::live::{Launch, Piece};
use super::reports::end_by;
use super::step_order::StepOrderKind;
use super::steps::step_ref;
use super::{Core, Durable, StepTimer, Timer};
use crate::job::{EndCause, EndedStep, Phase, StepEvent, StepUse};
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, RankExit, Report};
use storm_rm::{JobId, JobIncarnation};

impl Core {
    /// A report about a run that is a further step's. Returns the report if the run is not.
    pub(super) fn report_of_step(
        &mut self,
        now: Instant,
        node: NodeId,
        report: Report,
    ) -> Option<Report> {
        let (job, run) = match run_of(&report) {
            Some(of_run) => of_run,
            None => return Some(report),
        };
        let Some(number) = self.live.step_of_run(job, run) else { return Some(report) };
        let step = (job, number);
        let has_part = self.live.step(job, number).is_some_and(|step| step.has_part_on(node));
        match report {
            _ if !has_part => return None,
            Report::Terminated { ranks, .. } => {
                self.step_part_over(step, node, ranks);
                self.end_step_if_in_vain(now, step);
            }
            Report::Started { .. } => self.step_part_started(now, step),
            Report::LaunchFailed { reason, exit_code, .. } => {
                self.live.count_failure();
                self.end_step(now, step, EndCause::LaunchFailed { reason, exit_code });
            }
            Report::Aborted { rank, exit_code, .. } => {
                // The last byte, as in wait(2).
                let exit_code = (exit_code & 0xff) as u8;
                self.end_step(now, step, EndCause::Aborted { rank, exit_code });
            }
            Report::RankFailed { exit, joined, .. } => {
                self.step_rank_failed(now, step, node, &exit, joined);
            }
            Report::JobFailed { reason, .. } => {
                self.end_step(now, step, EndCause::Unserviceable { reason });
            }
            Report::OverMemory { reason, .. } => {
                self.end_step(now, step, EndCause::OverMemory { reason });
            }
            Report::LeaseOver { .. } => {
                // The node has ended its part of the whole job.
                let incarnation = self.live.get(job).map(|live| live.incarnation())?;
                return Some(Report::LeaseOver { step: self.first_step(job), incarnation });
            }
            Report::Output { rank, stream, offset, data, .. } => {
                self.step_output(step, Piece { rank, stream, offset, data });
                return None;
            }
            Report::RankLeft { rank, .. } => self.step_rank_left(now, step, (node, rank)),
            Report::Classes { ranks, .. } => self.step_classes_told(now, step, node, ranks),
            Report::LaunchCut { cut, .. } => {
                let (node, cut) = (self.node_name(node), cut.into());
                self.end_step(now, step, EndCause::LaunchCut { node, cut, launches: 1 });
            }
            Report::Joined(_)
            | Report::Status(_)
            | Report::FileFailed { .. }
            | Report::InputTaken { .. }
            | Report::Fence { .. }
            | Report::ProcessesLost
            | Report::Holds { .. }
            | Report::InSlices { .. }
            | Report::Leaving
            | Report::SlicesBack { .. }
            | Report::Part { .. } => {}
        }
        self.finish_if_over(now, job);
        None
    }

    /// A rank of a step ended otherwise than with status 0.
    fn step_rank_failed(
        &mut self,
        now: Instant,
        step: (JobId, u32),
        node: NodeId,
        exit: &RankExit,
        joined: bool,
    ) {
        let known = self.step_record(step);
        let kills = known.is_some_and(|(_, step)| step.spec.kill_on_bad_exit);
        if let Some(cause) = end_by(self.node_name(node), exit, joined, kills) {
            self.end_step(now, step, cause);
        }
    }

    /// The announcer of a step reports that its ranks execute: now the other nodes are queried.
    fn step_part_started(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some(step) = self.live.step(job, number) else { return };
        if step.nodes().len() == 1 {
            return self.step_started(now, (job, number));
        }
        if step.launch() == Launch::Launched {
            self.effects.durable.push(Durable::AwaitStarted(step.watch(step_ref(job, number))));
        }
    }

    /// A node's ranks of a step have all ended.
    fn step_part_over(&mut self, (job, number): (JobId, u32), node: NodeId, ranks: Vec<RankExit>) {
        let known = self.step_record((job, number));
        let shares = known.map_or(&[][..], |(_, step)| &step.ranks);
        let share = shares.iter().find(|share| share.node == node).cloned();
        // Reports of a node count only for its own ranks.
        let own = |exit: &RankExit| share.as_ref().is_some_and(|share| share.has(exit.rank));
        let exits = ranks.into_iter().filter(own);
        let first = self.live.step_part_over((job, number), node, exits);
        let Some(step) = self.live.step(job, number) else { return };
        if first == Some(true) && !step.is_over() && step.launch() != Launch::Recovering {
            self.effects.durable.push(Durable::AwaitTermination(step.watch(step_ref(job, number))));
        }
    }

    /// The flags of all nodes show that a step has ended (Algorithm 8). Its elements serve the next
    /// step, though reports of its ranks' ends may still be on their way.
    pub(super) fn step_terminated(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let known = self.live.step(job, number);
        let counts = known.is_some_and(|step| step.launch() != Launch::Recovering);
        if let Some((_, step)) = self.step_record((job, number)).filter(|_| counts) {
            let ask = step.ask;
            self.live.free_elements(job, ask);
            self.grant_steps(now, job);
        }
    }

    /// Begins the end of a step, in whatever phase it is. A step that ends already is left alone.
    pub(super) fn end_step(&mut self, now: Instant, (job, number): (JobId, u32), cause: EndCause) {
        let Some(launch) = self.live.step(job, number).map(|step| step.launch()) else { return };
        let Some((_, known)) = self.step_record((job, number)) else { return };
        if known.ending.is_some() {
            return;
        }
        let run = known.run;
        let ending = StepEvent::Ending { cause: cause.clone() };
        self.append_of_step(now, (job, number), ending);
        match launch {
            Launch::Staging | Launch::Staged => {
                self.order((job, number), run, NodeSet::new(), StepOrderKind::AbandonStaging);
                self.finish_step(now, (job, number));
            }
            Launch::Recovering | Launch::Launched | Launch::Started => {
                let nodes = self.live.begin_step_end((job, number));
                self.order_step_end(now, (job, number), nodes, &cause);
            }
        }
    }

    /// Orders nodes to end their part of a step. A step that was not seen to execute gets no time:
    /// a node that still prepares it would drop the signal, and start it.
    pub(super) fn order_step_end(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        nodes: NodeSet,
        cause: &EndCause,
    ) {
        let Some((_, known)) = self.step_record((job, number)) else { return };
        let (run, executes) = (known.run, known.started.is_some());
        if cause.asks_first() && executes {
            let signal = StepOrderKind::Signal { signal: SIGTERM };
            self.order((job, number), run, nodes, signal);
            self.arm_step(now + self.config.kill_grace, (job, number), run, StepTimer::Kill);
        } else {
            self.order((job, number), run, nodes, StepOrderKind::Destroy);
        }
    }

    /// Sends the further steps of a job a signal that are on nodes. Returns whether there are any.
    pub(super) fn signal_steps(&mut self, job: JobId, signal: i32) -> bool {
        let Some(live) = self.live.get(job) else { return false };
        let steps =
            live.steps().into_iter().filter_map(|number| Some((number, live.step(number)?)));
        let steps = steps.filter(|(_, step)| {
            matches!(step.launch(), Launch::Recovering | Launch::Launched | Launch::Started)
        });
        let orders = steps.map(|(number, step)| (number, step.run(), live.holders_of(step)));
        let orders: Vec<_> = orders.collect();
        for (number, run, nodes) in &orders {
            let kind = StepOrderKind::Signal { signal };
            self.order((job, *number), *run, nodes.clone(), kind);
        }
        !orders.is_empty()
    }

    /// A job is to end, or its script has ended: no step of the job waits any longer, and all are
    /// to end.
    pub(super) fn end_steps(&mut self, now: Instant, job: JobId, cause: &EndCause) {
        let given_up = self.live.leave_steps(job);
        self.notify_steps_given_up(job, given_up, cause);
        let steps = self.live.get(job).map(|live| live.steps()).unwrap_or_default();
        for number in steps {
            self.end_step(now, (job, number), cause.clone());
        }
    }

    /// The steps of a job whose parts are over on every node are over.
    pub(super) fn finish_steps_if_over(&mut self, now: Instant, job: JobId) {
        let steps = self.live.get(job).map(|live| live.steps()).unwrap_or_default();
        for number in steps {
            if self.live.step(job, number).is_some_and(|step| step.is_over()) {
                // Ranks that ended before the first check did execute all the same.
                if self.step_record((job, number)).is_some_and(|(_, step)| step.ending.is_none()) {
                    self.step_started(now, (job, number));
                }
                self.finish_step(now, (job, number));
            }
        }
    }

    /// The last process of a step has ended, or none began: frees what the step held, for the next.
    fn finish_step(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some((record, known)) = self.step_record((job, number)) else { return };
        let (ask, run, procs) = (known.ask, known.run, known.procs());
        let (began, started, cause) = (known.began, known.started, known.ending.clone());
        let (name, size) = (known.name(), known.size);
        let next = record.steps.as_ref().map_or(0, |steps| steps.next());
        let Some(live) = self.live.end_step((job, number), ask) else { return };
        let nodes = self.up(live.nodes());
        self.order((job, number), run, nodes, StepOrderKind::Release);
        let exits: Vec<RankExit> = live.exits().values().cloned().collect();
        let outcome = outcome(cause.map(|cause| (self.config.said(&cause), cause)), &exits);
        let (ended, used) = (self.wall(now), used(&exits));
        let exit = exits.iter().map(|exit| exit.status).max_by_key(|status| status.shell_code());
        let place = self.step_place(&size, live.nodes(), procs);
        let step =
            EndedStep { ask, name, procs, place, began, started, ended, outcome, exit, used };
        let step = Box::new(step);
        let reply = step.clone();
        let latest_run = self.live.latest_run();
        self.append_of_step(now, (job, number), StepEvent::Ended { next, latest_run, step });
        self.notify_step_ended(job, &reply);
        self.ask_script_to_end(job);
        // Jobs before steps: steps that take no elements could keep all places in the arrays of
        // flags from them.
        self.place_awaiting(now);
        self.grant_steps(now, job);
        self.grant_all_steps(now);
    }

    /// A timer of a step has fired.
    pub(super) fn step_timer(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        run: JobIncarnation,
        kind: StepTimer,
    ) {
        let Some(live) = self.live.get(job) else { return };
        let Some(step) = live.step(number).filter(|step| step.run() == run) else { return };
        match kind {
            StepTimer::Launch if step.launch() == Launch::Launched => {
                let launched = (step.watch(step_ref(job, number)), step.launched_after());
                let timer = Timer::Step { job, number, run, kind: StepTimer::Launch };
                self.look_for_unstarted(now, job, launched, timer);
            }
            StepTimer::Launch => {}
            StepTimer::Client if step.has_client() => {}
            StepTimer::Client if live.run_time(now) < step.client_due() => {
                // The client stands with the place.
                let at = live.earliest(now, step.client_due());
                self.arm_step(at, (job, number), run, StepTimer::Client);
            }
            StepTimer::Limit => self.step_limit_timer(now, (job, number)),
            StepTimer::Client => {
                // Its output has no reader, and must not keep its processes from ending.
                let (step, nodes) = (step_ref(job, number), live.holders_of(step));
                let release = Command::HoldOutput { step, hold: false };
                self.effects.durable.push(Durable::Command(nodes, release));
                self.end_step(now, (job, number), EndCause::ClientLeft);
                self.finish_if_over(now, job);
            }
            StepTimer::Kill => {
                let nodes = live.holders_of(step);
                self.order((job, number), run, nodes, StepOrderKind::Destroy);
            }
        }
    }

    /// The launch of a step has reached its time limit, and these nodes have not started their
    /// ranks. If the set is empty, all have.
    pub(super) fn step_unstarted(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        nodes: &NodeSet,
    ) {
        let Some(step) = self.live.step(job, number) else { return };
        if step.launch() != Launch::Launched {
            return;
        }
        if nodes.is_empty() {
            let watch = step.watch(step_ref(job, number));
            return self.effects.durable.push(Durable::AwaitStarted(watch));
        }
        self.live.count_failure();
        let cause = self.not_started(nodes);
        self.end_step(now, (job, number), cause);
        self.finish_if_over(now, job);
    }

    /// Steps that were being sent their files to a node whose Node Manager has ended are over.
    pub(super) fn cut_steps_on(&mut self, now: Instant, job: JobId, node: NodeId) {
        let steps = self.live.get(job).map(|live| live.steps()).unwrap_or_default();
        for number in steps {
            let is_cut = self.live.step(job, number).is_some_and(|step| {
                let staged = matches!(step.launch(), Launch::Staging | Launch::Staged);
                staged && step.has_part_on(node)
            });
            if is_cut {
                let node = self.node_name(node);
                self.end_step(now, (job, number), EndCause::NodeLost { node });
            }
        }
    }

    /// A node has returned to a job without this step. `never_heard` is true if the node has never
    /// got the step's launch.
    pub(super) fn step_lost(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        node: NodeId,
        never_heard: bool,
    ) {
        let Some((_, known)) = self.step_record((job, number)) else { return };
        if never_heard && known.started.is_none() && known.ending.is_none() {
            return self.live.step_lacks((job, number), node);
        }
        self.live.step_part_gone((job, number), node);
        let node = self.node_name(node);
        self.end_step(now, (job, number), EndCause::NodeLost { node });
    }

    /// All nodes of a job have returned, or are no longer waited for: its steps continue.
    pub(super) fn steps_go_on(&mut self, now: Instant, job: JobId) {
        let steps = self.live.get(job).map(|live| live.steps_at(Launch::Recovering));
        for number in steps.unwrap_or_default() {
            let Some((_, known)) = self.step_record((job, number)) else { continue };
            let (executes, ends) = (known.started.is_some(), known.ending.is_some());
            if executes || ends {
                self.live.step_resumed((job, number));
                self.limit_step(now, (job, number));
            } else {
                let lacking = self.live.take_step_lacking((job, number));
                if self.live.step(job, number).is_some_and(|step| *step.nodes() == lacking) {
                    // No node was ordered to launch the step.
                    self.live.step_begins_again(now, (job, number));
                    self.stage_step(now, (job, number));
                    continue;
                }
                self.launch_step_on(now, (job, number), lacking);
            }
            let Some(step) = self.live.step(job, number) else { continue };
            if !step.is_over() {
                self.effects
                    .durable
                    .push(Durable::AwaitTermination(step.watch(step_ref(job, number))));
            }
        }
        self.grant_steps(now, job);
    }

    /// Why a step is to end that a node still has.
    pub(super) fn step_ends_for(&self, (job, number): (JobId, u32)) -> Option<EndCause> {
        let (record, step) = self.step_record((job, number))?;
        let of_job = match &record.phase {
            Phase::Ending(cause) => Some(cause.clone()),
            Phase::Pending | Phase::Starting | Phase::Running | Phase::Ended(_) => None,
        };
        step.ending.clone().or(of_job)
    }
}

/// The run that a report is about.
fn run_of(report: &Report) -> Option<(JobId, JobIncarnation)> {
    match report {
        Report::LaunchFailed { step, incarnation, .. }
        | Report::Aborted { step, incarnation, .. }
        | Report::RankFailed { step, incarnation, .. }
        | Report::Terminated { step, incarnation, .. }
        | Report::JobFailed { step, incarnation, .. }
        | Report::OverMemory { step, incarnation, .. }
        | Report::RankLeft { step, incarnation, .. }
        | Report::LeaseOver { step, incarnation }
        | Report::LaunchCut { step, incarnation, .. }
        | Report::Classes { step, incarnation, .. }
        | Report::Output { step, incarnation, .. }
        | Report::Started { step, incarnation }
        | Report::InSlices { step, incarnation }
        | Report::SlicesBack { step, incarnation } => Some((step.job, *incarnation)),
        Report::Joined(_)
        | Report::Status(_)
        | Report::FileFailed { .. }
        | Report::InputTaken { .. }
        | Report::Fence { .. }
        | Report::ProcessesLost
        | Report::Holds { .. }
        | Report::Leaving
        | Report::Part { .. } => None,
    }
}

/// Resource use of ranks.
fn used(exits: &[RankExit]) -> StepUse {
    StepUse {
        user: exits.iter().map(|exit| Duration::from_micros(exit.user_us)).sum(),
        system: exits.iter().map(|exit| Duration::from_micros(exit.system_us)).sum(),
        max_rss_kib: exits.iter().map(|exit| exit.max_rss_kib).max().unwrap_or(0),
    }
}
