//! The urgency of jobs: the factors, the times at which they are computed anew, and the accounts
//! that are charged (`docs/decisions/0046`).
//!
//! The queue is not ordered here: a policy receives the priorities and orders its queue by them
//! (`docs/decisions/0032`).

use super::admission::request_of;
use super::priority_table::OrderedBy;
use super::{ClusterTimer, Core, Durable, Immediate, Timer};
use crate::api::{ApiError, ErrorCode, Peer, PriorityView, Service, ShareView};
use crate::cluster::ClusterEventKind;
use crate::job::{JobEvent, JobEventKind, JobRecord, Phase};
use crate::{DEFAULT_PRIORITY_INTERVAL, NamedIn, PriorityConfig, QosConfig};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{JobId, PartitionId};
use storm_sched::priority::{Factors, Weights};
use storm_sched::{Event, JobRequest, Priority};

/// The most jobs whose priorities one answer lists: some MiB of text.
const MOST_TOLD: usize = 10_000;
/// Least time between two computations out of turn, since ends and requests may arrive in thousands
/// a second.
const BETWEEN_RECKONINGS: Duration = Duration::from_secs(1);
/// If more jobs wait, priorities are computed only at regular times. Each computation notifies the
/// policies of all jobs whose age counts, in some 10 ms for a thousand jobs.
const MOST_RECKONED_OUT_OF_TURN: usize = 1_000;

impl Core {
    /// The service that a submission gets, with defaults for what it leaves out.
    pub(super) fn served(
        &self,
        peer: Peer,
        asked: Service,
        jobs: u64,
    ) -> Result<Service, ApiError> {
        if asked.nice < 0 && !self.is_admin(peer) {
            let message = format!("only an administrator may give a job niceness {}", asked.nice);
            return Err(ApiError::new(ErrorCode::NotPermitted, message).hint("0 or more is free"));
        }
        let account = self.account_for(peer, asked.account)?;
        let qos = self.qos_for(peer, account.as_deref(), asked.qos, jobs)?;
        Ok(Service { account, qos, nice: asked.nice })
    }

    fn account_for(&self, peer: Peer, asked: Option<String>) -> Result<Option<String>, ApiError> {
        let own = self.priorities.accounts_of(peer.uid);
        let Some(asked) = asked else {
            let charged = self.config.service.charges();
            return Ok(own.first().filter(|_| charged).map(|own| (*own).to_owned()));
        };
        let hint = format!("your accounts: {}", own.join(", "));
        if !self.priorities.knows_account(&asked) {
            let message = format!("there is no account {asked:?}");
            return Err(ApiError::new(ErrorCode::NoSuchAccount, message).hint(hint));
        }
        if !own.contains(&asked.as_str()) && !self.is_admin(peer) {
            let message = format!("you are not a user of account {asked:?}");
            let error = ApiError::new(ErrorCode::NotPermitted, message).hint(hint);
            return Err(match self.config.unknown_users_of(&NamedIn::Account(asked)) {
                Some(users) => error.why(format!(
                    "it is for {users} as well, and the manager's host knows no such user yet"
                )),
                None => error,
            });
        }
        Ok(Some(asked))
    }

    fn qos_for(
        &self,
        peer: Peer,
        account: Option<&str>,
        asked: Option<String>,
        jobs: u64,
    ) -> Result<Option<String>, ApiError> {
        let all = &self.config.service.qos;
        let may = |qos: &QosConfig| self.config.may_have(qos, peer.uid, account);
        // Scripts for Slurm name the quality of service that each of its clusters has.
        let asked =
            asked.filter(|name| name != "normal" || all.iter().any(|qos| qos.name == *name));
        let Some(asked) = asked else {
            let default = all.iter().find(|qos| qos.default && may(qos));
            return default
                .map(|qos| self.has_room(peer, qos, jobs).map(|()| qos.name.clone()))
                .transpose();
        };
        let yours: Vec<&str> =
            all.iter().filter(|qos| may(qos)).map(|qos| qos.name.as_str()).collect();
        let hint = match yours.is_empty() {
            true => "there is none for you: leave --qos out".to_owned(),
            false => format!("yours: {}", yours.join(", ")),
        };
        let Some(qos) = all.iter().find(|qos| qos.name == asked) else {
            let message = format!("there is no quality of service {asked:?}");
            return Err(ApiError::new(ErrorCode::NoSuchQos, message).hint(hint));
        };
        if !may(qos) {
            let of = account.map(|own| format!(" with account {own:?}")).unwrap_or_default();
            let message = format!("you may not use the quality of service {asked:?}{of}");
            return Err(ApiError::new(ErrorCode::NotPermitted, message).hint(hint));
        }
        self.has_room(peer, qos, jobs)?;
        Ok(Some(asked))
    }

