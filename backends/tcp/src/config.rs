//! Settings of the root and of the nodes, each with its default and the reason.

use crate::fabric::{Fabric, TCP};
use crate::liveness::Patience;
use crate::names::NameTable;
use crate::observer::Observer;
use crate::sequencer::Limits;
use crate::wire::MAX_PAYLOAD_BYTES;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::Layout;
use storm_session::Trust;

/// How long a node tries to join, unless configured otherwise.
pub const DEFAULT_JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of the root. Nodes receive the settings that concern them in the
/// [`Welcome`](crate::wire::Welcome).
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// The address at which nodes join. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// The layout of global memory.
    pub layout: Layout,
    /// The source of the layout. A node that joins with another layout gets these bytes and builds
    /// the layout from them. Default empty: such a node cannot join.
    pub plan: Vec<u8>,
    /// The names that may join, and their ids.
    pub names: NameTable,
    /// The name of the cluster. Nodes that name another cluster are refused.
    pub cluster: String,
    /// The keys of the cluster. Default none: then neither side of a connection is
    /// authenticated, and `listen` must be a loopback address.
    pub trust: Option<Trust>,
    /// Children per node of the tree. Default 4. On one busy host, 2 to 16 differ by less than the
    /// noise (`examples/latency.rs`). Over a network, 4 keeps the tree shallow, and a parent sends
    /// a file only four times.
    pub fanout: u32,
    /// Transfers up to this many bytes travel with their operation. Default 24 KiB. A second sweep
    /// down the tree would cost more, and a piece of an MPI rank, at most 16 KiB, fits.
    pub inline_limit_bytes: u32,
    /// Longer transfers travel in chunks of this many bytes. Default 1 MiB and 4 KiB, the most that
    /// fits a frame. A chunk of a file is then a single piece, and the pieces of a file keep all
    /// levels of the tree busy.
    pub chunk_bytes: u32,
    /// Bytes of large transfers in flight at a time, which a node may have to hold. Default 8 MiB.
    /// A longer transfer travels alone.
    pub stage_window_bytes: u64,
    /// Operations in flight at a time. Default 1024. A node may have to hold this many times
    /// `inline_limit_bytes`.
    pub operation_window: u32,
    /// Unanswered requests per node. Default 256.
    pub request_window: u32,
    /// When to ping a node: see [`Patience`]. The defaults are 400 ms, 400 ms, 3 s and 1 s. With
    /// them, a node that is cut off is detected within a second.
    pub patience: Patience,
    /// The network that carries the lanes of the tree. Default none: TCP.
    pub fabric: Option<Rc<dyn Fabric>>,
    /// Sees every frame.
    pub observer: Observer,
}

