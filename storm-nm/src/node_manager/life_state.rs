//! The node in the cluster: its lives, one after the other, and why to leave. Each life may have
//! another id and another plan of global memory; the jobs are the same
//! (`docs/decisions/0127-a-node-is-its-name.md`).

use super::ExitReason;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use storm_primitives::{Bell, Instant, NodeId, Primitives};
use storm_rm::GlobalPlan;

/// A life of a node in the cluster.
#[derive(Clone, Debug)]
pub struct Life<P> {
    /// Its end of the network.
    pub primitives: P,
    /// The plan of global memory, if it differs from that of the life before.
    pub plan: Option<GlobalPlan>,
}

impl<P> From<P> for Life<P> {
    /// A life with the plan of the life before.
    fn from(primitives: P) -> Life<P> {
        Life { primitives, plan: None }
    }
}

/// The present life in the cluster, or the last life.
pub(super) struct LifeState<P> {
    name: String,
    id: Cell<NodeId>,
    link: RefCell<P>,
    plan: RefCell<Rc<GlobalPlan>>,
    /// Whether this is a later life, or this node manager has jobs that another node manager had.
    is_later: Cell<bool>,
    /// Since when no manager has accepted a life of this node.
    lost_since: Cell<Option<Instant>>,
    /// The number of elements that the Machine Manager requires, if it has no use for this node.
    told_refused: Cell<Option<u32>>,
    /// Why to leave, once that is known.
    exit: RefCell<Option<ExitReason>>,
    /// Whether the Machine Manager, or the loss of all processes, ended the work of this node.
    is_asked_to_leave: Cell<bool>,
    /// Rung after every change of the core, and when it is time to leave.
    changed: Bell,
}

/// The difference between a life and the life before.
#[derive(Debug, Default)]
pub(super) struct NewLife {
    /// The new id, if it is another one.
    pub(super) id: Option<NodeId>,
    /// The new room for a report, if the plan of global memory is another one.
    pub(super) report_bytes: Option<usize>,
}

impl<P: Primitives> LifeState<P> {
    /// The first life of the node of this name.
    pub(super) fn new(name: String, primitives: P, plan: GlobalPlan) -> LifeState<P> {
        LifeState {
            name,
            id: Cell::new(primitives.node()),
            link: RefCell::new(primitives),
            plan: RefCell::new(Rc::new(plan)),
            is_later: Cell::new(false),
            lost_since: Cell::default(),
            told_refused: Cell::default(),
            exit: RefCell::default(),
            is_asked_to_leave: Cell::new(false),
            changed: Bell::default(),
        }
    }

    /// Begins the next life.
    pub(super) fn begin(&self, life: Life<P>) -> NewLife {
        let Life { primitives, plan } = life;
        let id = primitives.node();
        let mut new = NewLife::default();
        if self.id.replace(id) != id {
            new.id = Some(id);
        }
        if let Some(plan) = plan {
            new.report_bytes = Some(plan.config.report_bytes as usize);
            self.plan.replace(Rc::new(plan));
        }
        self.link.replace(primitives);
        new
    }

    /// The name of the node in the cluster's configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The id of this life.
    pub(super) fn id(&self) -> NodeId {
        self.id.get()
    }

    /// The network of this life.
    pub(super) fn link(&self) -> P {
        self.link.borrow().clone()
    }

    /// The plan of global memory of this life.
    pub(super) fn plan(&self) -> Rc<GlobalPlan> {
        self.plan.borrow().clone()
    }

    /// Notes whether jobs may be here from before this life.
    pub(super) fn set_later(&self, is_later: bool) {
        self.is_later.set(is_later);
    }

    /// Whether jobs may be here from before this life.
    pub(super) fn is_later(&self) -> bool {
        self.is_later.get()
    }

    /// A Machine Manager has accepted this life.
    pub(super) fn accepted(&self) {
        self.lost_since.take();
    }

    /// The life is lost now. Returns since when no manager has accepted a life: a life that no
    /// manager accepted does not restart the time limit.
    pub(super) fn lost(&self, now: Instant) -> Instant {
        let since = self.lost_since.get().unwrap_or(now);
        self.lost_since.set(Some(since));
        since
    }

    /// Notes that the manager requires so many elements. Returns false if that was known.
    pub(super) fn is_newly_refused(&self, configured: u32) -> bool {
        self.told_refused.replace(Some(configured)) != Some(configured)
    }

    /// Leaves for this reason, unless there is an earlier one.
    pub(super) fn give_up(&self, reason: ExitReason) {
        self.exit.borrow_mut().get_or_insert(reason);
        self.changed.ring();
    }

    /// Completes with the reason to leave.
    pub(super) async fn exit(&self) -> ExitReason {
        self.changed.until(|| self.exit.borrow().clone()).await
    }

    /// Forgets the reason to leave the last life.
    pub(super) fn forget_exit(&self) {
        self.exit.take();
    }

    /// The jobs have been ordered to end, and the node manager ends after them.
    pub(super) fn ask_to_leave(&self) {
        self.is_asked_to_leave.set(true);
    }

    /// Whether the jobs have been ordered to end.
    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.is_asked_to_leave.get()
    }

    /// Reports that the core has changed.
    pub(super) fn core_changed(&self) {
        self.changed.ring();
    }

    /// Completes when the core holds to this.
    pub(super) async fn until_core(&self, holds: impl Fn() -> bool) {
        self.changed.until(|| holds().then_some(())).await;
    }
}
