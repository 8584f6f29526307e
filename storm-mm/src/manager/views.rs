//! The state for users: jobs, partitions, reasons.

use super::Core;
use super::jobs::no_such_job;
use super::live::{Launch, LivePlace};
use super::partitions::{Partition, Waiting, sched_time};
use super::reservations::in_the_way;
use super::scheduling::{files_of, files_of_step};
use crate::api::{
    ApiError, ClusterStatus, ErrorCode, Explanation, JobDetail, JobState, JobView, PartitionView,
    RankView, ReservedNodes, SpecSummary, asked_for,
};
use crate::job::{JobRecord, Phase};
use jiff::Timestamp;
use std::collections::HashSet;
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::RankExit;
use storm_rm::{ContentHash, JobId, Rank};

impl Core {
    /// The contents that unfinished jobs may still need, by user and content.
    pub fn needed_contents(&self) -> HashSet<(u32, ContentHash)> {
        let waiting_or_running =
            self.jobs.values().filter(|job| !matches!(job.phase, Phase::Ended(_)));
        let of_job = |job: &JobRecord| {
            let further = job.steps.iter().flat_map(|steps| steps.live());
            let further = further.flat_map(|(_, step)| files_of_step(&step.spec));
            let waiting = self.live.get(job.id).into_iter().flat_map(LivePlace::waiting_specs);
            let files = files_of(&job.spec).into_iter().chain(further);
            let files = files.chain(waiting.flat_map(files_of_step));
            let uid = job.spec.owner.uid;
            files.map(|file| (uid, file.hash)).collect::<Vec<_>>()
        };
        waiting_or_running.flat_map(of_job).collect()
    }

    /// The details of a job.
    ///
    /// # Errors
    /// There is no such job.
    pub fn show(&self, now: Instant, job: JobId) -> Result<JobDetail, ApiError> {
        let record = self.job(self.jobs.one_of(job))?;
        let ranks = self.rank_views(record);
        // Nodes report these numbers: a nonsensical sum must not panic.
        let cpu = |exit: &RankExit| exit.user_us.saturating_add(exit.system_us);
        let exits = ranks.iter().filter_map(|rank| rank.exit.as_ref());
        let cpu_us = exits.map(cpu).fold(0, u64::saturating_add);
        Ok(JobDetail {
            view: JobView { steps: self.step_views(now, record), ..self.view(now, record) },
            spec: SpecSummary::from(&*record.spec),
            cpu_us,
            ranks,
            parts: record.ranks.iter().map(|share| self.part_view(share)).collect(),
            breakdown: record.breakdown,
            account: record.service.account.clone(),
            qos: record.service.qos.clone(),
            reservation: self.reservation_of(record),
            communication: self.communication_of(record),
            classes: self.classes_of(record),
            runs: record.runs,
            log: self.config.log_of(record),
        })
    }

    /// The record of a job.
    ///
    /// # Errors
    /// There is no such job, or it is an array.
    pub fn job(&self, job: JobId) -> Result<&JobRecord, ApiError> {
        if self.jobs.needs().is_array(job) {
            let message = format!("job {job} is an array of jobs");
            return Err(ApiError::new(ErrorCode::BadRequest, message)
                .hint(format!("name one of them: storm queue {job} lists them")));
        }
        self.jobs.get(&job).ok_or_else(|| no_such_job(job))
    }

