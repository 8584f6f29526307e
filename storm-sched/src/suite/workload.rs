//! Generated workloads: a small odd machine, and a stream of events that keeps it near saturation.
//! Nodes die, and some events do not fit.
//!
//! On machines of even seeds, nodes differ in features and memory, and half of the jobs use every
//! kind of demand. On machines of odd seeds, jobs ask only for processes and nodes.
//!
//! With [`Workload::reserving`], nodes are also reserved and released, and some jobs belong to
//! reservations. With [`Workload::naming`], some jobs also require and exclude nodes by name. With
//! [`Workload::preempting`], jobs have qualities of service, and preempted jobs
//! wait again or continue.
//!
//! The whole run follows from the seed and the policy's answers. The run ends with a drain: nodes
//! come back, every job ends, and a job as large as the machine runs. That last job cannot run if a
//! column was lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::suite::oracle::MAX_ORACLE_PES;
use crate::suite::{STEPS, World};
use crate::{
    Constraint, Event, JobId, JobRequest, Machine, NodeChoice, NodeIndex, NodeMemory, NodeSpec,
    NodeState, Precedence, PreemptMode, Priority, QosId, Quantum, Reservation, ReservationId,
    SchedTime,
};

/// The largest nodes of a generated machine.
const MAX_NODE_PES: u64 = 4;
/// The most memory of a generated node, in bytes. The number is small, so that jobs get in each
/// other's way.
const MAX_NODE_BYTES: u64 = 8;
/// Constraints of generated jobs; nodes have some of `a` and `b`.
const CONSTRAINTS: [&str; 4] = ["a", "b", "a&b", "a|b"];

/// A generator of events.
#[derive(Debug)]
pub struct Workload {
    random: SplitMix64,
    machine: Machine,
    /// Whether jobs ask for more than processes and nodes.
    resources: bool,
    /// Whether jobs have qualities of service.
    preempts: bool,
    /// Whether nodes are away for a while.
    leaves: bool,
    /// Whether jobs name nodes.
    names: bool,
    /// The number of reservations so far; `None` if no nodes are reserved.
    reserved: Option<u64>,
    now: SchedTime,
    left: usize,
    next_job: u64,
    /// The events that follow from earlier ones and are still to come.
    due: VecDeque<Event>,
    phase: Phase,
}

/// The stage of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Load,
    Drain,
    WholeMachine,
    Over,
}

