//! One cluster under one case: commands with their deadlines, and the kinds of operation that most
//! cases use.

use super::failure::expect;
use super::{
    AnyCluster, Capabilities, ClusterSpec, Command, Failure, NodeGone, Op, OpResult, Pace, Payload,
    Plan, Presence, Read, Reply, Seen, Status, Store, Unsupported,
};
use crate::{
    CompareAndWrite, EventId, GlobalAddr, Incarnation, NodeId, NodeSet, PrimitiveError, Signal,
};
use bytes::Bytes;
use futures_util::future::{Either, select};
use std::collections::BTreeMap;
use std::time::Duration;

/// A running cluster, with the data that a case needs.
pub(crate) struct Trial {
    cluster: Box<dyn AnyCluster>,
    spec: ClusterSpec,
    plan: Plan,
    patience: Duration,
    capabilities: Capabilities,
}

impl Trial {
    pub(crate) fn new(
        cluster: Box<dyn AnyCluster>,
        spec: ClusterSpec,
        patience: Duration,
        capabilities: Capabilities,
    ) -> Trial {
        Trial { cluster, spec, plan: Plan::new(), patience, capabilities }
    }

    /// The global memory of the suite.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn seed(&self) -> u64 {
        self.spec.seed
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The compute nodes.
    pub(crate) fn compute(&self) -> NodeSet {
        NodeSet::compute(self.spec.compute_nodes)
    }

    /// All nodes, the management node included.
    pub(crate) fn all(&self) -> NodeSet {
        self.spec.nodes()
    }

    /// Every node that was not killed.
    pub(crate) fn survivors(&self) -> NodeSet {
        self.all().iter().filter(|&node| !self.cluster.is_killed(node)).collect()
    }

    /// The adapter itself.
    pub(crate) fn cluster(&self) -> &dyn AnyCluster {
        &*self.cluster
    }

    /// A command to a node that may be killed meanwhile.
    pub(crate) async fn try_call(
        &self,
        node: NodeId,
        command: Command,
    ) -> Result<Result<Reply, NodeGone>, Failure> {
        let call = self.cluster.call(node, command.clone());
        let limit = self.patience;
        match select(call, self.cluster.sleep(limit)).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(((), _)) => {
                Err(Failure::NoAnswer { node, command: Box::new(command), limit })
            }
        }
    }

    /// Sends a command to a node that the suite does not kill.
    pub(crate) async fn call(&self, node: NodeId, command: Command) -> Result<Reply, Failure> {
        match self.try_call(node, command.clone()).await? {
            Ok(reply) => Ok(reply),
            Err(NodeGone) => Err(Failure::NodeGone { node, command: Box::new(command) }),
        }
    }

    /// Makes `node` issue `ops` and wait for those that are marked so.
    pub(crate) async fn issue(
        &self,
        node: NodeId,
        ops: Vec<Op>,
        pace: Pace,
    ) -> Result<Vec<OpResult>, Failure> {
        match self.call(node, Command::Issue { ops, pace }).await? {
            Reply::Issued(results) => Ok(results),
            reply => Err(wrong(node, reply)),
        }
    }

    /// Like [`issue`](Self::issue), for a node that may be killed meanwhile.
    pub(crate) async fn try_issue(
        &self,
        node: NodeId,
        ops: Vec<Op>,
        pace: Pace,
    ) -> Result<Result<Vec<OpResult>, NodeGone>, Failure> {
        match self.try_call(node, Command::Issue { ops, pace }).await? {
            Ok(Reply::Issued(results)) => Ok(Ok(results)),
            Ok(reply) => Err(wrong(node, reply)),
            Err(NodeGone) => Ok(Err(NodeGone)),
        }
    }

    /// One XFER-AND-SIGNAL that is waited for.
    pub(crate) async fn xfer(&self, node: NodeId, op: Op) -> Result<Signal, Failure> {
        match self.issue(node, vec![op], Pace::OneByOne).await?.pop() {
            Some(OpResult::Xfer(signal)) => Ok(signal),
            other => Err(wrong(node, Reply::Issued(other.into_iter().collect()))),
        }
    }

    /// One COMPARE-AND-WRITE.
    pub(crate) async fn caw(
        &self,
        node: NodeId,
        caw: CompareAndWrite,
    ) -> Result<Result<bool, PrimitiveError>, Failure> {
        match self.issue(node, vec![Op::Caw(caw)], Pace::OneByOne).await?.pop() {
            Some(OpResult::Caw(answer)) => Ok(answer),
            other => Err(wrong(node, Reply::Issued(other.into_iter().collect()))),
        }
    }

    pub(crate) async fn read(&self, node: NodeId, reads: Vec<Read>) -> Result<Vec<Seen>, Failure> {
        match self.call(node, Command::Read(reads)).await? {
            Reply::Seen(seen) => Ok(seen),
            reply => Err(wrong(node, reply)),
        }
    }

    /// A word of the node's own copy.
    pub(crate) async fn word(&self, node: NodeId, addr: GlobalAddr) -> Result<u64, Failure> {
        match self.read(node, vec![Read::Word(addr)]).await?.pop() {
            Some(Seen::Word(value)) => Ok(value),
            other => Err(wrong(node, Reply::Seen(other.into_iter().collect()))),
        }
    }

    /// The word at `addr` on every node of `set`.
    pub(crate) async fn words(
        &self,
        set: &NodeSet,
        addr: GlobalAddr,
    ) -> Result<BTreeMap<NodeId, u64>, Failure> {
        let mut values = BTreeMap::new();
        for node in set.iter() {
            values.insert(node, self.word(node, addr).await?);
        }
        Ok(values)
    }

    /// Bytes of the node's own copy.
    pub(crate) async fn bytes(
        &self,
        node: NodeId,
        addr: GlobalAddr,
        len: u64,
    ) -> Result<Bytes, Failure> {
        match self.read(node, vec![Read::Bytes(addr, len)]).await?.pop() {
            Some(Seen::Bytes(bytes)) => Ok(bytes),
            other => Err(wrong(node, Reply::Seen(other.into_iter().collect()))),
        }
    }

    /// The fingerprint of bytes of the node's own copy.
    pub(crate) async fn hash(
        &self,
        node: NodeId,
        addr: GlobalAddr,
        len: u64,
    ) -> Result<[u8; 32], Failure> {
        match self.read(node, vec![Read::Hash(addr, len)]).await?.pop() {
            Some(Seen::Hash(hash)) => Ok(hash),
            other => Err(wrong(node, Reply::Seen(other.into_iter().collect()))),
        }
    }

    /// Writes to the node's own copy.
    pub(crate) async fn store(&self, node: NodeId, store: Store) -> Result<(), Failure> {
        match self.call(node, Command::Write(vec![store])).await? {
            Reply::Written => Ok(()),
            reply => Err(wrong(node, reply)),
        }
    }

    /// TEST-EVENT, polling.
    pub(crate) async fn poll(
        &self,
        node: NodeId,
        event: EventId,
    ) -> Result<Option<Signal>, Failure> {
        match self.call(node, Command::Poll { event }).await? {
            Reply::Polled(signal) => Ok(signal),
            reply => Err(wrong(node, reply)),
        }
    }

    /// TEST-EVENT, blocking, and reads directly after it.
    pub(crate) async fn wait(
        &self,
        node: NodeId,
        event: EventId,
        then: Vec<Read>,
    ) -> Result<(Signal, Vec<Seen>), Failure> {
        match self.call(node, Command::Await { event, then }).await? {
            Reply::Awaited { signal, seen } => Ok((signal, seen)),
            reply => Err(wrong(node, reply)),
        }
    }

    /// The nodes that are alive in the view of `node`.
    pub(crate) async fn members(
        &self,
        node: NodeId,
    ) -> Result<BTreeMap<NodeId, Incarnation>, Failure> {
        match self.call(node, Command::Membership).await? {
            Reply::Members { alive, .. } => Ok(alive),
            reply => Err(wrong(node, reply)),
        }
    }

    /// Waits until every node of `observers` sees `node` so.
    pub(crate) async fn await_member(
        &self,
        observers: &NodeSet,
        node: NodeId,
        presence: Presence,
    ) -> Result<(), Failure> {
        for observer in observers.iter() {
            match self.call(observer, Command::AwaitMember { node, presence }).await? {
                Reply::Members { .. } => {}
                reply => return Err(wrong(observer, reply)),
            }
        }
        Ok(())
    }
}

