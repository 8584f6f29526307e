//! The steps that a job starts in its place, from the request to the launch. No policy is asked:
//! the place is the job's (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use super::jobs::MAX_BYTES_PER_USER;
use super::live::{Granted, Launch, Layout, LivePlace, PlaceLedger, Room};
use super::scheduling::files_of_step;
use super::step_order::{StepOrder, StepOrderKind};
use super::{Core, Durable, StageOutcome, StepTimer, Timer};
use crate::api::{ApiError, ErrorCode, Peer};
use crate::job::{EndCause, JobEventKind, JobRecord, Phase, StepEvent, StepRecord};
use std::rc::Rc;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::{
    FirstStep, JobId, JobIncarnation, JobSpec, Memory, PartitionId, Share, StepAsk, StepId,
    StepLayout, StepRef, StepSize, StepSpec,
};

/// The most steps of a run of a job, as Slurm's `MaxStepCount`.
pub const STEPS_MAX: u32 = 40_000;

/// A request for a step.
#[derive(Clone, Debug)]
pub struct StepRequest {
    /// The run of the job in whose place the step is to run.
    pub run: JobIncarnation,
    /// The number by which the client finds the step.
    pub ask: StepAsk,
    /// The elements and the memory that it needs.
    pub size: StepSize,
    /// The nodes of the place on which it may run.
    pub layout: StepLayout,
    /// The program, with its surroundings.
    pub spec: StepSpec,
}

/// The answer to a request for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedStep {
    /// The step has its elements, or is over.
    Is(StepRef),
    /// The step waits for elements of the place, or for a place in the arrays of flags.
    Waits,
}

impl Core {
    /// A user asks for a step in the place of a job. A user that asks twice with the same number
    /// gets the step of the first time.
    ///
    /// # Errors
    /// An [`ApiError`] for the client: no such job or run, another user's job, a step that never
    /// fits, or too many steps.
    pub fn ask_for_step(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        request: StepRequest,
    ) -> Result<AskedStep, ApiError> {
        let StepRequest { run, ask, size, layout, mut spec } = request;
        let record = self.jobs.get(&job).ok_or_else(|| super::jobs::no_such_job(job))?;
        if record.spec.owner.uid != peer.uid {
            let message = format!("job {} is another user's", record.name());
            return Err(ApiError::new(ErrorCode::NotPermitted, message));
        }
        if record.incarnation != run {
            let message = format!(
                "job {} was queued again: its run {}, which STORM_PLACE names, is over",
                record.name(),
                run.0
            );
            return Err(ApiError::new(ErrorCode::JobEnded, message));
        }
        if let Some(known) = self.asked_before(record, ask) {
            return Ok(known);
        }
        let layout = self.check_step(record, &size, &layout)?;
        super::admission::check_paths(&spec)?;
        self.check_waiting_bytes(peer.uid, &spec)?;
        // A launch that is too long for a message could never leave.
        let as_job = JobSpec { step: spec, ..(*record.spec).clone() };
        self.config.check_size(&as_job)?;
        self.contents_sent(now, peer.uid, &as_job);
        spec = as_job.step;
        spec.env = self.jobs.shared_environment(&spec.env);
        self.live.wait_for_room(job, (ask, size, layout), Rc::new(spec));
        self.grant_steps(now, job);
        let record = self.jobs.get(&job).ok_or_else(|| super::jobs::no_such_job(job))?;
        Ok(self.asked_before(record, ask).unwrap_or(AskedStep::Waits))
    }

    /// The client of a waiting step has left. Returns whether the step waited.
    pub fn forget_step(&mut self, job: JobId, ask: StepAsk) -> bool {
        self.live.leave_step(job, ask)
    }

    /// The step that was asked for by this number.
    fn asked_before(&self, record: &JobRecord, ask: StepAsk) -> Option<AskedStep> {
        let number = record.steps.as_ref().and_then(|steps| steps.asked_by(ask));
        let waits = self.live.get(record.id).is_some_and(|live| live.awaits_step(ask));
        number
            .map(|number| AskedStep::Is(step_ref(record.id, number)))
            .or(waits.then_some(AskedStep::Waits))
    }

