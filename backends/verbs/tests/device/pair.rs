//! Two members in one process, and lanes between them.

use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use storm_backend_tcp::fabric::{Carrier, End, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::{VerbsConfig, VerbsFabric};
use storm_primitives::NodeId;

/// The parent's id.
pub(crate) const PARENT: NodeId = NodeId(1);
/// The child's id.
pub(crate) const CHILD: NodeId = NodeId(2);

/// Both members.
pub(crate) struct Pair {
    pub(crate) parent: VerbsFabric,
    pub(crate) child: VerbsFabric,
}

/// The two ends of a lane.
pub(crate) struct Ends {
    pub(crate) parent: Rc<dyn Carrier>,
    pub(crate) child: Rc<dyn Carrier>,
}

/// The settings of the member whose address ends in `host`.
pub(crate) fn config(host: u8) -> VerbsConfig {
    VerbsConfig { address: Some([10, 9, 0, host].into()), ..VerbsConfig::default() }
}

/// Runs `body` on a runtime for lanes.
pub(crate) fn run<F: Future<Output = ()>>(body: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), body);
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair::with(config(1), config(2))
    }

    pub(crate) fn with(parent: VerbsConfig, child: VerbsConfig) -> Pair {
        let open = |config| VerbsFabric::open(config).expect("a device that works");
        Pair { parent: open(parent), child: open(child) }
    }

    pub(crate) fn lane(&self, lane: Lane) -> Ends {
        self.lane_by(lane, |offer| offer, |offer| offer).expect("they fit together")
    }

    /// Like [`lane`](Self::lane), with the parent's and the child's offers changed on their way.
    pub(crate) fn lane_by(
        &self,
        lane: Lane,
        to_child: impl FnOnce(Vec<u8>) -> Vec<u8>,
        to_parent: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> io::Result<Ends> {
        let up = self.child.open(PARENT, lane, End::Child)?;
        let down = self.parent.open(CHILD, lane, End::Parent)?;
        let (from_child, from_parent) = (to_parent(up.offer()), to_child(down.offer()));
        let parent = down.connect(&from_child)?;
        let child = up.connect(&from_parent)?;
        Ok(Ends { parent, child })
    }
}

/// Sends all of `parts`, which are a frame on a bulk lane.
pub(crate) async fn send(carrier: &dyn Carrier, parts: &[Bytes]) -> io::Result<()> {
    let mut out: VecDeque<Bytes> = parts.iter().cloned().collect();
    while !carrier.write_some(&mut out)? {
        carrier.writable().await?;
    }
    Ok(())
}

/// Waits for the end of the lane. Returns its error.
pub(crate) async fn end_of_reading(carrier: &dyn Carrier) -> io::Error {
    loop {
        if let Err(error) = carrier.read().await {
            return error;
        }
    }
}

/// Bytes with values that tell their positions.
pub(crate) fn pattern(from: usize, len: usize) -> Bytes {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}