impl Trial {
    /// The word at `addr` is `value` on the nodes of `set` and `other` elsewhere.
    pub(crate) async fn expect_word(
        &self,
        addr: GlobalAddr,
        set: &NodeSet,
        value: u64,
        other: u64,
    ) -> Result<(), Failure> {
        for (node, seen) in self.words(&self.survivors(), addr).await? {
            let expected = if set.contains(node) { value } else { other };
            expect(format!("the word at {addr} on {node}"), expected, seen)?;
        }
        Ok(())
    }

    /// Sets the word at `addr` of every survivor's own copy.
    pub(crate) async fn store_all(&self, addr: GlobalAddr, value: u64) -> Result<(), Failure> {
        for node in self.survivors().iter() {
            self.store(node, Store::Word(addr, value)).await?;
        }
        Ok(())
    }

    /// An operation of `node` that is ordered after all it issued before, on every survivor.
    pub(crate) async fn fence(&self, node: NodeId) -> Result<(), Failure> {
        let dest = self.survivors();
        let op = put(&dest, self.plan.bulk(0), Payload::empty());
        expect(format!("a transfer from {node} to {dest}"), Ok(()), self.xfer(node, op).await?)
    }

    /// Takes the pending signals of an event of `node`.
    pub(crate) async fn drain(&self, node: NodeId, event: EventId) -> Result<Vec<Signal>, Failure> {
        let mut signals = Vec::new();
        while let Some(signal) = self.poll(node, event).await? {
            signals.push(signal);
        }
        Ok(signals)
    }
}

/// The set of these nodes.
pub(crate) fn nodes(ids: &[u32]) -> NodeSet {
    ids.iter().copied().map(NodeId).collect()
}

/// An XFER-AND-SIGNAL whose status is awaited, without a remote event.
pub(crate) fn put(dest: &NodeSet, addr: GlobalAddr, data: Payload) -> Op {
    Op::Xfer { dest: dest.clone(), addr, data, remote_event: None, status: Status::Wait }
}

/// Like [`put`], and signals `event` on its destinations.
pub(crate) fn put_signal(dest: &NodeSet, addr: GlobalAddr, data: Payload, event: EventId) -> Op {
    let remote_event = Some(event);
    Op::Xfer { dest: dest.clone(), addr, data, remote_event, status: Status::Wait }
}

/// Fails if an adapter cannot do what its factory promised.
pub(crate) fn promised(result: Result<(), Unsupported>) -> Result<(), Failure> {
    result.map_err(|Unsupported { ability }| Failure::Unsupported { ability })
}

pub(crate) fn wrong(node: NodeId, reply: Reply) -> Failure {
    Failure::WrongKind { node, reply: Box::new(reply) }
}
