//! The partition's policy at work: events in, placements and strobes out, on
//! slice edges only while time is being sliced.

use super::live_job::{Launch, LiveJob};
use super::{Core, Effect, Notice, StageJob, StageOutcome};
use crate::api::{JobState, Reply};
use crate::job::{JobEventKind, Phase};
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::{NodeRanks, Strobe};
use storm_rm::{FileSpec, JobId, JobIncarnation, JobSpec, PartitionId, Program, Rank, Row};
use storm_sched::{Action, Event, Placement, SchedTime, Slot};

impl Core {
    /// The length of the slices of a partition whose time is being sliced.
    pub fn slice(&self, partition: PartitionId) -> Option<Duration> {
        let partition = &self.partitions[usize::from(partition.0)];
        partition.policy.quantum().filter(|_| partition.is_slicing())
    }

    /// A slice of a partition ends: what waited for the edge happens, and the
    /// next row becomes active.
    pub fn slice_edge(&mut self, now: Instant, partition: PartitionId) {
        let held = std::mem::take(&mut self.partition(partition).held);
        for event in held {
            self.handle_event(now, partition, event);
        }
        self.handle_event(now, partition, Event::SliceEdge);
        self.launch_staged(now, partition);
        self.effects.push(Effect::SlicesChanged(partition));
    }

    /// Tells a policy at once while time is not being sliced, else at the next
    /// edge: an idle machine makes nobody wait.
    pub(super) fn tell_policy(&mut self, now: Instant, partition: PartitionId, event: Event) {
        if self.partition(partition).is_slicing() {
            self.partition(partition).held.push(event);
            return;
        }
        self.handle_event(now, partition, event);
        self.effects.push(Effect::SlicesChanged(partition));
    }

    pub(super) fn handle_event(&mut self, now: Instant, partition: PartitionId, event: Event) {
        let time = sched_time(now);
        let actions = self.partition(partition).policy.handle(time, event);
        for action in actions {
            match action {
                Action::Start { job, placement, slot } => {
                    self.place(now, partition, JobId(job.0), &placement, slot);
                }
                Action::Activate { slot } => self.activate(now, partition, slot),
                Action::Refused(error) => {
                    tracing::warn!(%error, "the policy refused an event");
                }
            }
        }
    }

    /// A job got its processing elements.
    fn place(
        &mut self,
        now: Instant,
        partition: PartitionId,
        job: JobId,
        placement: &Placement,
        slot: Slot,
    ) {
        let wanted = self.jobs.get(&job).is_some_and(|record| record.phase == Phase::Pending);
        let flags = if wanted { self.slots.take() } else { None };
        let Some(flags) = flags else {
            // It was withdrawn meanwhile, or more jobs run than there are flags
            // for: the elements go back, and a job that waits goes to the end.
            self.give_back(now, partition, job, wanted);
            return;
        };
        let row = Row(slot.0);
        let members = &self.partition(partition).members;
        let ranks: Vec<NodeRanks> = placement
            .shares()
            .iter()
            .map(|share| NodeRanks {
                node: members[share.node.0 as usize],
                first: Rank(share.first_rank),
                count: share.ranks,
            })
            .collect();
        let nodes: NodeSet = ranks.iter().map(|share| share.node).collect();
        let record = &self.jobs[&job];
        let incarnation = JobIncarnation(record.incarnation.0 + 1);
        let spec = record.spec.clone();
        let node_list = self.nodes.fold(&nodes);
        let live = LiveJob {
            incarnation,
            slot: flags,
            partition,
            row,
            nodes: nodes.clone(),
            launch: Launch::Staging,
            over: NodeSet::new(),
            exits: Default::default(),
            fences: Default::default(),
            released: false,
            placed_at: now,
            staged_at: now,
            launched_at: now,
            stage: StageOutcome::default(),
            ran: Duration::ZERO,
            active_since: None,
        };
        self.live.insert(job, live);
        self.append(now, job, JobEventKind::Placed { incarnation, ranks, row, node_list });
        let files = files_of(&spec);
        if files.is_empty() {
            self.staged(now, job, incarnation, Ok(StageOutcome::default()));
        } else {
            let owner = spec.owner;
            self.effects.push(Effect::Stage(StageJob { job, incarnation, nodes, files, owner }));
        }
    }

    fn give_back(&mut self, now: Instant, partition: PartitionId, job: JobId, wanted: bool) {
        let id = storm_sched::JobId(job.0);
        self.handle_event(now, partition, Event::Finished(id));
        if wanted {
            let request = super::admission::request_of(job, &self.jobs[&job].spec);
            self.partition(partition).held.push(Event::Submit(request));
        }
    }

    /// Another row becomes active.
    fn activate(&mut self, now: Instant, partition: PartitionId, slot: Slot) {
        let row = Row(slot.0);
        let entry = self.partition(partition);
        entry.active = row;
        entry.strobes += 1;
        let strobe = Strobe { partition, row, number: entry.strobes, issued_ns: now.as_nanos() };
        let nodes = entry.nodes.clone();
        self.counters.strobes += 1;
        let up = self.up(&nodes);
        self.effects.push(Effect::Strobe(up, strobe));
        for live in self.live.values_mut().filter(|live| live.partition == partition) {
            let started = matches!(live.launch, Launch::Launched | Launch::Started);
            live.set_active(now, started && live.row == row);
        }
    }

    /// Every node's part of a job is over, or will never begin: its elements
    /// are free.
    pub(super) fn release(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get_mut(&job) else { return };
        if std::mem::replace(&mut live.released, true) {
            return;
        }
        let partition = live.partition;
        self.tell_policy(now, partition, Event::Finished(storm_sched::JobId(job.0)));
    }

    pub(super) fn notify_state(&mut self, job: JobId, state: JobState, reason: Option<String>) {
        let node_list = self.jobs.get(&job).map(|record| record.node_list.clone());
        let node_list = node_list.filter(|list| !list.is_empty());
        let reply = Reply::State { job, state, reason, node_list };
        self.effects.push(Effect::Notify(job, Notice::Event(reply)));
    }

    /// The first node of a job that is up: it announces the end (Algorithm 9).
    pub(super) fn announcer(&self, nodes: &NodeSet) -> NodeId {
        self.up(nodes).first().or(nodes.first()).unwrap_or(NodeId::MM)
    }
}

pub(super) fn sched_time(now: Instant) -> SchedTime {
    SchedTime::from_nanos(now.as_nanos())
}

/// The files of a job, the program first.
pub(super) fn files_of(spec: &JobSpec) -> Vec<FileSpec> {
    let program = match &spec.program {
        Program::Shipped(file) => Some(file.clone()),
        Program::OnNodes(_) => None,
    };
    program.into_iter().chain(spec.files.iter().cloned()).collect()
}
