//! One simulated node's handle on the primitives.

use crate::answer_slot::AnswerSlot;
use crate::sim::network::state::{Network, Seat};
use crate::sim::operation::Request;
use crate::sim::runtime::SimRuntime;
use crate::{
    CompareAndWrite, EventTable, GlobalMemory, Membership, NodeId, PrimitiveError, Primitives, Xfer,
};
use std::future::Future;
use std::rc::Rc;

/// The primitives as one incarnation of one simulated node sees them.
#[derive(Clone)]
pub struct SimPrimitives {
    pub(super) network: Rc<Network>,
    pub(super) seat: Seat,
}

impl Primitives for SimPrimitives {
    type Runtime = SimRuntime;

    fn runtime(&self) -> &SimRuntime {
        &self.seat.runtime
    }

    fn node(&self) -> NodeId {
        self.seat.node
    }

    fn memory(&self) -> &GlobalMemory {
        &self.seat.memory
    }

    fn events(&self) -> &EventTable {
        &self.seat.events
    }

    fn membership(&self) -> &Membership {
        &self.seat.membership
    }

    fn xfer_and_signal(&self, xfer: Xfer) {
        let event = xfer.local_event;
        if let Err(error) = self.network.issue(self.seat.node, self.seat.life, Request::Put(xfer))
            && let Some(event) = event
        {
            self.seat.events.signal(event, Err(error));
        }
    }

    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let (network, node, life) = (self.network.clone(), self.seat.node, self.seat.life);
        async move {
            let answer = AnswerSlot::default();
            network.issue(node, life, Request::Compare(caw, answer.clone()))?;
            answer.take().await
        }
    }
}
