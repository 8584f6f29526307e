//! One simulated node's handle on the primitives.

use crate::answer_slot::AnswerSlot;
use crate::sim::network::Network;
use crate::sim::operation::Request;
use crate::sim::runtime::SimRuntime;
use crate::{
    CompareAndWrite, EventTable, GlobalMemory, Membership, NodeId, PrimitiveError, Primitives, Xfer,
};
use std::future::Future;
use std::rc::Rc;

/// The primitives as one life of one simulated node sees them.
#[derive(Clone)]
pub struct SimPrimitives {
    pub(super) network: Rc<Network>,
    pub(super) runtime: SimRuntime,
    pub(super) node: NodeId,
    pub(super) life: u64,
    pub(super) memory: GlobalMemory,
    pub(super) events: EventTable,
    pub(super) membership: Membership,
}

impl Primitives for SimPrimitives {
    type Runtime = SimRuntime;

    fn runtime(&self) -> &SimRuntime {
        &self.runtime
    }

    fn node(&self) -> NodeId {
        self.node
    }

    fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    fn events(&self) -> &EventTable {
        &self.events
    }

    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn xfer_and_signal(&self, xfer: Xfer) {
        let event = xfer.local_event;
        if let Err(error) = self.network.issue(self.node, self.life, Request::Put(xfer))
            && let Some(event) = event
        {
            self.events.signal(event, Err(error));
        }
    }

    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let (network, node, life) = (self.network.clone(), self.node, self.life);
        async move {
            let answer = AnswerSlot::default();
            network.issue(node, life, Request::Compare(caw, answer.clone()))?;
            answer.take().await
        }
    }
}