    /// Why a job does not run, or that it does.
    ///
    /// # Errors
    /// There is no such job.
    pub fn explain(&self, now: Instant, job: JobId) -> Result<Explanation, ApiError> {
        let job = self.jobs.one_of(job);
        let record = self.job(job)?;
        let details = record.log.iter().map(|entry| {
            // With the date and the time zone, since readers may be anywhere.
            let time = entry.time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
            format!("{time} {}: {}", entry.event, self.config.with_user_name(&entry.text))
        });
        let asked = asked_for(record.spec.procs, record.spec.nodes, &record.spec.resources);
        let asked = format!("it asks for {asked}");
        let (held_by, more) = self.element_holders(now, record);
        let details = std::iter::once(asked)
            .chain(super::holders::lines(&held_by, more))
            .chain(self.sharing_of(record))
            .chain(details);
        let waiting = Waiting::default();
        let estimate = self.estimate(now, record, &waiting);
        let (also, reserved) = self.also_reserved(now, record, estimate);
        Ok(Explanation {
            job,
            array: record.task,
            state: record.state(),
            reason: self.reason(now, record, &waiting) + &also,
            details: details.collect(),
            held_by,
            reserved,
            estimate,
        })
    }

    /// The reservations that keep nodes from a waiting job, in addition to its other lacks: as the
    /// end of its reason, and as a list.
    fn also_reserved(
        &self,
        now: Instant,
        record: &JobRecord,
        estimate: Option<Timestamp>,
    ) -> (String, Vec<ReservedNodes>) {
        let partition = self.partitions.named(&record.partition);
        let pending = partition.filter(|_| record.phase == Phase::Pending);
        let Some(reason) = pending.and_then(|p| p.policy().explain(sched_time(now), record.id))
        else {
            return Default::default();
        };
        let named = reason.reservation_in_the_way();
        let reserved = self.reserved_from(now, record, estimate);
        let others = reserved.iter().filter(|(id, _)| Some(*id) != named);
        let also = others.map(|(_, nodes)| format!("; and {}", in_the_way(nodes))).collect();
        (also, reserved.into_iter().map(|(_, nodes)| nodes).collect())
    }

    /// The latest start of a waiting job, by the time limits of the others, if its policy can
    /// estimate the start.
    fn estimate(&self, now: Instant, record: &JobRecord, waiting: &Waiting) -> Option<Timestamp> {
        if record.phase != Phase::Pending {
            return None;
        }
        let start = match &waiting.starts {
            Some(starts) => *starts.get(&record.id)?,
            None => {
                let partition = self.partitions.named(&record.partition)?;
                partition.policy().estimate(sched_time(now), record.id)?
            }
        };
        Some(self.wall(now + start.since(sched_time(now))))
    }

    fn reason(&self, now: Instant, record: &JobRecord, waiting: &Waiting) -> String {
        match &record.phase {
            Phase::Pending => self.pending_reason(now, record, waiting),
            Phase::Running if record.stopped_by.is_some() => {
                let by = self.stopped_reason(record.stopped_by.unwrap_or_default());
                format!("it is {by}, and goes on by `storm resume-job {}`", record.name())
            }
            Phase::Starting | Phase::Running if record.suspended_for.is_some() => {
                self.suspended_reason(now, record)
            }
            Phase::Starting => match self.live.get(record.id).map(LivePlace::launch) {
                Some(Launch::Recovering) => self.recovery_reason(record.id),
                Some(Launch::Staging) => {
                    format!("its files are being sent to {}", record.node_list)
                }
                Some(Launch::Staged) => {
                    "its row does not run now: it waits for the next slice edge".to_owned()
                }
                Some(Launch::Launched | Launch::Started) | None => {
                    format!("its ranks are being started on {}", record.node_list)
                }
            },
            Phase::Running => match self.live.get(record.id) {
                Some(live) if live.is_recovering() => self.recovery_reason(record.id),
                Some(_) if self.live.is_outside_matrix(record.id) => format!(
                    "it runs on {}, for which no partition has room as they are configured now",
                    record.node_list
                ),
                Some(live) if self.partitions[live.partition()].is_slicing() => {
                    let partition = &self.partitions[live.partition()];
                    let rows = partition.policy().rows().len();
                    format!(
                        "it runs on {} in row {} and has one slice in {rows}",
                        record.node_list,
                        live.row().0
                    )
                }
                Some(_) | None => format!("it runs on {}", record.node_list),
            },
            Phase::Ending(cause) => format!("it is being ended: {}", self.config.said(cause)),
            Phase::Ended(outcome) => match &outcome.reason {
                Some(reason) => format!("it has ended: {reason}"),
                None => "it has ended: all ranks exited with 0".to_owned(),
            },
        }
    }

