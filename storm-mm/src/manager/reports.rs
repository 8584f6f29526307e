//! The reports of nodes: that they join or die, and how their ranks fare.

use super::live::{Awaiting, LivePlace, Piece};
use super::node_table::Going;
use super::returns::KEEPER_TIME;
use super::{Core, Durable};
use crate::job::{Cut, EndCause, JobEventKind, Phase, StepEvent};
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{Command, ExitStatus, NodeInfo, RankExit, Report};
use storm_rm::{JobId, JobIncarnation, StepRef};

/// Bytes of a heartbeat and a command in addition to the pairs: some varints and a set of nodes.
const HEADER_BYTES: usize = 16 * 1024;
/// Bytes of a pair in addition to its text: two lengths.
const PAIR_BYTES: usize = 6;

impl Core {
    /// A node was cut off, or a new incarnation of the node has replaced the former.
    pub fn node_lost(&mut self, now: Instant, node: NodeId) {
        self.node_goes(now, node, Going::Lost);
    }

    /// The process of a Node Manager has ended. Its keeper ends the ranks, at once or when the time
    /// that it keeps jobs is over.
    pub fn node_died(&mut self, now: Instant, node: NodeId) {
        self.node_goes(now, node, Going::ProcessEnded);
        // The node may have counted as lost before.
        let until = self.keeper_ends(now, node);
        self.fenced_until(now, node, until);
    }

    pub(super) fn node_goes(&mut self, now: Instant, node: NodeId, going: Going) {
        let runs_until = match going {
            Going::ProcessEnded => self.keeper_ends(now, node),
            Going::LinkClosed | Going::Lost => now + self.config.requeue_fence,
        };
        self.node_gone(now, node, (Some(runs_until), going));
    }

    /// The node is lost. `runs_until` is set if its processes may continue until then.
    fn node_gone(
        &mut self,
        now: Instant,
        node: NodeId,
        (runs_until, going): (Option<Instant>, Going),
    ) {
        self.returns.take(node);
        self.leaving.remove(node);
        if !self.nodes.went(node, going) {
            if going == Going::Lost && self.nodes.expect_no_more(node) {
                self.tell_of_absence(now, node);
            }
            return;
        }
        let name = self.node_name(node);
        match self.jobs.is_closed() {
            true => tracing::info!(node = %name, "node left"),
            false => tracing::warn!(node = %name, "node lost"),
        }
        self.partitions.node_forgets(node);
        if let Some(until) = self.expected_until(now, node, going) {
            self.nodes.expect(node, until);
            self.arm_absence();
        }
        self.tell_of_absence(now, node);
        self.place_anew_from(now, node);
        self.note_ends_on(now, node);
        for job in self.live.placed_on(node) {
            // The end of an earlier job of the list may have ended this job, or placed it
            // elsewhere.
            if !self.live.get(job).is_some_and(|live| live.is_placed_on(node)) {
                continue;
            }
            match self.awaits_return(now, job, node, going) {
                Some(left) => {
                    self.cut_steps_on(now, job, node);
                    self.await_return(job, node, left);
                }
                None if self.is_staged_to(job, node, going) => {
                    self.launch_cut(now, job, node, Cut::Staging);
                }
                None if self.is_moved_by(job, node, going) => {
                    self.part_gone(now, job, node, runs_until, Some(Cut::Slices));
                }
                None => self.part_gone(now, job, node, runs_until, None),
            }
        }
    }

    /// Journals the ends of parts that a lost node had reported. The node's next incarnation is
    /// ordered to forget these jobs, so the next manager finds the ends only in the journal
    /// (`docs/decisions/0152-the-journal-keeps-the-end-of-a-lost-part.md`).
    fn note_ends_on(&mut self, now: Instant, node: NodeId) {
        for job in self.live.ends_forgotten_by(node) {
            let shares = self.jobs.get(&job).map_or(&[][..], |record| &record.ranks);
            let Some(share) = shares.iter().find(|share| share.node == node) else { continue };
            let Some(end) = self.live.get(job).map(|live| live.part_end(share)) else { continue };
            self.append(now, job, JobEventKind::PartOver { node, end });
        }
        for (job, number) in self.live.step_ends_forgotten_by(node) {
            let Some((_, known)) = self.step_record((job, number)) else { continue };
            let Some(share) = known.ranks.iter().find(|share| share.node == node) else { continue };
            let end = self.live.step(job, number).map(|step| step.part_end(share));
            let Some(end) = end else { continue };
            self.append_of_step(now, (job, number), StepEvent::PartOver { node, end });
        }
    }

