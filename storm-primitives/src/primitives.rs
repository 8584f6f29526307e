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
/// **Order.** All operations on a cluster take effect in one total order that
/// respects the order in which each node issued its own. XFER-AND-SIGNALs and
/// COMPARE-AND-WRITEs are thus sequentially consistent: two concurrent
/// COMPARE-AND-WRITEs behave as if one had come first, and concurrent writers
/// leave the same value on every node. A node's own loads and stores on its own
/// copy ([`GlobalMemory::load`], [`GlobalMemory::store`]) are outside this
/// order: they take effect at once, on that node only.
///
/// **All or nothing.** An XFER-AND-SIGNAL reaches every node of its set or no
/// surviving one. *Failure* on the local event means that no surviving node saw
/// or will see any of it; *success* means that every node of the set had
/// it. The same holds for the write of a COMPARE-AND-WRITE.
///
/// **Death.** Nodes stop; they do not lie. An operation that names a node
/// known dead when it takes its place in the order fails with
/// [`PrimitiveError::NodesDead`] naming exactly the dead. A node that dies later
/// counts as having died after the operation, which then completes on all
/// survivors: since a dead node's memory is gone, no one can tell the difference.
/// A large transfer that is still being staged when a node of its set dies may
/// fail instead. A COMPARE-AND-WRITE that loses a node of its set before all
/// have answered fails and writes nowhere; once all have answered, its write
/// reaches all survivors. A death outside the set has no effect on the
/// operation. A node that was cut off comes back only as a new
/// [incarnation](crate::Incarnation) with zeroed memory and no pending signals.
///
/// **Death of the initiator.** Its operations that have their place in the
/// order complete; the others have no effect.
///
/// **Signals.** The remote event of an XFER-AND-SIGNAL is signalled on a node
/// after the data is visible there. The local event is signalled once, with the
/// status, after the operation is complete everywhere. One test takes one signal.
///
/// **Sets.** The issuing node may be in the set. An empty set succeeds, compares
/// TRUE and writes nothing.
///
/// **Own stores.** Where [`precedes_own_stores`](Self::precedes_own_stores) says so, what a node has issued
/// comes before all that follows from what it stores then: who finds such a store by a COMPARE-AND-WRITE that
/// writes nothing and is TRUE, and issues an operation when it is answered, has its place behind all that. (That
/// one is FALSE, or wrote, says nothing of it.) So a node can say that it has done its part without waiting
/// for the status of its operations.
///
/// **Blocking.** XFER-AND-SIGNAL never blocks and takes its place in the issuing
/// node's order when called, also if the caller goes away. COMPARE-AND-WRITE
/// blocks; it takes its place when its future is first polled, and dropping that future
/// leaves open whether it happened, never half of it.
pub trait Primitives: Clone + 'static {
    /// The clock and executor that this network runs on.
    type Runtime: Runtime;

    /// Time, timers and tasks.
    fn runtime(&self) -> &Self::Runtime;

    /// The node this handle speaks for.
    fn node(&self) -> NodeId;

    /// This node's copy of global memory.
    fn memory(&self) -> &GlobalMemory;

    /// This node's events.
    fn events(&self) -> &EventTable;

    /// Who is alive, as far as this node knows.
    fn membership(&self) -> &Membership;

    /// XFER-AND-SIGNAL (Algorithm 10): puts a block of data into the global
    /// memory of a set of nodes, then signals. Never blocks; the status is
    /// signalled on the local event, also when the arguments are at fault.
    fn xfer_and_signal(&self, xfer: Xfer);

    /// COMPARE-AND-WRITE (Algorithm 12): whether the comparison holds on every
    /// node of the set; if it does and a write was asked for, the write is
    /// complete on every node when this returns.
    ///
    /// # Errors
    /// [`PrimitiveError`] when the question could not be answered; then nothing
    /// was written.
    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static;

    /// Whether all that this node has issued so far precedes, in the order, all that follows from stores that
    /// it makes from now on to its own copy, as *Own stores* has it. Never promised where it is not said: the
    /// status of an operation tells the same, later.
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

    /// XFER-AND-SIGNAL followed by a blocking TEST-EVENT on a fresh local event,
    /// whatever local event `xfer` names. Issued when the future is first polled.
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
    /// Where in global memory to write.
    pub addr: GlobalAddr,
    /// What to write; may be empty, to signal only.
    pub data: Bytes,
    /// Symmetric event to signal on every node of `dest`.
    pub remote_event: Option<EventId>,
    /// Event to signal on the issuing node with the status.
    pub local_event: Option<EventId>,
}

impl Xfer {
    /// A transfer that signals nobody.
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
    /// All of them.
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
