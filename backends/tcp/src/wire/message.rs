//! The messages of the protocol. `PROTOCOL.md` of this crate has the sender and the occasion of
//! each.
//!
//! There are five links, each with its own message type. A reader cannot decode a message of
//! another link as one of its own.

use crate::shared_memory::{HostId, Reference};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use storm_primitives::{
    CompareAndWrite, Epoch, EventId, GlobalAddr, Incarnation, LayoutHash, NodeId, NodeSet,
    PrimitiveError, Relation,
};

/// Changes with every change of a message, including the messages inside heartbeats and reports.
pub const PROTOCOL_VERSION: u32 = 16;

/// The place of an operation in the order of all operations, counted from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Seq(pub u64);

/// A large transfer on its way to its destinations, before it is placed in the order. Numbers
/// increase.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct StageId(pub u64);

/// A node's number for one of its requests. Numbers increase.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RequestId(pub u64);

/// The first message on any connection, from the side that opened it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Hello {
    /// To the root: a node wants to be a member. The connection becomes its control link.
    Join(Join),
    /// To the parent: a member opens a lane of the link between them.
    Tree(TreeHello),
}

/// The identity of a joining node, and its settings that must fit the root's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    /// [`PROTOCOL_VERSION`] of the node. It is the first field, so that every version can read it.
    pub version: u32,
    /// The cluster that it wants to join.
    pub cluster: String,
    /// Its name in the table of the root.
    pub name: String,
    /// The hash of its layout.
    pub layout: LayoutHash,
    /// Its listen address for children.
    pub listen: SocketAddr,
    /// The name of the network that carries its lanes ([`Fabric`](crate::fabric::Fabric)).
    pub fabric: String,
    /// The node's host, if it takes references to memory there.
    pub host: Option<HostId>,
}

/// The beginning of [`Hello::Join`] in every version.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum AnyHello {
    /// [`Hello::Join`].
    Join {
        /// [`Join::version`].
        version: u32,
    },
}

/// The answer to [`Join`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum JoinAnswer {
    /// Joined.
    Welcome(Welcome),
    /// Refused; the root closes the connection.
    Refused(Refusal),
}

/// The settings for a new member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Its id.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Children per node of the tree.
    pub fanout: u32,
    /// Transfers up to this many bytes travel with their operation.
    pub inline_limit_bytes: u32,
    /// Data of longer transfers travels in chunks of this many bytes.
    pub chunk_bytes: u32,
    /// The most requests of the node that may be unanswered at a time.
    pub request_window: u32,
}

/// Why a node was not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The node speaks another version of the protocol.
    Version {
        /// The version of the root.
        root: u32,
        /// The version of the node.
        node: u32,
    },
    /// The root speaks only to holders of the cluster's key.
    KeyNeeded {
        /// The name of the key, which reveals nothing of the key.
        key: String,
    },
    /// The node has another layout of global memory.
    Layout {
        /// The hash of the root's layout.
        root: LayoutHash,
        /// The hash of the node's layout.
        node: LayoutHash,
        /// The source of the root's layout, from which the node can build it too.
        plan: Vec<u8>,
    },
    /// The node wants to join another cluster.
    Cluster {
        /// The cluster of the root.
        root: String,
        /// The cluster that the node named.
        node: String,
    },
    /// Another network carries the node's lanes.
    Fabric {
        /// The network of the root.
        root: String,
        /// The network that the node named.
        node: String,
    },
    /// The root has a table of names that lacks this name.
    UnknownName {
        /// The name given.
        name: String,
    },
    /// A living member has this name.
    NameInUse {
        /// The name given.
        name: String,
        /// The member that holds it.
        node: NodeId,
    },
    /// The cluster has as many members as the root allows.
    Full {
        /// The limit.
        max_nodes: u32,
    },
}

/// A member opens a lane to its parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeHello {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The cluster.
    pub cluster: String,
    /// The node that opens it.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The view under which it became a child of the receiver.
    pub epoch: Epoch,
    /// The lane.
    pub lane: Lane,
    /// The child's host, if it takes references to memory there. Only on the bulk lane.
    pub host: Option<HostId>,
    /// The offer of the child's end, if another network carries the lane. The parent then answers
    /// with a [`LaneAnswer`].
    pub offer: Option<Vec<u8>>,
}

/// The offer of the parent's end of a lane that another network carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaneAnswer {
    /// The parent's [`offer`](crate::fabric::Opening::offer).
    pub offer: Vec<u8>,
}

/// The two connections between a parent and a child. An operation never waits behind a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lane {
    /// Operations down, replies up.
    Express,
    /// Chunks of large transfers down.
    Bulk,
}

/// One node of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The address for its children.
    pub listen: SocketAddr,
}

/// A change of the tree. Everything under way starts over under the new epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its version.
    pub epoch: Epoch,
    /// The number of positions in the tree. Higher positions no longer exist.
    pub len: u32,
    /// The positions that have a new holder, from the smallest.
    pub changes: Vec<(u32, Member)>,
    /// Large transfers on their way to their destinations.
    pub stages: Vec<StageId>,
    /// Large transfers that all destinations hold and that are placed in the order. Nodes that have
    /// not carried them out keep the data; no node sends it.
    pub committed: Vec<StageId>,
    /// Later transfers, from this number on, are newer than this view.
    pub next_stage: StageId,
}