impl RootConfig {
    /// The defaults, for a root at `listen` with this layout.
    pub fn new(listen: SocketAddr, layout: Layout, names: NameTable) -> RootConfig {
        RootConfig {
            listen,
            layout,
            plan: Vec::new(),
            names,
            cluster: String::from("storm"),
            trust: None,
            fanout: 4,
            inline_limit_bytes: 24 << 10,
            chunk_bytes: MAX_CHUNK_BYTES,
            stage_window_bytes: 8 << 20,
            operation_window: 1024,
            request_window: 256,
            patience: Patience {
                stall_timeout: Duration::from_millis(400),
                ping_timeout: Duration::from_millis(400),
                hang_timeout: Duration::from_secs(3),
                keepalive: Duration::from_secs(1),
            },
            fabric: None,
            observer: Observer::default(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        let carried = self.fabric.as_ref().map_or(MAX_CHUNK_BYTES, |it| it.max_chunk_bytes());
        Limits {
            inline_limit_bytes: self.inline_limit_bytes.min(MAX_INLINE_BYTES),
            chunk_bytes: self.chunk_bytes.min(carried).clamp(1, MAX_CHUNK_BYTES),
            stage_window_bytes: self.stage_window_bytes,
            operation_window: self.operation_window.max(1),
            request_window: self.request_window.max(1),
        }
    }
}

/// The name of the network that carries the lanes.
pub(crate) fn name_of(fabric: Option<&Rc<dyn Fabric>>) -> &'static str {
    fabric.map_or(TCP, |fabric| fabric.name())
}

/// Checks that an address needs no key: without a key, only loopback addresses are allowed.
pub(crate) fn check_reach(trust: Option<&Trust>, addr: SocketAddr) -> io::Result<()> {
    if trust.is_some() || addr.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let why = format!("{addr} is not a loopback address, and there is no cluster key");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Leaves room in a frame for the rest of the message.
const MAX_INLINE_BYTES: u32 = 512 << 10;
/// The most that fits a frame: an item of 1 MiB and its header travel as one piece.
const MAX_CHUNK_BYTES: u32 = MAX_PAYLOAD_BYTES as u32;

/// Builds a layout from the root's [`RootConfig::plan`].
#[derive(Clone, Default)]
pub struct Adopt {
    make: Option<Rc<MakeLayout>>,
}

type MakeLayout = dyn Fn(&[u8]) -> Option<Layout>;

impl Adopt {
    /// Builds layouts by `make`, which gets [`RootConfig::plan`]. The node joins with the last
    /// layout that it made.
    pub fn new(make: impl Fn(&[u8]) -> Option<Layout> + 'static) -> Adopt {
        Adopt { make: Some(Rc::new(make)) }
    }

    pub(crate) fn make(&self, plan: &[u8]) -> Option<Layout> {
        self.make.as_ref().and_then(|make| make(plan))
    }
}

impl fmt::Debug for Adopt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Adopt({})", if self.make.is_some() { "on" } else { "off" })
    }
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The root's address.
    pub root: SocketAddr,
    /// This node's name in the root's table.
    pub name: String,
    /// The address for children; port 0 takes any free port. If the address is unspecified,
    /// children use the address from which this node reaches the root.
    pub listen: SocketAddr,
    /// The layout of global memory, unless the root has another.
    pub layout: Layout,
    /// Builds the layout of a root that has another. Default none: such a root refuses this node.
    pub adopt: Adopt,
    /// The cluster to join.
    pub cluster: String,
    /// The keys of the cluster. Default none: then `root` and `listen` must be
    /// loopback addresses.
    pub trust: Option<Trust>,
    /// Whether to keep trying while the root has another key. A node that was a member may be ahead
    /// of a root that is about to get the new key. Default false: a wrong key should be reported
    /// soon.
    pub await_key: bool,
    /// Whether to keep trying after any refusal. A former member may have running jobs, and an
    /// operator may remove the cause of the refusal. Default false.
    pub persist: bool,
    /// Whether this node may switch to the network that the root uses. If so, a refusal because of
    /// the network is reported at once. Default false.
    pub follows: bool,
    /// Whether pieces of large transfers may arrive as references to memory of a parent on the same
    /// host ([`shared_memory`](crate::shared_memory)). Default true.
    pub by_reference: bool,
    /// The network that carries the lanes of the tree; the root must use the same. Default none:
    /// TCP.
    pub fabric: Option<Rc<dyn Fabric>>,
    /// How long to try to reach the root. Default 30 s: the root may be starting.
    pub join_timeout: Duration,
    /// A root that is silent for this long counts as gone. Default 10 s: ten of its keepalives.
    pub root_timeout: Duration,
    /// Sees every frame.
    pub observer: Observer,
}

impl NodeConfig {
    /// The defaults, for the node `name` of the root at `root`.
    pub fn new(
        root: SocketAddr,
        name: impl Into<String>,
        listen: SocketAddr,
        layout: Layout,
    ) -> NodeConfig {
        NodeConfig {
            root,
            name: name.into(),
            listen,
            layout,
            adopt: Adopt::default(),
            cluster: String::from("storm"),
            trust: None,
            await_key: false,
            persist: false,
            follows: false,
            by_reference: true,
            fabric: None,
            join_timeout: DEFAULT_JOIN_TIMEOUT,
            root_timeout: Duration::from_secs(10),
            observer: Observer::default(),
        }
    }
}
