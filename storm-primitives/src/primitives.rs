//! The trait of the three primitives and its contract.

use crate::{
    AwaitEvent, EventId, EventTable, GlobalAddr, GlobalMemory, Membership, NodeId, NodeSet,
    PrimitiveError, Runtime, Signal, Var, Word,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::future::Future;

/// The three primitives on one network, seen from one node.
///
/// # Contract (paper, section 2.4.1)
///
/// **Order.** All operations on a cluster take effect in one total order. It respects the
/// order in which each node issued its own operations. XFER-AND-SIGNALs and
/// COMPARE-AND-WRITEs are thus sequentially consistent: two concurrent COMPARE-AND-WRITEs
/// behave as if one had come first, and concurrent writers leave the same value on every
/// node. A node's loads and stores on its own copy ([`GlobalMemory::load`],
/// [`GlobalMemory::store`]) are outside this order: they take effect at once, on that node
/// only.
///
/// **All or nothing.** An XFER-AND-SIGNAL reaches every node of its set, or no surviving
/// node of it. *Success* on the local event means that every node of the set had the data.
/// *Failure* means that no surviving node saw or will see any of the data. The same holds
/// for the write of a COMPARE-AND-WRITE.
///
/// **Death.** Nodes stop; they do not lie.
/// - If a node of the set is known dead when the operation takes its place in the order, the
///   operation fails with [`PrimitiveError::NodesDead`], which names exactly the dead nodes.
/// - If a node of the set dies later, it counts as having died after the operation, which
///   completes on all survivors. Nobody can tell the difference: a dead node's memory is gone.
/// - A large transfer that is still being staged when a node of its set dies may fail instead.
/// - A COMPARE-AND-WRITE that loses a node of its set before all have answered fails and
///   writes nowhere. Once all have answered, its write reaches all survivors.
/// - A death outside the set has no effect on the operation.
/// - A node that was cut off comes back only as a new [incarnation](crate::Incarnation), with
///   zeroed memory and no pending signals.
///
/// **Death of the initiator.** Its operations that have their place in the order complete;
/// its other operations have no effect.
///
/// **Signals.** The remote event of an XFER-AND-SIGNAL is signalled on a node after the data
/// is visible there. The local event is signalled once, with the status, after the operation
/// is complete on every node. One test takes one signal.
///
/// **Sets.** The issuing node may be in the set. An empty set succeeds, compares TRUE and
/// writes nothing.
///
/// **Own stores.** If [`precedes_own_stores`](Self::precedes_own_stores) is true, every
/// operation that the node has issued is ordered before its later local stores become
/// visible. When another node then reads such a store with a read-only COMPARE-AND-WRITE that
/// returns TRUE, the operations that it issues next are ordered after them. FALSE guarantees
/// nothing, nor does a COMPARE-AND-WRITE that wrote. With this promise a node can announce
/// that its part is done without waiting for the status of its operations.
///
/// **Blocking.** XFER-AND-SIGNAL never blocks. It takes its place in the issuing node's order
/// when it is called, even if the caller goes away. COMPARE-AND-WRITE blocks. It takes its
/// place when its future is first polled. After its future is dropped, the operation has
/// happened entirely or not at all; the caller cannot know which.
pub trait Primitives: Clone + 'static {
    /// The clock and executor that this network runs on.
    type Runtime: Runtime;

    /// Time, timers and tasks.
    fn runtime(&self) -> &Self::Runtime;

    /// The node this handle speaks for.
    fn node(&self) -> NodeId;

    /// The node's copy of global memory.
    fn memory(&self) -> &GlobalMemory;

    /// The node's events.
    fn events(&self) -> &EventTable;

    /// The live nodes, as far as this node knows.
    fn membership(&self) -> &Membership;

    /// XFER-AND-SIGNAL (Algorithm 10): puts a block of data into the global memory of a set of
    /// nodes, then signals. Never blocks. The status is signalled on the local event, even if the
    /// arguments are at fault.
    fn xfer_and_signal(&self, xfer: Xfer);

    /// COMPARE-AND-WRITE (Algorithm 12): returns whether the comparison holds on every node of the
    /// set. If it does and a write was asked for, the write is complete on every node when this
    /// call returns.
    ///
    /// # Errors
    /// [`PrimitiveError`] if the question could not be answered; then nothing was written.
    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static;

    /// Whether every operation that this node has issued so far is ordered before the local
    /// stores that it makes from now on; see *Own stores* in the contract. The answer may always
    /// be false. A caller that gets false waits for the status of its operations instead.
    fn precedes_own_stores(&self) -> bool {
        false
    }

    /// TEST-EVENT, polling (Algorithm 11): takes one signal if there is one.
    fn test_event(&self, event: EventId) -> Option<Signal> {
        self.events().poll(event)
    }

    /// TEST-EVENT, blocking (Algorithm 11): takes one signal, waiting for it.
    fn await_event(&self, event: EventId) -> AwaitEvent {
        self.events().wait(event)
    }

    /// XFER-AND-SIGNAL followed by a blocking TEST-EVENT on a fresh local event, which replaces
    /// the local event of `xfer`. The transfer is issued when the future is first polled.
    fn xfer_and_wait(&self, xfer: Xfer) -> impl Future<Output = Signal> + 'static {
        let this = self.clone();
        async move {
            let done = this.events().local();
            this.xfer_and_signal(Xfer { local_event: Some(done.id()), ..xfer });
            this.await_event(done.id()).await
        }
    }
}