/// Control link, root to node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromRoot {
    /// The tree has changed.
    View(View),
    /// The outcome of a request. Only a COMPARE-AND-WRITE has `Ok(false)`.
    Done {
        /// The request.
        request: RequestId,
        /// Its outcome.
        outcome: Result<bool, PrimitiveError>,
    },
    /// Leave to send the data of this request.
    Grant {
        /// The request.
        request: RequestId,
    },
    /// Asks whether the node is there.
    Ping {
        /// The number for the answer.
        number: u64,
    },
}

/// Control link, node to root.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromNode {
    /// An operation. The payload is its data if inline.
    Request(Request),
    /// A chunk of a large transfer that was granted.
    Data {
        /// The request it belongs to.
        request: RequestId,
        /// The payload's offset in the transfer, in bytes.
        offset: u64,
    },
    /// The link to the parent broke in this epoch, though both ends may be alive.
    LinkLost {
        /// The epoch.
        epoch: Epoch,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's number.
        number: u64,
    },
    /// The node closes the link, and its process continues. An end without this message means that
    /// the process has ended. If it is the first message, the node gives up joining.
    Parting,
    /// Whether the node takes references from now on: references of its parent failed, or may work
    /// again.
    References {
        /// True if it takes them.
        taken: bool,
    },
}

/// An operation that its initiator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The initiator's number for it.
    pub id: RequestId,
    /// The primitive to carry out.
    pub primitive: Primitive,
}

/// The two primitives that need the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Primitive {
    /// XFER-AND-SIGNAL.
    Xfer {
        /// The nodes to write to.
        dest: NodeSet,
        /// The destination address.
        addr: GlobalAddr,
        /// The length in bytes.
        len: u64,
        /// The event to signal there.
        event: Option<EventId>,
    },
    /// COMPARE-AND-WRITE.
    Compare(CompareAndWrite),
}

impl Primitive {
    /// The set of nodes of the primitive.
    pub fn set(&self) -> &NodeSet {
        match self {
            Primitive::Xfer { dest, .. } => dest,
            Primitive::Compare(caw) => &caw.set,
        }
    }
}

/// Express lane, parent to child: one operation with its place in the order. The payload is the
/// data of [`Operation::Put`]. Between members on one host, long data is not in the payload.
/// Instead, a reference tells where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// The view under which it travels.
    pub epoch: Epoch,
    /// Its place in the order.
    pub seq: Seq,
    /// Every operation up to this place is complete on all nodes.
    pub done: Seq,
    /// The nodes that carry the operation out. The others only pass it on.
    pub dest: NodeSet,
    /// The operation to carry out.
    pub operation: Operation,
    /// The reference to the data, if it is not the payload.
    pub shared: Option<Reference>,
}

/// The effect of an operation on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Write the payload, then signal.
    Put {
        /// The destination address.
        addr: GlobalAddr,
        /// Event to signal.
        event: Option<EventId>,
    },
    /// Write the staged data, then signal.
    Commit {
        /// The staged transfer.
        stage: StageId,
        /// The destination address.
        addr: GlobalAddr,
        /// Event to signal.
        event: Option<EventId>,
    },
    /// Compare a variable.
    Compare {
        /// The variable.
        var: GlobalAddr,
        /// The relation.
        relation: Relation,
        /// The value to compare with.
        value: u64,
    },
    /// Set a variable: the write of a COMPARE-AND-WRITE.
    Store {
        /// The variable.
        var: GlobalAddr,
        /// The new value.
        value: u64,
    },
}

impl Operation {
    /// Whether it signals an event.
    pub fn signals(&self) -> bool {
        match self {
            Operation::Put { event, .. } | Operation::Commit { event, .. } => event.is_some(),
            Operation::Compare { .. } | Operation::Store { .. } => false,
        }
    }
}

/// Express lane, child to parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// The child has the view of this epoch and wants everything that travels under it.
    Attach(Attach),
    /// Operations that the child and all nodes below have carried out. Each has the conjunction of
    /// their comparisons (true if nothing is compared).
    Acks {
        /// The view under which they travelled.
        epoch: Epoch,
        /// The operations.
        acks: Vec<(Seq, bool)>,
        /// For replies to comparisons: the nodes that had sent the root requests without an outcome
        /// when they compared. Each comes with the last of these requests that is prompt.
        issued: Vec<(NodeId, RequestId)>,
    },
    /// The child and all nodes below hold a large transfer in full.
    Staged {
        /// The view under which the transfer was found complete.
        epoch: Epoch,
        /// The transfer.
        stage: StageId,
    },
}

impl Up {
    /// The view of the child's message.
    pub fn epoch(&self) -> Epoch {
        match self {
            Up::Attach(attach) => attach.epoch,
            Up::Acks { epoch, .. } | Up::Staged { epoch, .. } => *epoch,
        }
    }
}

/// A child has learned of a new view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// The view.
    pub epoch: Epoch,
    /// The large transfers of which it holds data, and how many bytes of each.
    pub held: Vec<(StageId, u64)>,
}

/// Bulk lane, parent to child: the payload is a piece of a large transfer. Between members on one
/// host it may be empty, and a reference tells where the piece is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The view under which it travels.
    pub epoch: Epoch,
    /// The transfer.
    pub stage: StageId,
    /// The nodes that need the piece. The others only pass it on.
    pub dest: NodeSet,
    /// Length of the whole transfer in bytes.
    pub total: u64,
    /// The piece's offset in the transfer, in bytes.
    pub offset: u64,
    /// The reference to the piece, if it is not the payload.
    pub shared: Option<Reference>,
}
