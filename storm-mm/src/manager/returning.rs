//! Nodes that return to this manager, after its restart or with their next Node Manager. A job
//! continues as soon as all its nodes have returned or are no longer waited for.
//!
//! No rank of a run is ever started twice: a launch is repeated only to Node Managers that were
//! there when the run was placed and never received the launch. If a Node Manager has begun since,
//! the job is launched again as a new run.

use super::live::{Launch, LiveJobs, LivePlace};
use super::returns::HeldRuns;
use super::steps::step_ref;
use super::{Core, Draft, Durable, Resumed};
use crate::job::{Cut, EndCause, Phase};
use std::collections::BTreeSet;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::{JobId, JobIncarnation, StepId, StepRef};

/// Why a node that returned does not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The Node Manager was there when the run was placed, and never received its launch.
    NeverHeard,
    /// A Node Manager of the node ended and left nothing of the run. It had not begun to start the
    /// ranks, or its keeper has ended them.
    NotLeft,
    /// The node may have run the ranks before it lost its memory.
    Unknown,
}

impl Core {
    /// A node has returned with its memory, or a new node without memory has joined in its place.
    /// The node receives the list of its jobs that continue.
    pub(super) fn node_back(&mut self, now: Instant, node: NodeId, held: Option<HeldRuns>) {
        let held = held.unwrap_or_default();
        let awaited: Vec<JobId> = self
            .live
            .iter()
            .filter(|(_, live)| live.unheard().contains(node))
            .map(|(job, _)| job)
            .collect();
        let run_of = |live: &LiveJobs, job| live.get(job).map(LivePlace::incarnation);
        let holds = |job: &JobId| run_of(&self.live, *job).is_some_and(|run| held.has(*job, run));
        let (kept, lost): (Vec<JobId>, Vec<JobId>) = awaited.iter().partition(|job| holds(job));
        let steps: Vec<(JobId, u32)> =
            awaited.iter().flat_map(|job| self.steps_on(*job, node)).collect();
        let holds_step = |(job, number): &(JobId, u32)| {
            self.live.step(*job, *number).is_some_and(|step| held.has(*job, step.run()))
        };
        let (steps_kept, steps_lost): (Vec<_>, Vec<_>) =
            steps.iter().partition(|step| holds_step(step));
        let jobs = kept.iter().filter_map(|job| self.resumed(*job));
        let jobs =
            jobs.chain(steps_kept.iter().filter_map(|step| self.resumed_step(*step))).collect();
        let next_run = self.live.next_run();
        let clients = self.config.clients;
        let answer = Draft::Resume { jobs, next_run, clients };
        self.effects.durable.push(Durable::Draft(NodeSet::single(node), answer));
        let mut left_here = BTreeSet::new();
        for job in &awaited {
            if self.live.came_back(*job, node) {
                left_here.insert(*job);
            }
        }
        for job in kept {
            if let Some(Phase::Ending(cause)) = self.jobs.get(&job).map(|record| &record.phase) {
                let cause = cause.clone();
                self.order_end(now, job, NodeSet::single(node), &cause);
            }
        }
        for job in lost {
            let never_heard = run_of(&self.live, job).is_some_and(|run| held.covers(run));
            // A node that left under this manager may have begun the run, and its keeper may have
            // ended the ranks.
            let loss = match (never_heard, left_here.contains(&job)) {
                (_, true) => Loss::NotLeft,
                (true, false) => Loss::NeverHeard,
                (false, false) if self.is_fresh(now, job, node) => Loss::NotLeft,
                (false, false) => Loss::Unknown,
            };
            self.part_lost(now, job, node, loss);
        }
        for step in steps_kept {
            if let Some(cause) = self.step_ends_for(step) {
                self.order_step_end(now, step, NodeSet::single(node), &cause);
            }
        }
        for (job, number) in steps_lost {
            let run = self.live.step(job, number).map(|step| step.run());
            let never_heard = run.is_some_and(|run| held.covers(run)) && !left_here.contains(&job);
            self.step_lost(now, (job, number), node, never_heard);
        }
        for job in awaited {
            self.go_on_if_all_heard(now, job);
        }
    }

    /// The further steps of a job that have a part on a node that is not over.
    pub(super) fn steps_on(&self, job: JobId, node: NodeId) -> Vec<(JobId, u32)> {
        let Some(live) = self.live.get(job) else { return Vec::new() };
        let has = |number: &u32| live.step(*number).is_some_and(|step| step.has_part_on(node));
        live.steps().into_iter().filter(has).map(|number| (job, number)).collect()
    }

    fn resumed_step(&self, (job, number): (JobId, u32)) -> Option<Resumed> {
        let step = self.live.step(job, number)?;
        let of_job = self.resumed(job)?;
        Some(Resumed {
            step: step_ref(job, number),
            incarnation: step.run(),
            slot: step.slot(),
            hold_output: self.holds_step_output((job, number)),
            ..of_job
        })
    }

    /// Whether the present run of a job was placed so recently that ranks of it on this node, if
    /// there were any, executed for no longer than keepers keep jobs
    /// (`docs/decisions/0141-cut-launches-are-done-again.md`, number 12).
    fn is_fresh(&self, now: Instant, job: JobId, node: NodeId) -> bool {
        let returns = self.nodes.get(node).and_then(|entry| entry.info.as_ref()?.returns);
        let placed = self.jobs.get(&job).and_then(|record| record.placed);
        let (Some(returns), Some(placed)) = (returns, placed) else { return false };
        let since = Duration::try_from(self.wall(now).duration_since(placed));
        // A clock that was set back says nothing.
        since.is_ok_and(|since| since <= Duration::from_millis(returns.within_ms))
    }