impl Workload {
    /// The workload of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let resources = seed.is_multiple_of(2);
        Self {
            machine: machine(&mut random, resources),
            resources,
            preempts: false,
            leaves: false,
            names: false,
            reserved: None,
            random,
            now: SchedTime::ZERO,
            left: STEPS,
            next_job: 1,
            due: VecDeque::new(),
            phase: Phase::Load,
        }
    }

    /// The workload of a seed, with jobs that preempt each other.
    #[must_use]
    pub fn preempting(seed: u64) -> Self {
        Self { preempts: true, ..Self::new(seed) }
    }

    /// The workload of a seed, with nodes that are away for a while.
    #[must_use]
    pub fn leaving(seed: u64) -> Self {
        Self { leaves: true, ..Self::new(seed) }
    }

    /// The workload of a seed, with reservations.
    #[must_use]
    pub fn reserving(seed: u64) -> Self {
        Self { reserved: Some(0), ..Self::new(seed) }
    }

    /// The workload of a seed, with reservations and jobs that preempt each other.
    #[must_use]
    pub fn reserving_and_preempting(seed: u64) -> Self {
        Self { preempts: true, ..Self::reserving(seed) }
    }

    /// The workload of a seed, with jobs that require or exclude nodes by name, and reservations.
    #[must_use]
    pub fn naming(seed: u64) -> Self {
        Self { names: true, ..Self::reserving(seed) }
    }

    /// The machine to run on, every node up.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The next event and its time; `None` at the end of the run.
    pub fn next(&mut self, world: &World) -> Option<(SchedTime, Event)> {
        let later = self.now + Duration::from_nanos(self.random.below(50_000_000));
        // The driver wakes the policy when it asked to be woken.
        if let Some(turn) = world.next_turn(self.now).filter(|turn| *turn <= later) {
            self.now = turn;
            return Some((turn, Event::Wake));
        }
        self.now = later;
        let event = self.next_event(world)?;
        Some((self.now, event))
    }

    fn next_event(&mut self, world: &World) -> Option<Event> {
        // Following events are sometimes late, as in practice.
        if !self.due.is_empty() && (self.left == 0 || self.random.below(10) < 7) {
            return self.due.pop_front();
        }
        match self.phase {
            Phase::Load => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.phase = Phase::Drain;
                    let nodes = 0..world.machine.nodes().len() as u32;
                    self.due.extend(nodes.map(|node| Event::NodeUp(NodeIndex(node))));
                }
                Some(self.load(world))
            }
            Phase::Drain => {
                if let Some(left) = world.reserved(self.now).next() {
                    return Some(Event::Unreserve(left.id));
                }
                if world.running.is_empty() {
                    self.phase = Phase::WholeMachine;
                    self.due.extend(world.queue.iter().map(|request| Event::Cancel(request.id)));
                }
                Some(if self.random.below(4) == 0 { Event::SliceEdge } else { self.finish(world) })
            }
            Phase::WholeMachine => {
                self.phase = Phase::Over;
                let request = JobRequest::new(self.new_job(), world.machine.pes());
                self.due.push_back(Event::Finished(request.id));
                Some(Event::Submit(request))
            }
            Phase::Over => None,
        }
    }

    fn load(&mut self, world: &World) -> Event {
        if self.reserved.is_some() && self.random.below(12) == 0 {
            return self.reserve(world);
        }
        match self.random.below(100) {
            0..40 => Event::Submit(self.request(world)),
            40..65 => self.finish(world),
            65..83 => Event::SliceEdge,
            83..86 => self.cancel(world),
            86 => self.prioritise(world),
            87..96 => self.node_event(world),
            96 => Event::SetQuantum(Quantum::default()),
            _ => self.stray(world),
        }
    }

    fn request(&mut self, world: &World) -> JobRequest {
        let request = self.request_of_no_quality(world);
        match self.preempts.then(|| precedence(request.id)).flatten() {
            Some(precedence) => request.with_precedence(Arc::new(precedence)),
            None => request,
        }
    }

    fn request_of_no_quality(&mut self, world: &World) -> JobRequest {
        let job = self.new_job();
        let pes = u64::from(world.machine.pes());
        // Small jobs are frequent, and one job in twenty is too large.
        let largest = [pes, pes.div_ceil(2), pes.div_ceil(4)][self.random.below(3) as usize];
        let too_large = u64::from(self.random.below(20) == 0) * pes;
        let procs = 1 + self.random.below(largest) + too_large;
        let mut request = JobRequest::new(job, procs as u32);
        // One job in four has no time limit, and some limits are shorter than the runs, as if the
        // Machine Manager were late.
        let kind = self.random.below(4);
        if kind > 0 {
            let limit = Duration::from_millis(self.random.below(1 << (4 * kind)));
            request = request.with_time_limit(limit);
        }
        if self.random.below(5) == 0 {
            request = request.with_priority(Priority(self.random.below(3) as u32));
        }
        if self.resources && self.random.below(2) == 0 {
            request = self.with_resources(request);
        }
        if self.reserved.is_some() && self.random.below(3) == 0 {
            let known: Vec<ReservationId> =
                world.reserved(self.now).map(|window| window.id).collect();
            request.reservation = self.pick(&known);
        }
        if self.names && self.random.below(2) == 0 {
            let choice = self.choice(world, request.procs);
            request = request.with_choice(choice);
        }
        if self.random.below(3) > 0 {
            return request;
        }
        let nodes = 1 + self.random.below(world.machine.nodes().len() as u64 + 1);
        let required = u64::from(request.required_nodes());
        request.with_nodes(nodes.max(required).min(procs) as u32)
    }

    /// Some nodes to require and some others to exclude.
    fn choice(&mut self, world: &World, procs: u32) -> NodeChoice {
        let mut choice = NodeChoice::default();
        for node in world.machine.nodes() {
            let name = node.name().to_owned();
            match self.random.below(6) {
                0 if (choice.required.len() as u32) < procs => choice.required.insert(name),
                1 => choice.excluded.insert(name),
                _ => false,
            };
        }
        choice
    }

    /// The same request with some of the possible demands: about as many PEs, in processes of
    /// several PEs.
    fn with_resources(&mut self, mut request: JobRequest) -> JobRequest {
        if self.random.below(3) == 0 {
            let each = 1 + self.random.below(3) as u32;
            request.procs = request.procs.div_ceil(each);
            request = request.with_pes_per_proc(each);
        }
        if self.random.below(4) == 0 {
            request = request.with_procs_per_node(1 + self.random.below(3) as u32);
        }
        request = match self.random.below(6) {
            0 => request.with_memory(1 + self.random.below(3)),
            1 => {
                let bytes = 1 + self.random.below(MAX_NODE_BYTES);
                request.with_node_memory(NodeMemory::Bytes(bytes))
            }
            2 if self.random.below(3) == 0 => request.with_node_memory(NodeMemory::Whole),
            _ => request,
        };
        if self.random.below(5) == 0 {
            request = request.with_exclusive_nodes();
        }
        if self.random.below(4) > 0 {
            return request;
        }
        let text = CONSTRAINTS[self.random.below(CONSTRAINTS.len() as u64) as usize];
        let constraint: Constraint = text.parse().expect("one of the constraints above");
        request.with_constraint(constraint)
    }

    fn finish(&mut self, world: &World) -> Event {
        let jobs: Vec<JobId> = world.running.keys().copied().collect();
        let Some(job) = self.pick(&jobs) else { return Event::SliceEdge };
        let running = world.running.get(&job).filter(|_| world.ending.contains(&job));
        if let Some(mut request) = running.map(|running| running.request.clone())
            && request.precedence.as_ref().is_some_and(|own| own.mode == Some(PreemptMode::Requeue))
        {
            request.preempted = true;
            self.due.push_front(Event::Submit(request));
        }
        Event::Finished(job)
    }

    fn cancel(&mut self, world: &World) -> Event {
        let jobs: Vec<JobId> = world.queue.iter().map(|request| request.id).collect();
        self.pick(&jobs).map_or(Event::SliceEdge, Event::Cancel)
    }

    fn prioritise(&mut self, world: &World) -> Event {
        let jobs: Vec<JobId> = world.queue.iter().map(|request| request.id).collect();
        let priority = Priority(self.random.below(3) as u32);
        self.pick(&jobs).map_or(Event::SliceEdge, |job| Event::Prioritise { job, priority })
    }

    fn node_event(&mut self, world: &World) -> Event {
        let nodes = world.machine.nodes();
        let index = self.random.below(nodes.len() as u64);
        let node = NodeIndex(index as u32);
        let state = nodes[index as usize].state();
        if self.leaves && self.random.below(2) == 0 {
            return match state {
                NodeState::Up | NodeState::Drained => Event::NodeAway(node),
                NodeState::Away | NodeState::Down => Event::NodeUp(node),
            };
        }
        match (state, self.random.below(3)) {
            (NodeState::Up, 0) => Event::NodeDrained(node),
            (NodeState::Up | NodeState::Drained | NodeState::Away, 1) => {
                self.due.extend(world.jobs_on(node).map(Event::Finished));
                Event::NodeDown(node)
            }
            _ => Event::NodeUp(node),
        }
    }

    /// An event that does not fit, most of the time.
    fn stray(&mut self, world: &World) -> Event {
        let job = JobId(1 + self.random.below(self.next_job));
        match self.random.below(5) {
            4 => Event::Prioritise { job, priority: Priority::default() },
            0 => Event::Finished(job),
            1 => Event::Cancel(job),
            2 => Event::NodeDown(NodeIndex(world.machine.nodes().len() as u32)),
            _ => Event::Submit(JobRequest::new(job, 1)),
        }
    }

    /// Reserves some nodes for a while, perhaps in conflict with others, or takes a reservation
    /// back.
    fn reserve(&mut self, world: &World) -> Event {
        let known: Vec<ReservationId> = world.reserved(self.now).map(|window| window.id).collect();
        if self.random.below(4) == 0
            && let Some(id) = self.pick(&known)
        {
            return Event::Unreserve(id);
        }
        let all = world.machine.nodes().len() as u32;
        let mut nodes: Vec<NodeIndex> = (0..all).map(NodeIndex).collect();
        nodes.retain(|_| self.random.below(2) == 0);
        if nodes.is_empty() {
            nodes.push(NodeIndex(self.random.below(u64::from(all)) as u32));
        }
        let id = self.reserved.map_or(1, |last| last + 1);
        self.reserved = Some(id);
        let start = self.now + Duration::from_millis(self.random.below(400).saturating_sub(100));
        let end = start + Duration::from_millis(1 + self.random.below(800));
        Event::Reserve(Reservation { id: ReservationId(id), nodes, start, end })
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let last = all.len().checked_sub(1)?;
        all.get(self.random.below(last as u64 + 1) as usize).copied()
    }

    fn new_job(&mut self) -> JobId {
        let job = JobId(self.next_job);
        self.next_job += 1;
        job
    }
}

