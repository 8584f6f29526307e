//! Buffered coscheduling on this node: the engine that moves what ranks send, and the ranks' memory
//! ([decision 0093](../../../docs/decisions/0093-ranks-under-buffered-coscheduling.md)).
//!
//! It lasts for one life in the cluster: the slices are the Machine Manager's, and what was on its way
//! in them is lost with it.

use super::Node;
use crate::core::Event;
use crate::{Host, HostEvent, JobKey, JobTask};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_bcs::{Completion, Edge, Engine, Member, Nudge, Ranks, StrobeReceiver};
use storm_mpi::segment::SEGMENT_REQUEST;
use storm_primitives::{NodeId, Primitives};
use storm_rm::Rank;

/// Said of jobs whose slices are over.
const MANAGER_GONE: &str = "its messages moved in slices of the Machine Manager, which is gone";

/// What there is of it in one life.
#[derive(Clone)]
pub(super) struct Coscheduling {
    engine: Rc<RefCell<Engine>>,
    ranks: Rc<RefCell<Ranks>>,
    jobs: Rc<RefCell<BTreeMap<storm_bcs::JobKey, Opened>>>,
    /// Has the engine look again at what it waits for, once there are slices.
    nudge: Rc<RefCell<Option<Nudge>>>,
}

/// A job that may communicate in slices.
#[derive(Clone, Copy)]
struct Opened {
    job: JobKey,
    /// One of its ranks here has asked for its memory: it does.
    joined: bool,
}

/// The run of a job, as the engines name it: the same number on all nodes, and no other run's.
fn engine_key(job: JobKey) -> storm_bcs::JobKey {
    storm_bcs::JobKey(u64::from(job.incarnation.0))
}

fn member(job: JobKey, rank: Rank) -> Member {
    Member { job: engine_key(job), rank: storm_mpi::Rank(rank.0) }
}