    /// A node that returned does not hold its part of a job.
    fn part_lost(&mut self, now: Instant, job: JobId, node: NodeId, loss: Loss) {
        let starting = self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Starting);
        let Some(live) = self.live.get(job) else { return };
        if !live.has_part_on(node) {
            // The node has no rank of the first step to lose.
            return;
        }
        match loss {
            Loss::NeverHeard if starting => self.live.lacks(job, node),
            Loss::NotLeft if starting => {
                self.live.part_gone(job, node, None);
                self.launch_cut(now, job, node, Cut::Launch);
            }
            Loss::NeverHeard | Loss::NotLeft | Loss::Unknown => {
                self.live.part_gone(job, node, None);
                let node = self.node_name(node);
                self.end_job(now, job, EndCause::NodeLost { node });
            }
        }
    }

    fn resumed(&self, job: JobId) -> Option<Resumed> {
        let live = self.live.get(job)?;
        Some(Resumed {
            step: self.first_step(job),
            incarnation: live.incarnation(),
            slot: live.slot(),
            partition: live.partition(),
            rows: live.rows(),
            coscheduling: self.partitions[live.partition()].coscheduling(),
            hold_output: self.absent_clients.has(job),
        })
    }

    /// If all nodes of a job have returned, or are no longer waited for, the job continues where it
    /// was.
    pub(super) fn go_on_if_all_heard(&mut self, now: Instant, job: JobId) {
        let Some(phase) = self.jobs.get(&job).map(|record| record.phase.clone()) else { return };
        let Some(live) = self.live.get(job).filter(|live| live.all_are_back()) else { return };
        let (incarnation, partition) = (live.incarnation(), live.partition());
        let nodes = live.nodes().clone();
        let lacking = self.live.take_lacking(job);
        match phase {
            Phase::Starting if lacking == nodes => {
                // No node was ordered to launch the job.
                self.live.begin_again(now, job);
                self.stage(now, job);
                return self.try_switch(now, partition);
            }
            Phase::Starting => self.launch_on(now, job, lacking),
            Phase::Running | Phase::Ending(_) => {
                self.live.resumed(job, &lacking);
                self.arm_time_limit_of_returned(now, job);
            }
            Phase::Pending | Phase::Ended(_) => return,
        }
        self.steps_go_on(now, job);
        tracing::info!(%job, "all its nodes are back");
        self.tell_back(job);
        // The former manager may have changed the policy without notice to the nodes.
        self.tell_rows(job);
        if let Some(partition) = self.live.get(job).map(LivePlace::partition) {
            self.try_switch(now, partition);
        }
        let Some(live) = self.live.get(job) else { return };
        if !live.over().is_empty() && !live.is_over() {
            self.effects.durable.push(Durable::AwaitTermination(live.watch(self.first_step(job))));
        }
        self.give_grace(now, job, incarnation);
        self.finish_if_over(now, job);
    }

    /// Nodes have been waited for long enough: those that are not back have lost their part of the
    /// job.
    pub(super) fn recovery_timer(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get(job).filter(|live| live.is_recovering()) else { return };
        if live.all_are_back() {
            return self.go_on_if_all_heard(now, job);
        }
        let missing = live.late_nodes(now);
        if missing.is_empty() {
            return self.arm_return(job);
        }
        self.live.give_up(job, &missing, now + self.config.requeue_fence);
        self.tell_given_up(job, &missing);
        let removed = self.nodes.not_configured(&missing);
        let cause = match removed.is_empty() {
            true => EndCause::NodeLost { node: self.nodes.fold(&missing) },
            false => EndCause::NodeRemoved { node: self.nodes.fold(&removed) },
        };
        self.arm_return(job);
        self.end_job(now, job, cause);
        self.go_on_if_all_heard(now, job);
    }

    /// Whether nodes of the job have not returned yet.
    pub fn is_recovering(&self, job: JobId) -> bool {
        self.live.get(job).is_some_and(LivePlace::is_recovering)
    }

    /// Whether a step waits for nodes that have not returned yet.
    pub fn is_step_recovering(&self, step: StepRef) -> bool {
        let Some(live) = self.live.get(step.job) else { return false };
        let further = match step.step {
            StepId::Number(number) => live.step(number),
            StepId::Batch => None,
        };
        match further {
            Some(further) => further.launch() == Launch::Recovering,
            None => live.is_recovering(),
        }
    }

    /// For a run that a former manager placed: the nodes that returned with their parts. They
    /// report how much input their ranks have taken.
    pub fn inherited_parts(&self, job: JobId, run: JobIncarnation) -> Option<&NodeSet> {
        let live = self.live.get(job)?;
        match live.step_of_run(run) {
            Some(number) => live.step(number)?.inherited(),
            None if live.incarnation() == run => live.inherited(),
            None => None,
        }
    }

    /// Why a job is where a former manager left it.
    pub(super) fn recovery_reason(&self, job: JobId) -> String {
        let Some(live) = self.live.get(job) else { return String::new() };
        let nodes = self.nodes.fold(live.unheard());
        if live.all_unheard_are_away() {
            return format!("the Node Manager of {nodes} has ended: it waits for the next one");
        }
        let removed = self.nodes.not_configured(live.unheard());
        let why = match removed.is_empty() {
            true => String::new(),
            false => {
                format!("; {} is not in the configuration any more", self.nodes.fold(&removed))
            }
        };
        format!("the Machine Manager was restarted and waits for {nodes} to come back{why}")
    }
}
