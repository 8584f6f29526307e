//! The suite's model of the machine, built only from events and actions.
//!
//! The model is tolerant: a wrong action is recorded as far as possible, and the invariants report
//! the error.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Action, Event, JobId, JobRequest, Machine, NodeIndex, NodeState, Pe, Placement, PreemptMode,
    Reservation, Row, SchedTime, feasible,
};

/// A job that was started and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The job's request.
    pub request: JobRequest,
    /// Where the job runs.
    pub placement: Placement,
    /// The job's home row.
    pub row: Row,
    /// The other rows in which the job runs.
    pub alternates: BTreeSet<Row>,
}

impl Running {
    /// Whether the job runs while this row is active.
    #[must_use]
    pub fn runs_in(&self, row: Row) -> bool {
        self.row == row || self.alternates.contains(&row)
    }

    /// The job's rows, the home row first.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        std::iter::once(self.row).chain(self.alternates.iter().copied())
    }
}

/// The state of the machine as it looks from outside.
#[derive(Debug, Clone)]
pub struct World {
    /// The machine with the node states.
    pub machine: Machine,
    /// The waiting jobs, by priority, then in order of submission.
    pub queue: Vec<JobRequest>,
    /// The number of jobs that were submitted before each waiting job.
    arrivals: BTreeMap<JobId, usize>,
    /// The jobs that hold PEs.
    pub running: BTreeMap<JobId, Running>,
    /// The jobs that are suspended for others.
    pub suspended: BTreeMap<JobId, Running>,
    /// The jobs that hold PEs and are being ended for others.
    pub ending: BTreeSet<JobId>,
    /// The row that runs.
    pub active: Option<Row>,
    /// The reservations that were not taken back, ended or not.
    pub reservations: Vec<Reservation>,
}

