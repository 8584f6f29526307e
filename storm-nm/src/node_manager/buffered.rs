//! Buffered coscheduling on this node: the engine that moves the messages of ranks, and the ranks'
//! memory ([decision 0093](../../../docs/decisions/0093-ranks-under-buffered-coscheduling.md)).
//!
//! The engine lasts for a life in the cluster: the slices are the Machine Manager's, and messages
//! in flight are lost with it. Between two slices it can be handed over (`handing_over`).

use super::Node;
use super::handing_over::HandingOver;
use crate::core::Event;
use crate::{Host, HostEvent, JobKey, JobTask};
use futures_util::StreamExt;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::{Completion, Edge, Engine, Member, Nudge, Ranks, StrobeReceiver};
use storm_mpi::segment::SEGMENT_REQUEST;
use storm_primitives::{Bell, Instant, NodeId, Primitives, Runtime, Task};
use storm_rm::Rank;
use storm_rm::message::Report;
use storm_rm::termination::Urgency;

/// Least time between two rings of a rank that are handled: a slice of default length.
const RING_PERIOD: Duration = Duration::from_micros(500);
/// The reason for ending jobs whose slices are over.
const MANAGER_GONE: &str = "its messages moved in slices of the Machine Manager, which is gone";
/// The reason for ending jobs that begin to communicate under the next node manager.
pub(super) const NM_GONE: &str =
    "its messages move in slices, and the Node Manager that it began with is gone";

/// This long after a switch was due, the host has done the switch. The node manager then checks
/// whether the row gives its processing elements away.
const SWITCH_DONE: Duration = Duration::from_micros(100);

/// The jobs that communicate in slices, or were to.
#[derive(Default)]
pub(super) struct BufferedJobs {
    /// Moves their bytes, in this life.
    slices: RefCell<Option<BufferedSlices>>,
    /// Jobs of earlier lives that were to communicate in slices and had not begun to, and why they
    /// end if they try.
    sliceless: RefCell<BTreeMap<JobKey, &'static str>>,
    /// Handing them over to the next node manager.
    pub(super) handing: HandingOver,
}

impl BufferedJobs {
    pub(super) fn slices(&self) -> Option<BufferedSlices> {
        self.slices.borrow().clone()
    }

    /// The job is to end, for this reason, if it begins to communicate.
    pub(super) fn never_begins(&self, job: JobKey, reason: &'static str) {
        self.sliceless.borrow_mut().insert(job, reason);
    }

    /// Why the job cannot communicate any more, if it was to do so and had not begun.
    fn sliceless(&self, job: JobKey) -> Option<&'static str> {
        self.sliceless.borrow().get(&job).copied()
    }
}

/// The state of buffered coscheduling in a life.
#[derive(Clone)]
pub(super) struct BufferedSlices {
    pub(super) engine: Rc<RefCell<Engine>>,
    pub(super) ranks: Rc<RefCell<Ranks>>,
    jobs: Rc<RefCell<BTreeMap<storm_bcs::JobKey, Opened>>>,
    /// Makes the engine check again for the events that it waits for, once there are slices.
    nudge: Rc<RefCell<Option<Nudge>>>,
    turns: Rc<ToldTurns>,
    /// The task that handles the rings of each rank.
    bells: Rc<RefCell<BTreeMap<Member, Task>>>,
    resting: Rc<Resting>,
}

/// The last report of waiting jobs.
#[derive(Default)]
struct ToldTurns {
    waiting: RefCell<Option<BTreeSet<JobKey>>>,
    /// The switch after which to check again.
    after: Cell<Option<Instant>>,
}

/// How often ranks have been requested to ring. An unasked ring, or a second ring soon after, is
/// not handled: it would keep the node busy.
#[derive(Default)]
struct Resting {
    asked: Cell<u64>,
    again: Bell,
}

/// A job that may communicate in slices.
#[derive(Clone, Copy)]
struct Opened {
    job: JobKey,
    /// Whether a rank here has requested its memory, and so communicates.
    joined: bool,
}