    /// The nodes on which a step may run. Fails if the job's place takes no such step.
    fn check_step(
        &self,
        record: &JobRecord,
        size: &StepSize,
        layout: &StepLayout,
    ) -> Result<Layout, ApiError> {
        let name = record.name();
        let live = self.live.get(record.id);
        let goes_on = matches!(record.phase, Phase::Starting | Phase::Running);
        let Some(live) = live.filter(|live| goes_on && !live.is_over()) else {
            let message = format!("job {name} has no place to run a step in: it is not running");
            return Err(ApiError::new(ErrorCode::JobEnded, message));
        };
        let refused = |message: String| Err(ApiError::new(ErrorCode::BadRequest, message));
        let layout = self.layout_of(live.ledger(), layout)?;
        if size.procs == 0 || size.elements_each == 0 {
            return refused(
                "a step has at least one process, and each at least one element".into(),
            );
        }
        if record.spec.first == FirstStep::Program && size.share != Share::Overlap {
            return refused(format!("the program of job {name} has all of its elements"));
        }
        if !live.ledger().could_hold(size, &layout) {
            let (asked, has) = (size_text(size, &layout), extent_text(record, live));
            let message =
                format!("the step asks for {asked}, and job {name} has {has}: it would never fit");
            return Err(ApiError::new(ErrorCode::Infeasible, message));
        }
        let (waiting, most) = (live.ledger().waiting(), live.ledger().waiting_max());
        if waiting >= most {
            let message = format!("{waiting} steps of job {name} wait");
            return Err(ApiError::new(ErrorCode::QueueFull, message)
                .why(format!("at most {most} may wait in its place"))
                .hint("ask again when some have begun"));
        }
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        if self.next_step(record).saturating_add(waiting) >= STEPS_MAX {
            return refused(format!("job {name} has started {STEPS_MAX} steps, the most of a run"));
        }
        Ok(layout)
    }

    /// A layout with nodes of the place instead of names.
    fn layout_of(&self, ledger: &PlaceLedger, asked: &StepLayout) -> Result<Layout, ApiError> {
        let place: NodeSet = ledger.nodes().collect();
        let nodes = |list: &Option<String>| match list {
            Some(list) => Ok(self.nodes.of_list(list)?.into_iter().collect()),
            None => Ok(NodeSet::new()),
        };
        let (required, excluded): (NodeSet, NodeSet) =
            (nodes(&asked.required)?, nodes(&asked.excluded)?);
        if let Some(node) = required.difference(&place).first() {
            let message = format!("node {} is not in the job's place", self.node_name(node));
            return Err(ApiError::new(ErrorCode::NoSuchNode, message));
        }
        let StepLayout { per_node, overcommit, .. } = *asked;
        Ok(Layout { per_node, overcommit, required, excluded: excluded.intersection(&place) })
    }

    /// Fails if the steps of a user that wait would take too much memory with one more.
    pub(super) fn check_waiting_bytes(&self, uid: u32, spec: &StepSpec) -> Result<(), ApiError> {
        let own = self.live.iter().filter(|(job, _)| {
            self.jobs.get(job).is_some_and(|record| record.spec.owner.uid == uid)
        });
        let waiting = own.flat_map(|(_, live)| live.waiting_specs());
        let bytes: usize = waiting.chain([spec]).map(bytes_of).sum();
        if bytes as u64 <= MAX_BYTES_PER_USER {
            return Ok(());
        }
        let message = format!("your steps that wait take {} MiB", bytes >> 20);
        let most = MAX_BYTES_PER_USER >> 20;
        Err(ApiError::new(ErrorCode::QueueFull, message)
            .why(format!("those of one user may take {most} MiB"))
            .hint("ask again when some have begun"))
    }

    /// A node has told of its memory: places that have all of it count it from now on.
    pub(super) fn count_memory_of(&mut self, node: NodeId) {
        let all = |job: &JobId| {
            self.jobs.get(job).is_some_and(|job| job.spec.resources.memory == Memory::WholeNode)
        };
        let there = self.live.iter().filter(|(_, live)| live.place_nodes().contains(node));
        let jobs: Vec<JobId> = there.map(|(job, _)| job).filter(all).collect();
        for job in jobs {
            let Some(record) = self.jobs.get(&job) else { continue };
            let rooms = self.rooms(record);
            let steps = record.steps.iter().flat_map(|steps| steps.live());
            let steps = steps.map(|(_, step)| (step.ask, step.size, &step.ranks[..]));
            self.live.recount(job, rooms, steps);
        }
    }

    /// The number of a job's next step. The program of a job without a script is step 0.
    fn next_step(&self, record: &JobRecord) -> u32 {
        let first = match record.spec.first {
            FirstStep::Program => 1,
            FirstStep::Script => 0,
        };
        record.steps.as_ref().map_or(first, |steps| steps.next().max(first))
    }