    /// The keeper of a node ends its ranks of a job, and may only have begun to.
    fn lease_over(&mut self, now: Instant, node: NodeId, job: JobId, run: JobIncarnation) {
        let until = now + self.config.requeue_fence.min(KEEPER_TIME);
        let has_first = self.live.run(job, run).is_some_and(|live| live.has_part_on(node));
        let has_part = has_first || !self.steps_on(job, node).is_empty();
        if self.live.run(job, run).is_some() && has_part {
            tracing::warn!(%job, node = %self.node_name(node), "the node stood still, and ended it");
            self.part_gone(now, job, node, Some(until), None);
        }
    }

    /// A node has no ranks of a job any more, and will not report how they ended. `runs_until` is
    /// set if the ranks may continue until then, and `cut` if only the Node Manager has ended.
    fn part_gone(
        &mut self,
        now: Instant,
        job: JobId,
        node: NodeId,
        runs_until: Option<Instant>,
        cut: Option<Cut>,
    ) {
        self.live.part_gone(job, node, runs_until);
        match cut {
            Some(cut) => self.launch_cut(now, job, node, cut),
            None => {
                let node = self.node_name(node);
                self.end_job(now, job, EndCause::NodeLost { node });
            }
        }
        self.finish_if_over(now, job);
    }

    /// Jobs that wait for flags, placed on elements of a dead node, are placed anew.
    fn place_anew_from(&mut self, now: Instant, node: NodeId) {
        let is_there =
            |placed: &&Awaiting| placed.nodes(&self.partitions[placed.partition()]).contains(&node);
        let hit: Vec<JobId> = self.live.awaiting().filter(is_there).map(Awaiting::job).collect();
        for job in hit {
            // The job may have been given back already for another reason.
            if self.give_back(now, job) {
                self.hand_over(now, job);
            }
        }
    }

    /// A node has joined, and described itself.
    fn node_joined(&mut self, now: Instant, node: NodeId, info: NodeInfo) {
        let name = self.node_name(node);
        let held = self.returns.take(node);
        let Some(configured_pes) = self.nodes.get(node).map(|entry| entry.pes) else { return };
        if info.pes < configured_pes {
            let reason = format!("it offers {} PEs, {configured_pes} are configured", info.pes);
            tracing::error!(
                node = %name, %reason,
                "node refused: lower `pes` in [[nodes]], or start its Node Manager with as many --pes"
            );
            self.nodes.describe(node, info, Some(reason));
            let answer = Command::RefuseNode { configured_pes };
            self.effects.durable.push(Durable::Command(NodeSet::single(node), answer));
            if held.is_none() {
                return;
            }
            // The node was here before and may have jobs, which continue.
        } else {
            tracing::info!(node = %name, hostname = %info.hostname, pes = info.pes, "node joined");
            self.nodes.describe(node, info, None);
        }
        self.count_memory_of(node);
        if !self.nodes.came(node) {
            return;
        }
        self.partitions.node_comes(node);
        // Must run before anything new is launched there.
        self.fenced_by(now, node, held.as_ref());
        self.node_back(now, node, held);
        self.tell_of_state(now, node);
        self.grant_steps_on(now, node);
        if self.nodes.up().len() == self.config.nodes.len() {
            self.nodes_returned(now);
        }
    }

