//! The primitives between nodes of one process, in real time. Each operation takes effect where it
//! is issued. No node dies.

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant as StdInstant};
use storm_primitives::{
    CompareAndWrite, EventTable, GlobalMemory, Incarnation, Instant, Layout, Membership, NodeId,
    PrimitiveError, Primitives, Runtime, Task, Xfer,
};

#[derive(Clone)]
pub(crate) struct TokioRuntime {
    origin: StdInstant,
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Instant {
        Instant::ORIGIN + self.origin.elapsed()
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + 'static {
        let due = self.origin + Duration::from_nanos(deadline.as_nanos());
        tokio::time::sleep_until(due.into())
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Task {
        let task = tokio::task::spawn_local(future);
        Task::new(move || task.abort())
    }
}

struct Node {
    memory: GlobalMemory,
    events: EventTable,
    membership: Membership,
}

/// One node's handle.
#[derive(Clone)]
pub(crate) struct Loopback {
    nodes: Rc<Vec<Node>>,
    node: NodeId,
    runtime: TokioRuntime,
}

/// The handles of the management node and of `count` compute nodes.
pub(crate) fn cluster(count: u32, layout: &Layout) -> Vec<Loopback> {
    let make = |_| {
        let membership = Membership::new();
        (0..=count).for_each(|node| membership.joined(NodeId(node), Incarnation(1)));
        Node { memory: GlobalMemory::new(layout), events: EventTable::new(layout), membership }
    };
    let nodes: Rc<Vec<Node>> = Rc::new((0..=count).map(make).collect());
    let runtime = TokioRuntime { origin: StdInstant::now() };
    let handle =
        |node| Loopback { nodes: nodes.clone(), node: NodeId(node), runtime: runtime.clone() };
    (0..=count).map(handle).collect()
}

impl Loopback {
    fn own(&self) -> &Node {
        &self.nodes[self.node.index()]
    }

    fn put(&self, xfer: &Xfer) -> Result<(), PrimitiveError> {
        for node in xfer.dest.iter() {
            self.nodes[node.index()].memory.write(xfer.addr, &xfer.data)?;
        }
        if let Some(event) = xfer.remote_event {
            xfer.dest.iter().for_each(|node| self.nodes[node.index()].events.signal(event, Ok(())));
        }
        Ok(())
    }

    fn compare(&self, caw: &CompareAndWrite) -> Result<bool, PrimitiveError> {
        for node in caw.set.iter() {
            let word = self.nodes[node.index()].memory.load_word(caw.var)?;
            if !caw.relation.holds(word, caw.value) {
                return Ok(false);
            }
        }
        if let Some((addr, value)) = caw.write {
            for node in caw.set.iter() {
                self.nodes[node.index()].memory.store_word(addr, value)?;
            }
        }
        Ok(true)
    }
}

impl Primitives for Loopback {
    type Runtime = TokioRuntime;

    fn runtime(&self) -> &TokioRuntime {
        &self.runtime
    }

    fn node(&self) -> NodeId {
        self.node
    }

    fn memory(&self) -> &GlobalMemory {
        &self.own().memory
    }

    fn events(&self) -> &EventTable {
        &self.own().events
    }

    fn membership(&self) -> &Membership {
        &self.own().membership
    }

    fn xfer_and_signal(&self, xfer: Xfer) {
        let status = self.put(&xfer);
        if let Some(event) = xfer.local_event {
            self.own().events.signal(event, status);
        }
    }

    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        async move { this.compare(&caw) }
    }
}