/// The arguments of one XFER-AND-SIGNAL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xfer {
    /// The nodes to write to.
    pub dest: NodeSet,
    /// The destination address in global memory.
    pub addr: GlobalAddr,
    /// The bytes to write; may be empty, to signal only.
    pub data: Bytes,
    /// Symmetric event to signal on every node of `dest`.
    pub remote_event: Option<EventId>,
    /// Event to signal on the issuing node with the status.
    pub local_event: Option<EventId>,
}

impl Xfer {
    /// A transfer without signals.
    pub fn new(dest: NodeSet, addr: GlobalAddr, data: impl Into<Bytes>) -> Xfer {
        Xfer { dest, addr, data: data.into(), remote_event: None, local_event: None }
    }

    /// Signals `event` on every node of the set.
    #[must_use]
    pub fn signal_remote(mut self, event: EventId) -> Xfer {
        self.remote_event = Some(event);
        self
    }

    /// Signals `event` here with the status.
    #[must_use]
    pub fn signal_local(mut self, event: EventId) -> Xfer {
        self.local_event = Some(event);
        self
    }
}

/// The arguments of one COMPARE-AND-WRITE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareAndWrite {
    /// The nodes to ask.
    pub set: NodeSet,
    /// The variable to compare on each of them: the left side of the relation.
    pub var: GlobalAddr,
    /// The comparison, unsigned.
    pub relation: Relation,
    /// The right side of the relation.
    pub value: u64,
    /// A variable and the value to give it on every node of the set if the
    /// comparison holds on all.
    pub write: Option<(GlobalAddr, u64)>,
}

impl CompareAndWrite {
    /// Asks whether `var relation value` holds on every node of `set`.
    pub fn new<T: Word>(set: NodeSet, var: Var<T>, relation: Relation, value: T) -> Self {
        CompareAndWrite { set, var: var.addr(), relation, value: value.to_word(), write: None }
    }

    /// If so, also sets `var` to `value` on every node of the set.
    #[must_use]
    pub fn then_write<T: Word>(mut self, var: Var<T>, value: T) -> Self {
        self.write = Some((var.addr(), value.to_word()));
        self
    }
}

/// The four comparisons of COMPARE-AND-WRITE (paper, section 2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
}

impl Relation {
    /// All relations.
    pub const ALL: [Relation; 4] =
        [Relation::GreaterOrEqual, Relation::Less, Relation::Equal, Relation::NotEqual];

    /// Whether `left` stands in this relation to `right`.
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Relation::GreaterOrEqual => left >= right,
            Relation::Less => left < right,
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
        }
    }
}