    /// Fails if a user may not have `more` further jobs of this quality of service.
    fn has_room(&self, peer: Peer, qos: &QosConfig, more: u64) -> Result<(), ApiError> {
        let Some(most) = qos.max_jobs_per_user else { return Ok(()) };
        let counts = |record: &&JobRecord| {
            record.spec.owner.uid == peer.uid
                && record.service.qos.as_ref() == Some(&qos.name)
                && !matches!(record.phase, Phase::Ended(_))
        };
        let has = self.jobs.values().filter(counts).count();
        if has as u64 + more <= u64::from(most) {
            return Ok(());
        }
        let message = format!("you have {has} jobs of the quality of service {:?}", qos.name);
        Err(ApiError::new(ErrorCode::QueueFull, message)
            .why(format!("no more than {most} are possible at once (max-jobs-per-user)"))
            .hint("wait for some to end, or name another one"))
    }

    /// The request of a job to its policy, with its present priority.
    pub(super) fn request_now(&mut self, now: Instant, job: JobId) -> Option<JobRequest> {
        let record = self.jobs.get(&job)?;
        let mut request = self.with_precedence(request_of(job, &record.spec), record);
        request.reservation = record.reservation.as_ref().map(|(id, _)| *id);
        Some(request.with_priority(self.priority_of(now, job)))
    }