    /// A report from a node.
    pub fn report(&mut self, now: Instant, node: NodeId, report: Report) {
        let Some(report) = self.report_of_step(now, node, report) else { return };
        match report {
            Report::Joined(info) => self.node_joined(now, node, info),
            Report::Status(status) => self.nodes.set_status(node, status),
            // The driver's transfer notices the failure by COMPARE-AND-WRITE and takes the reason
            // from this report.
            Report::FileFailed { .. } => {}
            // The driver paces the input by this report; nothing is decided here.
            Report::InputTaken { .. } => {}
            Report::Output { step, incarnation, rank, stream, offset, data } => {
                self.output((step.job, incarnation), Piece { rank, stream, offset, data });
            }
            Report::Fence { step, sequence, puts } => self.fence(now, step, node, sequence, puts),
            Report::LaunchFailed { step, incarnation, reason, exit_code, .. } => {
                self.live.count_failure();
                self.fail(now, step.job, incarnation, EndCause::LaunchFailed { reason, exit_code });
            }
            Report::Aborted { step, incarnation, rank, exit_code } => {
                // The last byte, as in wait(2).
                let exit_code = (exit_code & 0xff) as u8;
                self.fail(now, step.job, incarnation, EndCause::Aborted { rank, exit_code });
            }
            Report::RankFailed { step, incarnation, exit, joined } => {
                let node = self.node_name(node);
                let record = self.jobs.get(&step.job);
                let kills = record.is_some_and(|record| record.spec.step.kill_on_bad_exit);
                if let Some(cause) = end_by(node, &exit, joined, kills) {
                    self.fail(now, step.job, incarnation, cause);
                }
            }
            Report::Terminated { step, incarnation, ranks } => {
                self.part_over(now, node, step.job, incarnation, ranks);
            }
            Report::JobFailed { step, incarnation, reason } => {
                self.fail(now, step.job, incarnation, EndCause::Unserviceable { reason });
            }
            Report::OverMemory { step, incarnation, reason } => {
                self.fail(now, step.job, incarnation, EndCause::OverMemory { reason });
            }
            Report::ProcessesLost => self.node_gone(now, node, (None, Going::Lost)),
            Report::RankLeft { step, incarnation, rank } => {
                if self.live.rank_left((step.job, incarnation), (node, rank)) {
                    self.end_if_in_vain(now, step.job);
                }
            }
            Report::LeaseOver { step, incarnation } => {
                self.lease_over(now, node, step.job, incarnation)
            }
            Report::LaunchCut { step, incarnation, cut } => {
                if self.live.run(step.job, incarnation).is_some() {
                    self.launch_cut(now, step.job, node, cut.into());
                }
            }
            Report::Holds { jobs, first_run } => self.returns.report(node, jobs, first_run),
            Report::Classes { step, incarnation, ranks } => {
                self.classes_told(now, node, (step.job, incarnation), ranks);
            }
            Report::Started { step, incarnation } => self.part_started(now, step.job, incarnation),
            Report::InSlices { step, incarnation } => self.joins_slices(now, step.job, incarnation),
            Report::Leaving => self.node_leaves(node),
            Report::SlicesBack { step, incarnation } => {
                self.slices_back(now, node, step.job, incarnation);
            }
            // The driver joins the parts.
            Report::Part { .. } => {}
        }
    }

    fn fail(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation, cause: EndCause) {
        if self.live.run(job, incarnation).is_some() {
            self.end_job(now, job, cause);
        }
    }

    /// A node's ranks of a job have all ended.
    fn part_over(
        &mut self,
        now: Instant,
        node: NodeId,
        job: JobId,
        incarnation: JobIncarnation,
        ranks: Vec<RankExit>,
    ) {
        // Reports of a node count only for its own ranks.
        let record = self.jobs.get(&job);
        let share = record.and_then(|record| record.step_ranks().find(|share| share.node == node));
        let own = |exit: &RankExit| share.as_ref().is_some_and(|share| share.has(exit.rank));
        let exits = ranks.into_iter().filter(own);
        let first = self.live.part_over((job, incarnation), node, exits);
        let (Some(first), Some(live)) = (first, self.live.get(job)) else { return };
        if first && !live.is_over() && !live.is_recovering() {
            let watch = live.watch(self.first_step(job));
            self.effects.durable.push(Durable::AwaitTermination(watch));
        }
        self.end_if_in_vain(now, job);
        self.finish_if_over(now, job);
    }

    /// The flags of all nodes show that the job has ended (Algorithm 8). Its elements are free,
    /// though reports of its ranks' ends may still be on their way.
    pub fn terminated(&mut self, now: Instant, job: JobId, incarnation: JobIncarnation) {
        if let Some(number) = self.live.step_of_run(job, incarnation) {
            return self.step_terminated(now, (job, number));
        }
        let known = self.live.run(job, incarnation);
        // The query about a recovering job was for an earlier incarnation of its node.
        let is_free = |live: &LivePlace| !live.is_recovering() && !live.has_steps();
        if known.is_some_and(is_free) && !self.keeps_elements(job) {
            self.release(now, job);
        }
    }