impl World {
    /// Returns an idle machine.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            queue: Vec::new(),
            arrivals: BTreeMap::new(),
            running: BTreeMap::new(),
            suspended: BTreeMap::new(),
            ending: BTreeSet::new(),
            active: None,
            reservations: Vec::new(),
        }
    }

    /// Whether an event fits this state. If not, it must be refused.
    #[must_use]
    pub fn accepts(&self, event: &Event) -> bool {
        match event {
            Event::Submit(request) | Event::Restore { request, .. } => {
                !self.waits(request.id)
                    && !self.running.contains_key(&request.id)
                    && !self.suspended.contains_key(&request.id)
                    && feasible(&self.machine, request).is_ok()
            }
            Event::Finished(job) => {
                self.running.contains_key(job) || self.suspended.contains_key(job)
            }
            Event::Cancel(job) | Event::Prioritise { job, .. } => self.waits(*job),
            Event::Suspended(job) => self.running.contains_key(job),
            Event::NodeDown(node)
            | Event::NodeAway(node)
            | Event::NodeDrained(node)
            | Event::NodeUp(node) => self.machine.node(*node).is_some(),
            Event::Reserve(asked) => {
                let clashes = |other: &Reservation| {
                    let shared = other.nodes.iter().any(|node| asked.nodes.contains(node));
                    other.id == asked.id || (shared && other.meets(asked.start, asked.end))
                };
                !self.reservations.iter().any(clashes)
            }
            Event::Unreserve(id) => self.reservations.iter().any(|other| other.id == *id),
            Event::SliceEdge | Event::SetQuantum(_) | Event::Wake => true,
        }
    }

    /// Takes over an event and the actions that answered it.
    pub fn apply(&mut self, event: &Event, actions: &[Action]) {
        if self.accepts(event) {
            self.apply_event(event);
        }
        for action in actions {
            match action {
                Action::Start { job, placement, row } => self.start(*job, placement, *row),
                Action::SetRows { job, home, alternates } => {
                    if let Some(running) = self.running.get_mut(job) {
                        running.row = *home;
                        running.alternates = alternates.iter().copied().collect();
                    }
                }
                Action::Migrate { job, placement, row } => {
                    if let Some(running) = self.running.get_mut(job) {
                        running.placement = placement.clone();
                        running.row = *row;
                        running.alternates.clear();
                    }
                }
                Action::Activate { row } => self.active = Some(*row),
                Action::Preempt { job, mode: PreemptMode::Suspend, .. } => {
                    self.stop(*job);
                }
                Action::Preempt { job, .. } => {
                    self.ending.insert(*job);
                }
                Action::Resume { job } => {
                    let stopped = self.suspended.remove(job);
                    self.running.extend(stopped.map(|running| (*job, running)));
                }
                Action::Refused(_) => {}
            }
        }
    }

    /// Whether a job waits.
    #[must_use]
    pub fn waits(&self, job: JobId) -> bool {
        self.queue.iter().any(|request| request.id == job)
    }

    /// The reservations that have not ended at a time.
    pub fn reserved(&self, now: SchedTime) -> impl Iterator<Item = &Reservation> + '_ {
        self.reservations.iter().filter(move |reservation| reservation.end > now)
    }

    /// The first time after `now` at which a reservation begins or ends.
    #[must_use]
    pub fn next_turn(&self, now: SchedTime) -> Option<SchedTime> {
        let turns = self.reservations.iter().flat_map(|window| [window.start, window.end]);
        turns.filter(|turn| *turn > now).min()
    }

    /// The rows that jobs live in.
    #[must_use]
    pub fn live_rows(&self) -> BTreeSet<Row> {
        self.running.values().map(|running| running.row).collect()
    }

    /// The jobs with ranks on a node.
    pub fn jobs_on(&self, node: NodeIndex) -> impl Iterator<Item = JobId> + '_ {
        let there = move |running: &Running| running.placement.share_of(node).is_some();
        let all = self.running.iter().chain(&self.suspended);
        all.filter(move |(_, running)| there(running)).map(|(job, _)| *job)
    }

    /// For each PE, whether its node takes work.
    #[must_use]
    pub fn usable(&self) -> Vec<bool> {
        (0..self.machine.pes()).map(|pe| self.machine.is_usable(Pe(pe))).collect()
    }

    /// For each PE, whether its node takes work, or is expected back.
    #[must_use]
    pub fn expected(&self) -> Vec<bool> {
        (0..self.machine.pes()).map(|pe| self.machine.is_expected(Pe(pe))).collect()
    }

    fn apply_event(&mut self, event: &Event) {
        match event {
            Event::Submit(request) => {
                let arrival = self.arrivals.values().max().map_or(0, |last| last + 1);
                self.arrivals.insert(request.id, arrival);
                self.queue.push(request.clone());
                self.sort_queue();
            }
            Event::Prioritise { job, priority } => {
                for request in self.queue.iter_mut().filter(|request| request.id == *job) {
                    request.priority = *priority;
                }
                self.sort_queue();
            }
            Event::Restore { request, placement, row, .. } => {
                let (request, placement) = (request.clone(), placement.clone());
                let alternates = BTreeSet::new();
                let running = Running { request, placement, row: *row, alternates };
                self.running.insert(running.request.id, running);
            }
            Event::Finished(job) => {
                self.running.remove(job);
                self.suspended.remove(job);
                self.ending.remove(job);
                self.active_if_live();
            }
            Event::Cancel(job) => self.queue.retain(|request| request.id != *job),
            Event::NodeDown(node) => self.set_node(*node, NodeState::Down),
            Event::NodeAway(node) => self.set_node(*node, NodeState::Away),
            Event::NodeDrained(node) => self.set_node(*node, NodeState::Drained),
            Event::NodeUp(node) => self.set_node(*node, NodeState::Up),
            Event::Suspended(job) => self.stop(*job),
            Event::Reserve(reservation) => self.reservations.push(reservation.clone()),
            Event::Unreserve(id) => self.reservations.retain(|other| other.id != *id),
            Event::SliceEdge | Event::SetQuantum(_) | Event::Wake => {}
        }
    }

    fn stop(&mut self, job: JobId) {
        let running = self.running.remove(&job);
        self.suspended.extend(running.map(|running| (job, running)));
        self.active_if_live();
    }

    fn active_if_live(&mut self) {
        let live = self.live_rows();
        self.active = self.active.filter(|row| live.contains(row));
    }

    fn sort_queue(&mut self) {
        let Self { queue, arrivals, .. } = self;
        queue.sort_by_key(|request| {
            let arrival = arrivals[&request.id] as u64;
            let number = if request.preempted { request.id.0 } else { arrival };
            (Reverse(request.priority), !request.preempted, number)
        });
    }

    fn set_node(&mut self, node: NodeIndex, state: NodeState) {
        self.machine.set_state(node, state);
    }

    fn start(&mut self, job: JobId, placement: &Placement, row: Row) {
        let Some(at) = self.queue.iter().position(|request| request.id == job) else { return };
        let request = self.queue.remove(at);
        let (placement, alternates) = (placement.clone(), BTreeSet::new());
        self.running.insert(job, Running { request, placement, row, alternates });
    }
}