    /// Computes a job's priority, and records the priority as the policy's order of the job.
    fn priority_of(&mut self, now: Instant, job: JobId) -> Priority {
        let Some((weights, factors)) = self.factors_of(now, job) else {
            return Priority::default();
        };
        let priority = weights.priority(&factors);
        if self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Pending) {
            let by = OrderedBy { priority, factors: weights.contributions(&factors) };
            self.priorities.order(job, by);
        }
        priority
    }

    /// The weights and the factors of a job; `None` without priorities.
    fn factors_of(&mut self, now: Instant, job: JobId) -> Option<(Weights, Factors)> {
        let wall = self.wall(now);
        let PriorityConfig { weights, partitions, .. } = self.config.service.priority.as_ref()?;
        let weights = *weights;
        let record = self.jobs.get(&job)?;
        let able = record.spec.needs.begin.map_or(record.submitted, |at| at.max(record.submitted));
        let waited = record.started.unwrap_or(wall).duration_since(able);
        let most = partitions.values().max().copied().unwrap_or(0);
        let own = partitions.get(&record.partition).copied().unwrap_or(0);
        let all_pes = self
            .partitions
            .named(&record.partition)
            .and_then(|partition| NonZeroU32::new(partition.policy().machine().pes()))?;
        let (uid, account) = (record.spec.owner.uid, record.service.account.clone());
        let mut factors = Factors {
            waited: Duration::try_from(waited).unwrap_or_default(),
            pes: pes_of(record),
            partition_pes: all_pes,
            fair_share: 0.0,
            qos: self.qos_factor(record.service.qos.as_deref()),
            partition: part(own, most),
            site: 0,
            nice: record.service.nice.into(),
        };
        if weights.fair_share > 0 {
            factors.fair_share = self.priorities.fair_share(wall, account.as_deref(), uid);
        }
        Some((weights, factors))
    }

    fn qos_factor(&self, name: Option<&str>) -> f64 {
        let all = &self.config.service.qos;
        let most = all.iter().map(|qos| qos.priority).max().unwrap_or(0);
        let own = all.iter().find(|qos| Some(qos.name.as_str()) == name);
        own.map_or(0.0, |qos| part(qos.priority, most))
    }

    /// Sets the timer for the next regular computation.
    pub(super) fn begin_reckoning(&mut self, now: Instant) {
        let service = &self.config.service;
        // Usage is journaled even without priorities.
        if !service.charges() {
            return;
        }
        let interval = service.priority.as_ref().map(|priority| priority.interval);
        let at = now + interval.unwrap_or(DEFAULT_PRIORITY_INTERVAL);
        self.effects
            .durable
            .push(Durable::Timer { at, timer: Timer::Cluster(ClusterTimer::Priorities) });
    }

    /// The regular computation of priorities.
    pub(super) fn reckon_priorities(&mut self, now: Instant) {
        self.reckon(now);
        self.note_usage(now);
        self.begin_reckoning(now);
    }

    /// Computes priorities between the regular times, so that starts and listings reflect the usage
    /// up to now (`docs/decisions/0134`).
    pub(super) fn freshen_priorities(&mut self, now: Instant) {
        if !self.config.service.charges() {
            return;
        }
        let lately = self.priorities.were_reckoned_lately(now, BETWEEN_RECKONINGS);
        let ever = self.priorities.were_reckoned();
        let waiting: usize = self.partitions.iter().map(|p| p.policy().pending_count()).sum();
        if !lately && (!ever || waiting <= MOST_RECKONED_OUT_OF_TURN) {
            self.reckon(now);
        }
    }

    /// Charges the running jobs, and sends the policies the new priorities.
    fn reckon(&mut self, now: Instant) {
        self.priorities.begin_reckoning(now);
        self.charge_running(now);
        self.priorities.reckon_shares(self.wall(now));
        if self.config.service.priority.is_none() {
            return;
        }
        for partition in self.partitions.ids() {
            if self.partitions[partition].is_slicing() {
                self.priorities.defer(partition);
            } else {
                self.prioritise(now, partition);
            }
        }
    }

    /// Whether priorities computed in the slice under way wait for its end.
    pub(super) fn priorities_are_due(&self, partition: PartitionId) -> bool {
        self.priorities.are_due(partition)
    }

    /// A slice ends: priorities computed during it take effect.
    pub(super) fn prioritise_if_due(&mut self, now: Instant, partition: PartitionId) {
        if self.priorities.take_due(partition) {
            self.prioritise(now, partition);
        }
    }

    fn prioritise(&mut self, now: Instant, id: PartitionId) {
        let waiting = self.partitions[id].policy().pending();
        let mut events = Vec::new();
        for job in waiting {
            let before = self.priorities.order_of(job).unwrap_or_default().priority;
            let priority = self.priority_of(now, job);
            if priority != before {
                events.push(Event::Prioritise { job, priority });
            }
        }
        if events.is_empty() {
            return;
        }
        if self.partitions[id].runs_all() {
            self.handle_together(now, id, events);
        } else {
            for event in events {
                // A change of one job's place may let another start.
                let Event::Prioritise { job, .. } = &event else { continue };
                if self.waits_in_policy(*job) {
                    self.handle_event(now, id, event);
                }
            }
        }
        self.effects.immediate.push(Immediate::SlicesChanged(id));
    }

    fn waits_in_policy(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Pending)
            && self.live.awaiting_job(job).is_none()
    }

    /// Charges the running jobs for their time since they were last charged.
    fn charge_running(&mut self, now: Instant) {
        let wall = self.wall(now);
        let ran: Vec<(JobId, Duration)> =
            self.live.iter().map(|(job, live)| (job, live.run_time(now))).collect();
        for (job, ran) in ran {
            self.charge(wall, job, ran);
        }
        let Core { priorities, jobs, live, .. } = self;
        let waits = |job| jobs.get(&job).is_some_and(|record| record.phase == Phase::Pending);
        priorities.keep(waits, |job| live.contains(job));
    }

    /// Charges a job whose present run has lasted `ran`.
    fn charge(&mut self, at: Timestamp, job: JobId, ran: Duration) {
        if !self.config.service.charges() {
            return;
        }
        let Some(record) = self.jobs.get(&job) else { return };
        self.priorities.charge(at, record, pes_of(record), ran);
    }

    /// Charges a run that the event ends. Must be called before the event changes the job.
    pub(super) fn charge_for(&mut self, job: JobId, event: &JobEvent) {
        let ran = match &event.kind {
            JobEventKind::Ended { ran, .. } => *ran,
            JobEventKind::Requeued { .. } => self.jobs.get(&job).map_or(Duration::ZERO, |r| r.ran),
            JobEventKind::Submitted { .. }
            | JobEventKind::ArraySubmitted { .. }
            | JobEventKind::InReservation { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::Placed { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::Step { .. }
            | JobEventKind::Started { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::Suspended { .. }
            | JobEventKind::Resumed { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::StoppedBy { .. }
            | JobEventKind::ContinuedBy { .. }
            | JobEventKind::Changed { .. }
            | JobEventKind::UnderPolicy { .. } => return,
        };
        self.charge(event.at, job, ran);
        self.priorities.end_run(job);
    }

    /// Journals the usage of all users, since the journal forgets the jobs that caused the usage.
    fn note_usage(&mut self, now: Instant) {
        if let Some((usage, charged)) = self.priorities.take_unnoted(self.wall(now)) {
            self.append_of_cluster(now, ClusterEventKind::UsageNoted { usage, charged });
        }
    }

    /// The priorities of waiting jobs, the highest first: of `jobs`, or of all if it is empty.
    /// Returns also how many are left out. The policies order their queues by these priorities.
    pub fn list_priorities(&mut self, now: Instant, jobs: &[JobId]) -> (Vec<PriorityView>, u32) {
        self.freshen_priorities(now);
        let named: BTreeSet<JobId> = jobs.iter().flat_map(|job| self.jobs.of(*job)).collect();
        let wanted = |record: &&JobRecord| {
            record.phase == Phase::Pending && (jobs.is_empty() || named.contains(&record.id))
        };
        let waiting: Vec<JobId> =
            self.jobs.values().filter(wanted).map(|record| record.id).collect();
        let mut views: Vec<PriorityView> =
            waiting.into_iter().filter_map(|job| self.priority_view(now, job)).collect();
        views.sort_by_key(|view| (std::cmp::Reverse(view.priority), view.job));
        let left = views.len().saturating_sub(MOST_TOLD);
        views.truncate(MOST_TOLD);
        (views, u32::try_from(left).unwrap_or(u32::MAX))
    }

    fn priority_view(&mut self, now: Instant, job: JobId) -> Option<PriorityView> {
        // Policies do not have the jobs that are held, or that wait for other jobs or for their
        // time.
        let in_policy = self.priorities.order_of(job);
        let OrderedBy { priority, factors } = match in_policy {
            Some(by) => by,
            None => {
                self.factors_of(now, job).map_or_else(OrderedBy::default, |(weights, factors)| {
                    OrderedBy {
                        priority: weights.priority(&factors),
                        factors: weights.contributions(&factors),
                    }
                })
            }
        };
        let record = self.jobs.get(&job)?;
        let partition = self.partitions.named(&record.partition);
        Some(PriorityView {
            job,
            array: record.task,
            user: self.config.user_view(record.spec.owner.uid),
            partition: record.partition.clone(),
            account: record.service.account.clone(),
            qos: record.service.qos.clone(),
            priority,
            counts: partition.map(|p| p.policy().priority_use()).unwrap_or_default(),
            factors,
            nice: record.service.nice,
        })
    }

    /// The tree of accounts and users, as of the computation that the priorities rest on.
    pub fn list_shares(&mut self, now: Instant) -> Vec<ShareView> {
        self.freshen_priorities(now);
        let lines = self.priorities.lines();
        let users = lines.iter().filter(|line| line.uid.is_some());
        let all: f64 = users.map(|line| line.usage_pe_s).sum();
        let view = |line: super::shares::Line<'_>| ShareView {
            account: line.account.name.clone(),
            parent: line.account.parent.clone(),
            depth: line.depth,
            user: line.uid.map(|uid| self.config.user_view(uid)),
            shares: line.shares,
            share_of_siblings: line.share_of_siblings,
            usage_pe_s: line.usage_pe_s,
            usage_of_all: if all > 0.0 { line.usage_pe_s / all } else { 0.0 },
            fair_share: line.factor,
        };
        lines.into_iter().map(view).collect()
    }
}

/// The number of processing elements that a job is charged for.
fn pes_of(record: &JobRecord) -> u32 {
    record.spec.procs.saturating_mul(record.spec.resources.cpus_per_task)
}

/// One number as a part of another.
fn part(own: u32, most: u32) -> f64 {
    if most == 0 { 0.0 } else { f64::from(own) / f64::from(most) }
}
