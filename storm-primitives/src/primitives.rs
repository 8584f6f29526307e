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
/// **Order.** All operations on a cluster take effect in one total order. It respects the order in
/// which each node issued its own operations. XFER-AND-SIGNALs and COMPARE-AND-WRITEs are thus
/// sequentially consistent. Two concurrent COMPARE-AND-WRITEs behave as if one preceded the other,
/// and concurrent writers leave the same value on every node. A node's loads and stores on its own
/// copy ([`GlobalMemory::load`], [`GlobalMemory::store`]) are outside this order: they take effect
/// at once, on that node only.
///
/// **Words.** An operation is *issued* when its node passes it to the network, and *placed* when it
/// gets its place in the total order. A COMPARE-AND-WRITE that writes is placed where it writes.
///
/// **All or nothing.** An XFER-AND-SIGNAL reaches every node of its set, or no surviving node of
/// it. *Success* on the local event means that every node of the set had the data.
/// [`PrimitiveError::Disconnected`] promises nothing about the effect: an operation that was placed
/// completes on the others, unless the management node has died (below). After every other error,
/// no surviving node saw or will see any of the data. The same holds for the write of a
/// COMPARE-AND-WRITE.
///
/// **Death.** Nodes stop; they do not lie.
/// - If a node of the set is known dead, or never joined, when the operation is placed, the
///   operation fails. The error is [`PrimitiveError::NodesDead`], which names exactly the nodes of
///   this kind.
/// - A node of the set that dies later counts as having died after the operation, which completes
///   on all survivors. No survivor can find out whether the dead node had the data, because the
///   memory of the dead node is lost. Staged transfers and unanswered comparisons (below) are
///   exceptions.
/// - A large transfer that is still being staged when a node of its set dies may fail with
///   `NodesDead` instead.
/// - A COMPARE-AND-WRITE that loses a node of its set before all have answered fails with
///   `NodesDead` and writes nowhere. Once all have answered, its write reaches all survivors.
/// - A death outside the set has no effect on the operation, unless the initiator dies.
/// - A node that was cut off rejoins only as a new [incarnation](crate::Incarnation), with zeroed
///   memory and no pending signals.
/// - The order of a `NodesDead` and the change of [`membership`](Self::membership) that belongs
///   to it is not promised.
///
/// **Silence.** [`PrimitiveError::TimedOut`] names the whole set. A backend may return `TimedOut`
/// only if a node of the set is silent and is not known dead. The operation then has no effect, now
/// or later. A backend that declares silent nodes dead never returns `TimedOut`. The [fault
/// injector](crate::middleware::FaultInjector) may return `TimedOut` at any time.
///
/// **Death of the management node.** If [`NodeId::MM`] dies, the cluster is over.
/// - Every other node sees in its membership that [`NodeId::MM`] is not there.
/// - Every pending operation ends with [`PrimitiveError::Disconnected`], unless its outcome has
///   already reached its node. Every later operation ends with `Disconnected`.
/// - An operation under way may not complete: some nodes may have its data, and others not.
///
/// **Death of the initiator.** Its operations that are placed complete; its other operations have
/// no effect. A COMPARE-AND-WRITE that writes is placed where it writes. If its initiator dies
/// before the write is placed, the write happens on all survivors of the set or on none.
///
/// **Signals.** The remote event of an XFER-AND-SIGNAL is signalled on a node after the data
/// is visible there. The local event is signalled once, with the status, after the operation
/// is complete on every node. One test takes one signal.
///
/// **Sets.** The issuing node may be in the set. An empty set succeeds, compares TRUE and
/// writes nothing.
///
/// **Own stores.** If [`precedes_own_stores`](Self::precedes_own_stores) is true, every operation
/// that a node has issued is ordered before its later local stores become visible. Let another node
/// read such a store with a read-only COMPARE-AND-WRITE that returns TRUE. The operations that this
/// other node issues next are ordered after the first node's operations. The answer FALSE promises
/// nothing, nor does a COMPARE-AND-WRITE that also writes. With this promise a node can announce
/// that its part is done without waiting for the status of its operations.
///
/// **Blocking.** XFER-AND-SIGNAL never blocks. It is issued when it is called, even if the caller
/// is dropped. COMPARE-AND-WRITE blocks. It is issued when its future is first polled. After its
/// future is dropped, the operation has happened entirely or not at all; the caller cannot find out
/// which.
///
/// **Not promised.**
/// - A handle belongs to one thread, and so do its futures: they need not be `Send`.
/// - The transfers that a node has issued and that are not complete are kept with their data.
///   The contract sets no bound; the caller limits what it issues.
/// - A store on a word that operations write, too, is not ordered with these. The caller
///   decides who may store there, or loses one of the writes.
pub trait Primitives: Clone + 'static {
    /// The clock and executor that this network runs on.
    type Runtime: Runtime;

    /// Time, timers and tasks.
    fn runtime(&self) -> &Self::Runtime;

    /// The node that this handle belongs to.
    fn node(&self) -> NodeId;

    /// The node's copy of global memory.
    fn memory(&self) -> &GlobalMemory;

    /// The node's events.
    fn events(&self) -> &EventTable;

    /// This node's view of the live nodes.
    fn membership(&self) -> &Membership;

    /// XFER-AND-SIGNAL (Algorithm 10): puts a block of data into the global memory of a set of
    /// nodes, then signals. Never blocks. The status is signalled on the local event, even if the
    /// arguments are at fault. The status for a local event that does not exist is discarded.
    fn xfer_and_signal(&self, xfer: Xfer);

    /// COMPARE-AND-WRITE (Algorithm 12): returns whether the comparison holds on every node of the
    /// set. If the comparison holds and a write was requested, the write is complete on every node
    /// when this call returns.
    ///
    /// # Errors
    /// [`PrimitiveError`] if the comparison got no answer. Then nothing was written, except that
    /// [`Disconnected`](PrimitiveError::Disconnected) promises nothing about the write.
    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static;

    /// Whether every operation that this node has issued so far is ordered before its local stores
    /// from now on. See *Own stores* in the contract. The answer may always be false. A caller that
    /// gets false waits for the status of its operations instead.
    fn precedes_own_stores(&self) -> bool {
        false
    }

    /// TEST-EVENT, polling (Algorithm 11): takes one signal if there is one. An event that does
    /// not exist has none.
    fn test_event(&self, event: EventId) -> Option<Signal> {
        self.events().poll(event)
    }

    /// TEST-EVENT, blocking (Algorithm 11): takes one signal, waiting for it. An event that does
    /// not exist gives [`PrimitiveError::UnknownEvent`]. If a [`LocalEvent`](crate::LocalEvent)
    /// is dropped while a task waits for it, nothing wakes the task.
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
    /// The nodes to compare on.
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
    /// Compares: does `var relation value` hold on every node of `set`?
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