    /// A place's share of each of its nodes.
    pub(super) fn rooms(&self, record: &JobRecord) -> Vec<Room> {
        let resources = &record.spec.resources;
        let rooms = record.ranks.iter().map(|share| {
            let entry = self.nodes.get(share.node);
            let own = share.count.saturating_mul(resources.cpus_per_task);
            let elements = match (resources.exclusive, entry) {
                (true, Some(entry)) => entry.pes.max(own),
                (true, None) | (false, _) => own,
            };
            let memory_bytes = match resources.memory {
                Memory::Unstated => None,
                Memory::PerNode(bytes) => Some(bytes),
                Memory::PerCpu(bytes) => Some(bytes.saturating_mul(u64::from(own))),
                Memory::WholeNode => {
                    let info = entry.and_then(|entry| entry.info.as_ref());
                    info.map(|info| info.memory_mib << 20)
                }
            };
            let procs_max = entry.map_or(elements, |entry| entry.pes);
            Room { node: share.node, elements, memory_bytes, procs_max }
        });
        rooms.collect()
    }

    /// A place in the arrays of flags is free: steps of any job may get it.
    pub(super) fn grant_all_steps(&mut self, now: Instant) {
        for job in self.live.take_step_waiters() {
            self.grant_steps(now, job);
        }
    }

    /// A node is back: steps that wait for elements of it may have them.
    pub(super) fn grant_steps_on(&mut self, now: Instant, node: NodeId) {
        let of_node = |(_, place): &(JobId, &LivePlace)| place.place_nodes().contains(node);
        let jobs = self.live.with_waiting_steps().filter(of_node).map(|(job, _)| job);
        for job in jobs.collect::<Vec<JobId>>() {
            self.grant_steps(now, job);
        }
    }

    /// Starts the waiting steps of a job that fit, in the order of their arrival.
    pub(super) fn grant_steps(&mut self, now: Instant, job: JobId) {
        loop {
            let Some(record) = self.jobs.get(&job) else { return };
            let goes_on = record.phase == Phase::Running && !self.jobs.is_closed();
            let goes_on = goes_on && self.live.get(job).is_some_and(|live| !live.is_over());
            let number = self.next_step(record);
            if !goes_on || number >= STEPS_MAX {
                return;
            }
            let Core { live, nodes, .. } = self;
            let is_up = |node| nodes.up().contains(node);
            let Some(granted) = live.grant_step(now, (job, number), is_up) else { return };
            let Granted { run, ask, size, spec, ranks } = granted;
            let event = StepEvent::Began { run, ask, size, spec, ranks };
            self.append_of_step(now, (job, number), event);
            self.notify_step_began((job, number), ask);
            self.stage_step(now, (job, number));
        }
    }

    /// Appends an event of a step.
    pub(super) fn append_of_step(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        event: StepEvent,
    ) {
        self.append(now, job, JobEventKind::Step { number, event });
    }

    /// Brings the files of a step to its nodes.
    pub(super) fn stage_step(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some((record, step)) = self.step_record((job, number)) else { return };
        let (files, owner, run) = (files_of_step(&step.spec), record.spec.owner, step.run);
        let Some(live) = self.live.step(job, number) else { return };
        let nodes = live.nodes().clone();
        if files.is_empty() {
            return self.step_staged(now, (job, number), Ok(StageOutcome::default()));
        }
        self.order((job, number), run, nodes, StepOrderKind::Stage { files, owner });
    }

    /// The files of a step are on its nodes, or cannot be brought there.
    pub(super) fn step_staged(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        outcome: Result<StageOutcome, String>,
    ) {
        let staging = |core: &Core| {
            core.live.step(job, number).is_some_and(|step| step.launch() == Launch::Staging)
        };
        match outcome {
            _ if !staging(self) => {}
            Ok(stage) => {
                self.live.step_staged(now, (job, number), stage);
                let Some(live) = self.live.get(job) else { return };
                // If the place's row does not run, the launch waits for the edge.
                if self.partitions[live.partition()].may_launch(live.rows()) {
                    self.launch_step(now, (job, number));
                }
            }
            Err(reason) => {
                self.end_step(now, (job, number), EndCause::StagingFailed { reason });
                self.finish_if_over(now, job);
            }
        }
    }

    /// Launches the steps of a partition that wait for an edge, in the places that `chosen` names.
    pub(super) fn launch_staged_steps(
        &mut self,
        now: Instant,
        partition: PartitionId,
        chosen: impl Fn(&Core, JobId) -> bool,
    ) {
        for (job, number) in self.live.staged_steps(partition) {
            if chosen(self, job) {
                self.launch_step(now, (job, number));
            }
        }
    }

    /// The place of a job may run again: launches its steps that have waited for that, unless the
    /// place waits for an edge.
    pub(super) fn launch_steps_of(&mut self, now: Instant, job: JobId) {
        let Some(live) = self.live.get(job) else { return };
        let (partition, rows) = (live.partition(), live.rows());
        if self.partitions[partition].may_launch(rows) && !self.jobs.is_closed() {
            self.launch_staged_steps(now, partition, |_, other| other == job);
        }
    }