    fn pending_reason(&self, now: Instant, record: &JobRecord, waiting: &Waiting) -> String {
        let early = self.fencing_reason(now, record.id);
        if let Some(reason) = early.or_else(|| self.need_reason(now, record.id)) {
            return reason;
        }
        if let Some(awaiting) = self.live.awaiting_job(record.id) {
            let (row, limit) = (awaiting.row(), self.config.job_slots);
            return format!("it has a place in row {row} and waits for one of {limit} jobs to end");
        }
        let partition = self.partitions.named(&record.partition);
        if let Some((partition, next)) = partition.and_then(|p| Some((p, p.next_sched()?))) {
            let (name, rows) = (partition.name(), partition.policy().rows().len());
            if partition.drains_for(next) {
                return format!(
                    "partition {name} changes to {next} as soon as its jobs have ended: how \
                     ranks communicate cannot change while they run"
                );
            }
            return format!(
                "partition {name} changes to {next} as soon as its {rows} rows have ended or fit"
            );
        }
        let known = waiting.reasons.get(&record.id).cloned();
        let asked = || partition.and_then(|p| p.policy().explain(sched_time(now), record.id));
        let reason = known.or_else(asked);
        match (reason, partition) {
            (Some(mut reason), _) => {
                reason.mark_refused(|node| self.nodes.is_refused(node));
                let told = self.reserved_reason(&reason);
                let told = told.unwrap_or_else(|| reason.text(&|job| self.jobs.name(job)));
                let loss = self.reservation_loss(now, record).unwrap_or_default();
                told + &self.nodes.why_refused(&reason) + &loss
            }
            (None, Some(_)) => "its partition's policy is about to be told of it".to_owned(),
            (None, None) => format!("partition {} does not exist any more", record.partition),
        }
    }

    pub(super) fn view(&self, now: Instant, record: &JobRecord) -> JobView {
        self.view_with(now, record, &Waiting::default())
    }

    pub(super) fn view_with(&self, now: Instant, record: &JobRecord, waiting: &Waiting) -> JobView {
        let until = record.ended.unwrap_or_else(|| self.wall(now));
        let ran = self.live.get(record.id).map_or(record.ran, |live| live.run_time(now));
        // A job runs a moment before all nodes have reported its start.
        let elapsed = record.started.map_or(Duration::ZERO, |started| {
            Duration::try_from(until.duration_since(started)).unwrap_or_default().max(ran)
        });
        let uid = record.spec.owner.uid;
        let exit_code = match &record.phase {
            Phase::Ended(outcome) => Some(outcome.exit_code),
            Phase::Pending | Phase::Starting | Phase::Running | Phase::Ending(_) => None,
        };
        let reason = match &record.phase {
            Phase::Ended(outcome) => outcome.reason.clone(),
            Phase::Running if !record.is_stopped() => None,
            Phase::Running | Phase::Pending | Phase::Starting | Phase::Ending(_) => {
                Some(self.reason(now, record, waiting))
            }
        };
        JobView {
            id: record.id,
            array: record.task,
            array_limit: record.spec.needs.array.as_ref().and_then(|array| array.limit),
            name: record.spec.name.clone(),
            user: self.config.user_view(uid),
            partition: record.partition.clone(),
            sched: self.policy_of(record),
            state: record.state(),
            procs: record.spec.procs,
            resources: record.spec.resources.clone(),
            nodes_asked: record.spec.nodes,
            nodes: record.ranks.len() as u32,
            node_list: record.node_list.clone(),
            row: record.row,
            submitted: record.submitted,
            started: record.started,
            ended: record.ended,
            elapsed_s: elapsed.as_secs(),
            ran_s: ran.min(elapsed).as_secs(),
            remarks: record.spec.remarks.clone(),
            time_limit_s: record.spec.time_limit.map(whole_seconds),
            reason,
            reason_code: self.reason_code(now, record, waiting).map(str::to_owned),
            ending: matches!(record.phase, Phase::Ending(_)),
            estimate: self.estimate(now, record, waiting),
            exit_code,
            attributes: None,
            steps: Vec::new(),
            place: None,
        }
    }

