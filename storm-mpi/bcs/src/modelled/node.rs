//! One modelled node: its engine, the turns of its ranks, and the outcomes that they know of.

use crate::strobe_receiver::Edge;
use crate::{BcsError, Completion, Engine, Member, Nudge, Outcome, RequestId, Turns};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// State that the ranks and the driver of a node share.
pub(super) struct NodeModel {
    pub(super) engine: Rc<RefCell<Engine>>,
    /// Turns by processing element.
    turns: RefCell<Vec<Turns>>,
    done: RefCell<BTreeMap<RequestId, Result<Outcome, BcsError>>>,
    waiting: RefCell<BTreeMap<Member, RequestId>>,
    edges: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
    nudge: RefCell<Option<Nudge>>,
}

impl NodeModel {
    pub(super) fn new(engine: Engine) -> NodeModel {
        NodeModel {
            engine: Rc::new(RefCell::new(engine)),
            turns: RefCell::default(),
            done: RefCell::default(),
            waiting: RefCell::default(),
            edges: Cell::new(0),
            wakers: RefCell::default(),
            nudge: RefCell::default(),
        }
    }

    /// Sets the nudge that makes the node's driver check for news.
    pub(super) fn set_nudge(&self, nudge: Nudge) {
        self.nudge.replace(Some(nudge));
    }

    /// Nudges the driver, because there is news, or because another rank may run.
    pub(super) fn nudge(&self) {
        if let Some(nudge) = &*self.nudge.borrow() {
            nudge.nudge();
        }
    }

    /// Puts a rank on a processing element, from the next edge on.
    pub(super) fn place(&self, pe: usize, member: Member) {
        let mut turns = self.turns.borrow_mut();
        if turns.len() <= pe {
            turns.resize_with(pe + 1, Turns::default);
        }
        turns[pe].add(member);
        self.nudge();
    }

    /// Removes a rank that has ended from its processing element.
    pub(super) fn remove(&self, pe: usize, member: Member) {
        self.turns.borrow_mut()[pe].remove(member);
        self.nudge();
    }

    pub(super) fn runs(&self, pe: usize, member: Member) -> bool {
        self.turns.borrow()[pe].current() == Some(member)
    }

    /// Number of edges so far.
    pub(super) fn edges(&self) -> u64 {
        self.edges.get()
    }

    /// The next edge after the `seen`-th.
    pub(super) async fn edge_after(&self, seen: u64) {
        std::future::poll_fn(|cx| {
            if self.edges.get() != seen {
                return Poll::Ready(());
            }
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Takes the outcome of a request, if the rank has received it.
    pub(super) fn take_done(&self, request: RequestId) -> Option<Result<Outcome, BcsError>> {
        self.done.borrow_mut().remove(&request)
    }

    /// Records that a rank waits: from the next edge on, another rank has its processing element.
    pub(super) fn waits(&self, pe: usize, member: Member, request: RequestId) {
        self.waiting.borrow_mut().insert(member, request);
        self.turns.borrow_mut()[pe].set_waiting(member, true);
        self.nudge();
    }

    fn tell(&self, completions: Vec<Completion>) {
        let (mut done, mut waiting) = (self.done.borrow_mut(), self.waiting.borrow_mut());
        for Completion { member, request, outcome } in completions {
            done.insert(request, outcome);
            if waiting.get(&member) == Some(&request) {
                waiting.remove(&member);
                for turns in self.turns.borrow_mut().iter_mut() {
                    turns.set_waiting(member, false);
                }
            }
        }
    }
}

/// The edge for the driver.
pub(super) struct ModelEdge(pub(super) Rc<NodeModel>);

impl Edge for ModelEdge {
    fn edge(&mut self, completions: Vec<Completion>) {
        let node = &self.0;
        node.tell(completions);
        node.turns.borrow_mut().iter_mut().for_each(Turns::edge);
        node.edges.set(node.edges.get() + 1);
        node.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Ranks of a processing element take turns at edges.
    fn rest(&mut self) -> bool {
        self.0.turns.borrow().iter().any(Turns::waits_for_edge)
    }
}
