//! The lives of a node in the cluster. Each may have another id and another plan of global memory;
//! the jobs are the same (`docs/decisions/0127-a-node-is-its-name.md`).

use super::{ExitReason, Node};
use crate::Host;
use std::rc::Rc;
use storm_primitives::Primitives;
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
    /// A life with the plan of the one before.
    fn from(primitives: P) -> Life<P> {
        Life { primitives, plan: None }
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// The plan of the present life.
    pub(super) fn plan(&self) -> Rc<GlobalPlan> {
        self.plan.borrow().clone()
    }

    /// Begins the next life, perhaps under another id and with another plan.
    pub(super) fn begin_life(&self, life: Life<P>) {
        let Life { primitives, plan } = life;
        let id = primitives.node();
        if self.id.replace(id) != id {
            self.core.borrow_mut().renumber(id);
        }
        if let Some(plan) = plan {
            self.outbox.set_item_limit(plan.config.report_bytes as usize);
            self.plan.replace(Rc::new(plan));
        }
        self.link.replace(primitives);
    }

    /// Leaves if the Machine Manager has no use for a node with fewer processing elements than
    /// `configured`. The refused node is this one, or an earlier node of its name. A node that may
    /// have jobs stays, for them.
    pub(super) fn refused(self: &Rc<Self>, configured: u32) {
        let offered = self.host.info(self.id.get()).pes;
        if offered >= configured {
            return;
        }
        if !self.returned.get() {
            return self.give_up(ExitReason::TooFewPes { offered, configured });
        }
        if self.told_refused.replace(Some(configured)) != Some(configured) {
            tracing::error!(
                node = %self.name,
                offered,
                configured,
                "this node offers fewer PEs than are configured: it keeps its jobs and gets no others; \
                 start it with as many --pes when they have ended, or change `pes` in [[nodes]]"
            );
        }
    }
}