    fn rank_views(&self, record: &JobRecord) -> Vec<RankView> {
        let live = self.live.get(record.id);
        let exit_of = |rank: Rank| match live {
            Some(live) => live.exits().get(&rank).cloned(),
            None => record.exits.iter().find(|exit| exit.rank == rank).cloned(),
        };
        let on_node = |share: storm_rm::message::NodeRanks| {
            let (first, node) = (share.first.0, self.node_name(share.node));
            (first..first + share.count).map(move |rank| (Rank(rank), node.clone()))
        };
        record
            .step_ranks()
            .flat_map(on_node)
            .map(|(rank, node)| {
                let class = self.class_of(record, rank);
                RankView { rank, node, exit: exit_of(rank), class }
            })
            .collect()
    }

    /// All partitions in order of the configuration.
    pub fn list_partitions(&self) -> Vec<PartitionView> {
        self.partitions.iter().map(|partition| self.partition_view(partition)).collect()
    }

    pub(super) fn partition_view(&self, partition: &Partition) -> PartitionView {
        let count = |wanted: JobState| {
            let jobs = self.jobs.values().filter(|r| r.partition == partition.name());
            jobs.filter(|record| record.state() == wanted).count() as u32
        };
        let drained =
            |node: &&NodeId| self.nodes.get(**node).is_some_and(|entry| entry.drained.is_some());
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        PartitionView {
            name: partition.name().to_owned(),
            sched: partition.policy().name().to_owned(),
            configured_sched: self.partitions.unset_sched(partition),
            configured_quantum_us: self.partitions.unset_quantum_us(partition),
            warning: partition.slice_warning(),
            default: partition.is_default(),
            node_list: partition.node_list().to_owned(),
            nodes: partition.members().len() as u32,
            nodes_up: self.up(partition.nodes()).len() as u32,
            nodes_drained: partition.members().iter().filter(drained).count() as u32,
            pes: partition.policy().machine().pes(),
            next_sched: partition.next_sched().map(str::to_owned),
            quantum_us: partition.policy().quantum().map(micros),
            slice_us: partition.policy().communication_slice().map(micros),
            checkpoint: partition.checkpoint(),
            rows_used: partition.policy().rows().len() as u32,
            rows_max: partition.rows_max(),
            jobs_running: count(JobState::Running),
            jobs_pending: count(JobState::Pending),
        }
    }

    /// The cluster as a whole.
    pub fn status(&self, now: Instant, started: Instant) -> ClusterStatus {
        let count = |wanted: JobState| {
            self.jobs.values().filter(|record| record.state() == wanted).count() as u32
        };
        ClusterStatus {
            cluster: self.config.cluster.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: self.wall(started),
            uptime_s: (now - started).as_secs(),
            nodes: self.config.nodes.len() as u32,
            nodes_up: self.nodes.up().len() as u32,
            pes: self.config.nodes.iter().map(|node| node.pes).sum(),
            jobs_pending: count(JobState::Pending),
            jobs_running: count(JobState::Running),
            jobs_submitted: self.jobs.submitted_count(),
            launches: self.live.launches().issued,
            launch_failures: self.live.launches().failed,
            strobes: self.partitions.strobes(),
        }
    }
}

/// Rounded up, so that a limit below one second does not become zero.
fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
}