/// The preemption among six jobs: one has no quality, three can be preempted, each in another mode,
/// one preempts these three, and one preempts all.
fn precedence(job: JobId) -> Option<Precedence> {
    let (number, modes) =
        (job.0 % 6, [PreemptMode::Suspend, PreemptMode::Requeue, PreemptMode::Cancel]);
    let preempts = |below: u16| (1..below).map(QosId).collect();
    Some(match number {
        0 => return None,
        1..=3 => {
            let mode = Some(modes[number as usize - 1]);
            Precedence { qos: QosId(number as u16), preempts: Vec::new(), mode }
        }
        4 => Precedence { qos: QosId(4), preempts: preempts(4), mode: Some(modes[0]) },
        _ => Precedence { qos: QosId(5), preempts: preempts(5), mode: None },
    })
}

/// A machine that is small enough for the oracle. Its nodes differ in size and, with `resources`,
/// in features and memory.
fn machine(random: &mut SplitMix64, resources: bool) -> Machine {
    let mut sizes = Vec::new();
    let mut left = 1 + random.below(u64::from(MAX_ORACLE_PES));
    while left > 0 {
        let pes = left.min(1 + random.below(MAX_NODE_PES));
        left -= pes;
        let mut node = NodeSpec::new(format!("n{}", sizes.len() + 1), pes as u32);
        if resources {
            node.features = ["a", "b"].map(str::to_owned).to_vec();
            node.features.retain(|_| random.below(3) > 0);
            node.memory_bytes = Some(1 + random.below(MAX_NODE_BYTES)).filter(|all| *all > 1);
        }
        sizes.push(node);
    }
    Machine::of_nodes(sizes).expect("at least one node, each with a PE, and few of them")
}

/// The SplitMix64 generator (Steele, Lea and Flood, OOPSLA 2014): one word of
/// state, and the same numbers on every machine.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    /// A number below `bound`; the bias is below 2^-50 for the bounds here.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