/// The engines' name for the run of a job: the same number on all nodes, and unique.
pub(super) fn engine_key(job: JobKey) -> storm_bcs::JobKey {
    storm_bcs::JobKey(job.incarnation.0)
}

pub(super) fn member(job: JobKey, rank: Rank) -> Member {
    Member { job: engine_key(job), rank: storm_mpi::Rank(rank.0) }
}

impl BufferedSlices {
    /// Makes the engine check again for the events that it waits for.
    fn nudge(&self) {
        nudge(&self.nudge);
    }

    /// Whether no job may communicate here.
    pub(super) fn is_unused(&self) -> bool {
        self.jobs.borrow().is_empty()
    }

    /// A job of a former node manager communicates here.
    pub(super) fn continues(&self, job: JobKey) {
        self.jobs.borrow_mut().insert(engine_key(job), Opened { job, joined: true });
    }

    /// The jobs all of whose ranks here wait.
    fn waiting(&self) -> BTreeSet<JobKey> {
        let (jobs, ranks) = (self.jobs.borrow(), self.ranks.borrow());
        let waiting = jobs.iter().filter(|(key, _)| ranks.all_wait(**key));
        waiting.map(|(_, opened)| opened.job).collect()
    }
}

fn nudge(nudge: &RefCell<Option<Nudge>>) {
    if let Some(nudge) = &*nudge.borrow() {
        nudge.nudge();
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Waits for the first strobe of a slice, and serves it and all later ones.
    pub(super) async fn await_slices(self: &Rc<Self>) {
        let (network, plan) = (self.life.link(), self.life.plan().bcs);
        if network.await_event(plan.strobed()).await.is_err() {
            return;
        }
        let BufferedSlices { engine, nudge, .. } = self.buffered_slices();
        let edge = NodeEdge { node: self.clone() };
        let receiver = StrobeReceiver::new(network, plan, engine, edge);
        nudge.replace(Some(receiver.nudge()));
        receiver.run().await;
    }

    pub(super) fn buffered_slices(&self) -> BufferedSlices {
        let mut present = self.buffered.slices.borrow_mut();
        let new = || BufferedSlices {
            engine: Rc::new(RefCell::new(Engine::new(self.life.id(), self.life.plan().bcs))),
            ranks: Rc::default(),
            jobs: Rc::default(),
            nudge: Rc::default(),
            turns: Rc::default(),
            bells: Rc::default(),
            resting: Rc::default(),
        };
        present.get_or_insert_with(new).clone()
    }

    /// Prepares to move the bytes of a job, if nodes move them. Returns false if it failed, and the
    /// job ends because of it.
    pub(super) fn open_slices(self: &Rc<Self>, task: &JobTask) -> bool {
        if !task.launch.buffered {
            return true;
        }
        let (job, buffered) = (task.key(), self.buffered_slices());
        let shares = task.launch.step_ranks();
        let placement: Rc<[NodeId]> =
            shares.flat_map(|share| (0..share.count).map(move |_| share.node)).collect();
        let opened = {
            let mut engine = buffered.engine.borrow_mut();
            let mut ranks = buffered.ranks.borrow_mut();
            ranks.open(&mut engine, engine_key(job), placement, self.life.id())
        };
        match opened {
            Ok(()) => {
                let opened = Opened { job, joined: false };
                buffered.jobs.borrow_mut().insert(engine_key(job), opened);
                true
            }
            Err(error) => {
                let refused = crate::LaunchRefused::because(&error);
                let reason = format!("no memory to share with its ranks: {}", refused.reason);
                let outcome = Err(crate::LaunchRefused { reason, ..refused });
                self.handle(Event::Prepared { job, outcome });
                false
            }
        }
    }

    /// Closes a job that has no ranks here any more.
    pub(super) fn close_slices(&self, job: JobKey) {
        self.buffered.sliceless.borrow_mut().remove(&job);
        let Some(buffered) = self.buffered.slices() else { return };
        let BufferedSlices { engine, ranks, jobs, bells, .. } = &buffered;
        let (theirs, others) =
            bells.take().into_iter().partition(|(who, _)| who.job == engine_key(job));
        bells.replace(others);
        drop::<BTreeMap<_, _>>(theirs);
        if jobs.borrow_mut().remove(&engine_key(job)).is_some() {
            ranks.borrow_mut().close(&mut engine.borrow_mut(), engine_key(job));
            buffered.nudge();
        }
    }

    /// Notes the end of a rank for which its peers may wait.
    pub(super) fn rank_gone(&self, job: JobKey, rank: Rank) {
        if let Some(buffered) = &*self.buffered.slices.borrow() {
            buffered.engine.borrow_mut().rank_gone(member(job, rank));
            buffered.nudge();
        }
    }

    /// Takes an event of the host first. Returns true if it needs no further handling. A rank that
    /// requests its memory gets it, or its job ends if its slices are over.
    pub(super) fn hear(self: &Rc<Self>, event: &HostEvent) -> bool {
        if let HostEvent::Pmi { job, line, .. } = event
            && line == SEGMENT_REQUEST
            && let Some(reason) = self.buffered.sliceless(*job)
        {
            self.handle(Event::Unserviceable { job: *job, reason: reason.to_owned() });
            return true;
        }
        let Some(buffered) = self.buffered.slices() else { return false };
        match event {
            // The next node manager answers.
            HostEvent::Pmi { line, .. }
                if line == SEGMENT_REQUEST && self.buffered.handing.is_closed() =>
            {
                true
            }
            HostEvent::Pmi { job, rank, line } if line == SEGMENT_REQUEST => {
                self.joins_slices(&buffered, *job);
                let ranks = buffered.ranks.borrow();
                let Some(segment) = ranks.segment(member(*job, *rank)) else { return false };
                self.host.hand_over(*job, *rank, segment);
                match segment.bell() {
                    Ok(bell) => self.hear_bell(&buffered, member(*job, *rank), bell),
                    Err(error) => tracing::error!(%error, "a rank's bell is not heard"),
                }
                true
            }
            HostEvent::Exited { job, exit } => {
                buffered.ranks.borrow_mut().gone(member(*job, exit.rank));
                false
            }
            _ => false,
        }
    }

    /// A rank of the job communicates from now on: the job ends with this node manager.
    fn joins_slices(self: &Rc<Self>, buffered: &BufferedSlices, key: JobKey) {
        let was_in = buffered
            .jobs
            .borrow_mut()
            .get_mut(&engine_key(key))
            .is_none_or(|opened| std::mem::replace(&mut opened.joined, true));
        if !was_in {
            self.host.ends_with_manager(key);
            let JobKey { step, incarnation } = key;
            self.post(Report::InSlices { step, incarnation }, Urgency::AtOnce);
        }
    }

    /// Makes the engine check for requests when a rank that was requested to ring does so.
    pub(super) fn hear_bell(
        self: &Rc<Self>,
        buffered: &BufferedSlices,
        who: Member,
        bell: OwnedFd,
    ) {
        let (node, resting) = (self.clone(), buffered.resting.clone());
        let engine = buffered.nudge.clone();
        let hearing = async move {
            let mut rings = pin!(node.host.rings(bell));
            // If the check found no requests of a rank, it has already requested the rank to ring.
            // A sleep for a rank that rings seldom ends at once.
            let mut next = node.runtime.now();
            while rings.next().await.is_some() {
                node.runtime.sleep_until(next).await;
                next = node.runtime.now() + RING_PERIOD;
                let asked = resting.asked.get();
                nudge(&engine);
                resting.again.until(|| (resting.asked.get() != asked).then_some(())).await;
            }
        };
        let before = buffered.bells.borrow_mut().insert(who, self.runtime.spawn(hearing));
        drop(before);
    }

    /// Stops handling rings of ranks.
    pub(super) fn hear_no_bells(&self) {
        let buffered = self.buffered.slices();
        let bells = buffered.map(|buffered| buffered.bells.take());
        drop(bells);
    }

    /// Checks which row gets the processing elements, since an event may have changed it. If
    /// `is_turn`, that was decided already. Checks again after the next switch that the host does
    /// by itself.
    pub(super) fn look_at_turns(self: &Rc<Self>, is_turn: bool) {
        let present = self.buffered.slices.borrow();
        let Some(buffered) = &*present else { return };
        if buffered.jobs.borrow().is_empty() {
            return;
        }
        if !is_turn {
            buffered.turns.waiting.take();
            buffered.nudge();
        }
        let now = self.runtime.now().as_nanos();
        let since = now.saturating_sub(SWITCH_DONE.as_nanos() as u64);
        let due = self.slices.due_from(Instant::from_nanos(since));
        if let (Some(due), true) = (due, buffered.turns.after.replace(due) != due) {
            self.spawn_in_life(move |node| async move {
                node.runtime.sleep_until(due + SWITCH_DONE).await;
                let present = node.buffered.slices();
                if let Some(buffered) = present
                    && buffered.turns.after.get() == Some(due)
                {
                    buffered.turns.waiting.take();
                    node.take_turns(&buffered);
                }
            });
        }
    }

    /// Lets a row whose ranks all wait here give its processing elements away, if the waiting jobs
    /// have changed since the last call.
    fn take_turns(self: &Rc<Self>, buffered: &BufferedSlices) {
        let waiting = buffered.waiting();
        if buffered.turns.waiting.borrow().as_ref() != Some(&waiting) {
            buffered.turns.waiting.replace(Some(waiting.clone()));
            self.handle(Event::Waiting { jobs: waiting });
        }
    }

    /// Ends the jobs that communicated in slices, since the Machine Manager and its slices are
    /// gone. Other jobs end as soon as they try.
    pub(super) fn end_slices(self: &Rc<Self>) {
        let Some(buffered) = self.buffered.slices.take() else { return };
        let jobs: Vec<Opened> = buffered.jobs.borrow().values().copied().collect();
        for Opened { job, joined } in jobs {
            if joined {
                self.handle(Event::Unserviceable { job, reason: MANAGER_GONE.to_owned() });
            } else {
                self.buffered.sliceless.borrow_mut().insert(job, MANAGER_GONE);
            }
        }
    }

    /// Ends jobs that can no longer communicate, for the reason that their ranks received. A job
    /// that does not communicate here continues, and the first of its ranks that tries receives the
    /// reason.
    fn end_failed(self: &Rc<Self>, buffered: &BufferedSlices) {
        let failures = buffered.ranks.borrow_mut().take_failures();
        for (key, error) in failures {
            let opened = buffered.jobs.borrow().get(&key).copied();
            if let Some(Opened { job, .. }) = opened.filter(|opened| opened.joined) {
                self.handle(Event::Unserviceable { job, reason: error.to_string() });
            }
        }
    }
}

/// The node between two slices.
struct NodeEdge<P: Primitives, H: Host> {
    node: Rc<Node<P, H>>,
}

impl<P: Primitives, H: Host> Edge for NodeEdge<P, H> {
    fn gather(&mut self, engine: &mut Engine) {
        if let Some(buffered) = &*self.node.buffered.slices.borrow() {
            buffered.ranks.borrow_mut().gather(engine);
        }
    }

    fn edge(&mut self, completions: Vec<Completion>) {
        let Some(buffered) = self.node.buffered.slices() else { return };
        buffered.ranks.borrow_mut().tell(completions);
        self.node.end_failed(&buffered);
        self.node.take_turns(&buffered);
    }

    fn rest(&mut self) -> bool {
        let Some(buffered) = self.node.buffered.slices() else { return false };
        let shared = buffered.jobs.borrow().len() > 1;
        let news = buffered.ranks.borrow_mut().rest(shared);
        buffered.resting.asked.update(|asked| asked + 1);
        buffered.resting.again.ring();
        // A rank that falls asleep from now on rings.
        self.node.take_turns(&buffered);
        news
    }

    fn goes_on(&mut self) {
        if let Some(buffered) = &*self.node.buffered.slices.borrow() {
            buffered.ranks.borrow_mut().goes_on();
        }
    }
}