    /// Launches a step whose files are on its nodes.
    fn launch_step(&mut self, now: Instant, (job, number): (JobId, u32)) {
        let Some(step) = self.live.step(job, number) else { return };
        let nodes = step.nodes().clone();
        self.live.count_launch();
        self.launch_step_on(now, (job, number), nodes);
    }

    /// Issues the launch of a step to `nodes`, a part of its nodes.
    pub(super) fn launch_step_on(
        &mut self,
        now: Instant,
        (job, number): (JobId, u32),
        nodes: NodeSet,
    ) {
        let Some(launch) = self.step_launch((job, number)) else { return };
        let Some(live) = self.live.step(job, number) else { return };
        let (run, again) = (launch.incarnation, nodes != *live.nodes());
        self.live.step_launched(now, (job, number));
        if !nodes.is_empty() {
            self.order((job, number), run, nodes, StepOrderKind::Launch(Rc::new(launch)));
        }
        if again && let Some(live) = self.live.step(job, number) {
            // Its announcer may have reported before.
            self.effects.durable.push(Durable::AwaitStarted(live.watch(step_ref(job, number))));
        }
        self.arm_step(now + self.config.launch_timeout, (job, number), run, StepTimer::Launch);
    }

    /// All ranks of a step execute.
    pub(super) fn step_started(&mut self, now: Instant, (job, number): (JobId, u32)) {
        if !self.live.step_started(now, (job, number)) {
            return;
        }
        let known = self.step_record((job, number)).map(|(_, step)| step.started.is_some());
        if known == Some(false) {
            self.append_of_step(now, (job, number), StepEvent::Started);
        }
        self.limit_step(now, (job, number));
        self.notify_step_runs((job, number));
    }

    /// The record of a job, and that of a step that is not over.
    pub(super) fn step_record(
        &self,
        (job, number): (JobId, u32),
    ) -> Option<(&JobRecord, &StepRecord)> {
        let record = self.jobs.get(&job)?;
        Some((record, record.steps.as_ref()?.get(number)?))
    }

    /// Orders nodes something about a step.
    pub(super) fn order(
        &mut self,
        (job, number): (JobId, u32),
        run: JobIncarnation,
        nodes: NodeSet,
        kind: StepOrderKind,
    ) {
        let order = StepOrder { step: step_ref(job, number), run, nodes, kind };
        self.effects.durable.push(Durable::Step(order));
    }

    /// Sets a timer of a step.
    pub(super) fn arm_step(
        &mut self,
        at: Instant,
        (job, number): (JobId, u32),
        run: JobIncarnation,
        kind: StepTimer,
    ) {
        let timer = Timer::Step { job, number, run, kind };
        self.effects.durable.push(Durable::Timer { at, timer });
    }
}

/// The size of a step in words.
fn size_text(size: &StepSize, layout: &Layout) -> String {
    let StepSize { procs, nodes, elements_each, memory, .. } = size;
    let mib = |bytes: &u64| bytes.div_ceil(1 << 20);
    let mut text = match procs {
        1 => "1 process".to_owned(),
        _ => format!("{procs} processes"),
    };
    match elements_each {
        1 => {}
        _ => text += &format!(" of {elements_each} elements"),
    }
    if let Some(nodes) = nodes {
        text += &format!(" on {nodes} nodes");
    }
    if let Some(most) = layout.per_node {
        text += &format!(", at most {most} on a node");
    }
    match memory {
        Memory::PerNode(bytes) => text += &format!(", with {} MiB on each node", mib(bytes)),
        Memory::PerCpu(bytes) => text += &format!(", with {} MiB for each element", mib(bytes)),
        Memory::Unstated | Memory::WholeNode => {}
    }
    text
}

/// The extent of a job's place, in words.
fn extent_text(record: &JobRecord, live: &LivePlace) -> String {
    let (elements, memory) = live.ledger().extent();
    let nodes = record.ranks.len();
    let memory = memory.map(|bytes| format!(", with at most {} MiB on each", bytes >> 20));
    let unit = if nodes == 1 { "node" } else { "nodes" };
    format!("{elements} elements on {nodes} {unit}{}", memory.unwrap_or_default())
}

/// The memory that the request of a step takes, roughly.
fn bytes_of(spec: &StepSpec) -> usize {
    let texts: usize = spec.argv.iter().map(|text| text.as_bytes().len()).sum();
    let (limits, files) = (size_of_val(&*spec.limits), size_of_val(&*spec.files));
    size_of::<StepSpec>() + texts + spec.env.text_bytes() + limits + files
}

/// A further step of a job.
pub(super) fn step_ref(job: JobId, number: u32) -> StepRef {
    StepRef { job, step: StepId::Number(number) }
}
