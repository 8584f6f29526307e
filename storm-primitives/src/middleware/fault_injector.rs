//! Faults on demand: operations that fail without effect, operations that are late, and nodes that
//! are dead in one node's view only.
//!
//! An injected failure keeps the contract of all or nothing: no node sees any effect of the
//! operation. Only the reason in its status is untrue.

use super::lane::Lane;
use super::{Fault, FaultPlan, Layer};
use crate::{
    CompareAndWrite, Membership, NodeId, NodeSet, PrimitiveError, Primitives, Runtime, Xfer,
};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// The primitives of one node, with faults. Clones share the faults.
#[derive(Clone)]
pub struct FaultInjector<P> {
    lane: Lane<P>,
    view: Membership,
    state: Rc<RefCell<State>>,
}

struct State {
    plan: FaultPlan,
    issued: u64,
    hidden: NodeSet,
}

impl<P: Primitives> FaultInjector<P> {
    /// The primitives of `inner` with the faults of `plan`.
    pub fn new(inner: P, plan: FaultPlan) -> FaultInjector<P> {
        let state = State { plan, issued: 0, hidden: NodeSet::new() };
        let this = FaultInjector {
            lane: Lane::new(inner),
            view: Membership::new(),
            state: Rc::new(RefCell::new(state)),
        };
        this.refresh_view();
        let follower = this.clone();
        this.runtime().spawn(async move { follower.follow_membership().await }).detach();
        this
    }

    /// The number of operations that the node has issued.
    pub fn issued(&self) -> u64 {
        self.state.borrow().issued
    }

    /// Makes `node` dead in this node's view: it leaves the membership, and operations that name it
    /// fail.
    pub fn hide(&self, node: NodeId) {
        self.state.borrow_mut().hidden.insert(node);
        self.refresh_view();
    }

    /// Ends the effect of [`hide`](Self::hide).
    pub fn reveal(&self, node: NodeId) {
        self.state.borrow_mut().hidden.remove(node);
        self.refresh_view();
    }

    /// Counts an operation on `set`. Returns its delay.
    fn next(&self, set: &NodeSet) -> Result<Duration, PrimitiveError> {
        let mut state = self.state.borrow_mut();
        let number = state.issued;
        state.issued += 1;
        let fault = state.plan.next(number);
        let nodes = state.hidden.intersection(set);
        if !nodes.is_empty() {
            return Err(PrimitiveError::NodesDead { nodes });
        }
        match fault {
            None => Ok(Duration::ZERO),
            Some(Fault::Late(delay)) => Ok(delay),
            Some(Fault::TimeOut) => Err(PrimitiveError::TimedOut { nodes: set.clone() }),
            Some(Fault::Fail(error)) => Err(error),
        }
    }

    async fn follow_membership(self) {
        let real = self.lane.inner().membership().clone();
        loop {
            let seen = real.epoch();
            self.refresh_view();
            real.changed(seen).await;
        }
    }

    /// Sets the view to the backend's view without the hidden nodes.
    fn refresh_view(&self) {
        let real = self.lane.inner().membership().incarnations();
        let is_seen = |node: NodeId| !self.state.borrow().hidden.contains(node);
        for node in self.view.alive().iter() {
            if !real.contains_key(&node) || !is_seen(node) {
                self.view.lost(node);
            }
        }
        for (node, life) in real.into_iter().filter(|(node, _)| is_seen(*node)) {
            self.view.joined(node, life);
        }
    }
}

impl<P: Primitives> Layer for FaultInjector<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        self.lane.inner()
    }

    fn view(&self) -> &Membership {
        &self.view
    }

    fn on_xfer(&self, xfer: Xfer) {
        match self.next(&xfer.dest) {
            Ok(delay) => self.lane.put(xfer, delay),
            Err(error) => {
                if let Some(event) = xfer.local_event {
                    self.events().signal(event, Err(error));
                }
            }
        }
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        async move {
            let delay = this.next(&caw.set)?;
            this.lane.ask(caw, delay).await
        }
    }
}

impl<P> std::fmt::Debug for FaultInjector<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultInjector").finish_non_exhaustive()
    }
}