    /// A node is in a job's PMI barrier.
    fn fence(
        &mut self,
        now: Instant,
        step: StepRef,
        node: NodeId,
        sequence: u64,
        puts: Vec<(String, String)>,
    ) {
        let job = step.job;
        if step != self.first_step(job) {
            return self.step_fence(now, step, node, (sequence, puts));
        }
        let Some(live) = self.live.get(job) else { return };
        if let Some(puts) = live.fence_outcome(sequence) {
            let done = Command::FenceDone { step, sequence, puts };
            return self.effects.durable.push(Durable::Command(NodeSet::single(node), done));
        }
        let Some(complete) = self.live.fence_arrived(job, sequence, (node, puts)) else {
            return self.end_if_in_vain(now, job);
        };
        let Some(nodes) = self.live.get(job).map(|live| live.nodes().clone()) else { return };
        if let Some(reason) = too_many_pairs(&complete, self.config.heartbeat_bytes) {
            return self.end_job(now, job, EndCause::LaunchFailed { reason, exit_code: 1 });
        }
        let done = Command::FenceDone { step, sequence, puts: complete };
        self.effects.durable.push(Durable::Command(nodes, done));
    }

    /// Ends a job whose ranks wait in a barrier that can never open.
    fn end_if_in_vain(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get(job) else { return };
        let of_node =
            |node| Some(self.jobs.get(&job)?.step_ranks().find(|share| share.node == node)?.first);
        if let Some(rank) = live.missing(of_node) {
            let reason = format!("rank {rank} has ended and others wait for it in a PMI barrier");
            self.end_job(now, job, EndCause::Unserviceable { reason });
        }
    }

    /// Ends the job's steps whose parts are over on every node, and the job if its first step is
    /// over. The end of a script ends the other steps first.
    pub(super) fn finish_if_over(&mut self, now: Instant, job: JobId) {
        self.finish_steps_if_over(now, job);
        if !self.live.get(job).is_some_and(LivePlace::is_over) {
            return;
        }
        if self.live.get(job).is_some_and(LivePlace::has_steps) {
            self.first_step_is_over(now, job);
            self.end_steps(now, job, &EndCause::ScriptEnded);
            if self.live.get(job).is_some_and(LivePlace::has_steps) {
                return;
            }
        }
        let cause = match self.jobs.get(&job).map(|record| &record.phase) {
            Some(Phase::Ending(cause)) => Some(cause.clone()),
            Some(Phase::Pending | Phase::Starting | Phase::Running | Phase::Ended(_)) | None => {
                None
            }
        };
        if cause.is_none()
            && let Some(incarnation) = self.live.get(job).map(LivePlace::incarnation)
        {
            // Ranks that ended before the first check did execute all the same.
            self.started(now, job, incarnation);
        }
        self.finish(now, job, cause);
    }

    /// The first step of a job is over before others, and decides the job's outcome, unless the job
    /// is being ended.
    fn first_step_is_over(&mut self, now: Instant, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        let decides = record.phase == Phase::Running && !record.first_over;
        // Steps that wait end at once.
        let steps = self.live.get(job).map(|live| live.steps()).unwrap_or_default();
        if decides && !steps.is_empty() {
            let exits = self.live.get(job).map(LivePlace::exits);
            let exits = exits.into_iter().flat_map(|exits| exits.values().cloned()).collect();
            self.append(now, job, JobEventKind::FirstOver { exits });
        }
    }
}

/// The reason, if the pairs of a PMI barrier could never be sent, and its ranks would wait for
/// ever.
pub(super) fn too_many_pairs(pairs: &[(String, String)], heartbeat_bytes: usize) -> Option<String> {
    let bytes = pairs.iter().map(|(key, value)| key.len() + value.len() + PAIR_BYTES).sum();
    (HEADER_BYTES.saturating_add(bytes) > heartbeat_bytes).then(|| {
        format!(
            "its ranks exchange {bytes} bytes through PMI at once; `heartbeat-bytes` in [network] \
             lets {} through",
            heartbeat_bytes.saturating_sub(HEADER_BYTES)
        )
    })
}

/// Whether the end of a rank ends its job. If a signal killed the rank, the others wait for that
/// rank for ever. The same holds for a rank that exits after it has joined its peers and without
/// leaving them. The peers of another rank that exits with an error may not need that rank, unless
/// the user says so: `kills`.
pub(super) fn end_by(node: String, exit: &RankExit, joined: bool, kills: bool) -> Option<EndCause> {
    let rank = exit.rank;
    match exit.status {
        ExitStatus::Signal(signal) => Some(EndCause::RankKilled { rank, node, signal, with: None }),
        ExitStatus::Code(exit_code) if joined => Some(EndCause::RankLeft { rank, node, exit_code }),
        ExitStatus::Code(exit_code) if kills && exit_code != 0 => {
            Some(EndCause::BadExit { rank, node, exit_code })
        }
        ExitStatus::Code(_) => None,
    }
}