impl Coscheduling {
    /// Has the engine look again at what it waits for.
    fn nudge(&self) {
        if let Some(nudge) = &*self.nudge.borrow() {
            nudge.nudge();
        }
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Waits for the first strobe of a slice, and serves those and all that follow.
    pub(super) async fn await_slices(self: &Rc<Self>) {
        let (network, plan) = (self.primitives(), self.plan.bcs);
        if network.await_event(plan.strobed()).await.is_err() {
            return;
        }
        let Coscheduling { engine, nudge, .. } = self.coscheduling();
        let edge = NodeEdge { node: self.clone() };
        let receiver = StrobeReceiver::new(network, plan, engine, edge);
        nudge.replace(Some(receiver.nudge()));
        receiver.run().await;
    }

    fn coscheduling(&self) -> Coscheduling {
        let mut present = self.coscheduling.borrow_mut();
        let new = || Coscheduling {
            engine: Rc::new(RefCell::new(Engine::new(self.id, self.plan.bcs))),
            ranks: Rc::default(),
            jobs: Rc::default(),
            nudge: Rc::default(),
        };
        present.get_or_insert_with(new).clone()
    }

    /// Makes ready what moves the bytes of a job, if it is one whose bytes the nodes move. False: that
    /// failed, and the job is ending for it.
    pub(super) fn open_slices(self: &Rc<Self>, task: &JobTask) -> bool {
        if !task.launch.buffered {
            return true;
        }
        let (job, coscheduling) = (task.key(), self.coscheduling());
        let shares = task.launch.ranks.iter();
        let placement: Rc<[NodeId]> =
            shares.flat_map(|share| (0..share.count).map(move |_| share.node)).collect();
        let opened = {
            let mut engine = coscheduling.engine.borrow_mut();
            let mut ranks = coscheduling.ranks.borrow_mut();
            ranks.open(&mut engine, engine_key(job), placement, self.id)
        };
        match opened {
            Ok(()) => {
                let opened = Opened { job, joined: false };
                coscheduling.jobs.borrow_mut().insert(engine_key(job), opened);
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

    /// The job's ranks here are gone.
    pub(super) fn close_slices(&self, job: JobKey) {
        self.sliceless.borrow_mut().remove(&job);
        let Some(coscheduling) = self.coscheduling.borrow().clone() else { return };
        let Coscheduling { engine, ranks, jobs, .. } = &coscheduling;
        if jobs.borrow_mut().remove(&engine_key(job)).is_some() {
            ranks.borrow_mut().close(&mut engine.borrow_mut(), engine_key(job));
            coscheduling.nudge();
        }
    }

    /// A rank is gone that its peers may wait for.
    pub(super) fn rank_gone(&self, job: JobKey, rank: Rank) {
        if let Some(coscheduling) = &*self.coscheduling.borrow() {
            coscheduling.engine.borrow_mut().rank_gone(member(job, rank));
            coscheduling.nudge();
        }
    }

    /// Hears the host first; true: nobody else has to. A rank that asks for its memory gets it, or
    /// its job ends if its slices are over.
    pub(super) fn hear(self: &Rc<Self>, event: &HostEvent) -> bool {
        if let HostEvent::Pmi { job, line, .. } = event
            && line == SEGMENT_REQUEST
            && self.sliceless.borrow().contains(job)
        {
            self.handle(Event::Unserviceable { job: *job, reason: MANAGER_GONE.to_owned() });
            return true;
        }
        let Some(coscheduling) = self.coscheduling.borrow().clone() else { return false };
        match event {
            HostEvent::Pmi { job, rank, line } if line == SEGMENT_REQUEST => {
                if let Some(opened) = coscheduling.jobs.borrow_mut().get_mut(&engine_key(*job)) {
                    opened.joined = true;
                }
                let ranks = coscheduling.ranks.borrow();
                let segment = ranks.segment(member(*job, *rank));
                segment.inspect(|segment| self.host.hand_over(*job, *rank, segment)).is_some()
            }
            HostEvent::Exited { job, exit } => {
                coscheduling.ranks.borrow_mut().gone(member(*job, exit.rank));
                false
            }
            _ => false,
        }
    }

    /// The Machine Manager is gone, and its slices with it: jobs that communicated in them end, others
    /// as soon as they would.
    pub(super) fn end_slices(self: &Rc<Self>) {
        let Some(coscheduling) = self.coscheduling.take() else { return };
        let jobs: Vec<Opened> = coscheduling.jobs.borrow().values().copied().collect();
        for Opened { job, joined } in jobs {
            if joined {
                self.handle(Event::Unserviceable { job, reason: MANAGER_GONE.to_owned() });
            } else {
                self.sliceless.borrow_mut().insert(job);
            }
        }
    }

    /// Jobs that communicate no more end, for the reason that their ranks were told; one that does not
    /// communicate here goes on, and the first of its ranks that would is told.
    fn end_failed(self: &Rc<Self>, coscheduling: &Coscheduling) {
        let failures = coscheduling.ranks.borrow_mut().take_failures();
        for (key, error) in failures {
            let opened = coscheduling.jobs.borrow().get(&key).copied();
            if let Some(Opened { job, .. }) = opened.filter(|opened| opened.joined) {
                self.handle(Event::Unserviceable { job, reason: error.to_string() });
            }
        }
    }
}

/// The node between slices.
struct NodeEdge<P: Primitives, H: Host> {
    node: Rc<Node<P, H>>,
}

impl<P: Primitives, H: Host> Edge for NodeEdge<P, H> {
    fn gather(&mut self, engine: &mut Engine) {
        if let Some(coscheduling) = &*self.node.coscheduling.borrow() {
            coscheduling.ranks.borrow_mut().gather(engine);
        }
    }

    fn edge(&mut self, completions: Vec<Completion>) {
        let Some(coscheduling) = self.node.coscheduling.borrow().clone() else { return };
        coscheduling.ranks.borrow_mut().tell(completions);
        self.node.end_failed(&coscheduling);
        let waiting = {
            let (jobs, ranks) = (coscheduling.jobs.borrow(), coscheduling.ranks.borrow());
            let waiting = jobs.iter().filter(|(key, _)| ranks.all_wait(**key));
            waiting.map(|(_, opened)| opened.job).collect()
        };
        self.node.handle(Event::Waiting { jobs: waiting });
    }
}
