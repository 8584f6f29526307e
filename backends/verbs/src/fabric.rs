//! One member's device, which all its lanes share.

use crate::VerbsError;
use crate::abi::{EVENT_COMM_EST, EVENT_DEVICE_FATAL, EVENT_PORT_ERR};
use crate::adapter::{Adapter, PAYLOAD_AT};
use crate::config::VerbsConfig;
use crate::error::LaneError;
use crate::guard::{CompletionChannel, Device, DeviceEvent, OpenDevice, Port, ProtectionDomain};
use crate::lane::{Half, MAX_BLOCKS_PER_LANE};
use crate::multicast::address::GroupAddress;
use crate::multicast::group::{Group, MulticastReport, Upward};
use crate::poller::Poller;
use crate::pool::{Mark, Pool};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storm_backend_tcp::fabric::{End, Fabric, Opening};
use storm_backend_tcp::wire::Lane;
use storm_primitives::NodeId;
use storm_verbs::port_address::{self, Wish};
use tokio::task::AbortHandle;

/// How often to check for stuck requests, and then the port. If a network is removed under
/// soft-RoCE, the event may be lost, and the requests under way may neither complete nor fail.
const LOOK: Duration = Duration::from_millis(500);
/// The name of the network.
const NAME: &str = "verbs";

/// A device in use, for [`RootConfig::fabric`](storm_backend_tcp::RootConfig::fabric) and
/// [`NodeConfig::fabric`](storm_backend_tcp::NodeConfig::fabric).
///
/// If the device fails or is removed, all its lanes end. The next lane opens a device again and
/// registers memory with it.
#[derive(Debug)]
pub struct VerbsFabric {
    config: VerbsConfig,
    current: RefCell<Session>,
}

/// A device, from its opening to its failure or closing.
#[derive(Debug)]
struct Session {
    common: Rc<Common>,
    events: AbortHandle,
}

/// The part of the device that lanes use.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) adapter: Adapter,
    /// This member's part in the multicast group.
    group: RefCell<Option<Rc<Group>>>,
    /// The bulk lanes to its parents.
    pub(crate) upward: Rc<Upward>,
    /// The tag of the group that could not be joined.
    refused: Cell<Option<u64>>,
    gone: Cell<bool>,
}

impl VerbsFabric {
    /// Opens the device and registers the first blocks, so that errors appear before a cluster
    /// depends on it. Must be called within a `LocalSet`.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub fn open(config: VerbsConfig) -> Result<VerbsFabric, VerbsError> {
        let mut config = config;
        config.blocks_per_lane = config.blocks_per_lane.clamp(1, MAX_BLOCKS_PER_LANE);
        let current = RefCell::new(Session::open(&config)?);
        Ok(VerbsFabric { config, current })
    }

    /// The device.
    pub fn device(&self) -> String {
        self.current.borrow().common.adapter.device.name().to_owned()
    }

    /// The number of registered blocks, and of the free ones among them.
    pub fn blocks(&self) -> (usize, usize) {
        self.current.borrow().common.adapter.pool.blocks()
    }

    /// The report on multicast; `None` if this member takes no part in multicast.
    pub fn multicast(&self) -> Option<MulticastReport> {
        self.current.borrow().common.group().map(|group| group.report())
    }

    /// Handles an event of the device. Events that come from the device itself are handled without
    /// this call.
    pub fn happened(&self, event: &DeviceEvent) {
        self.current.borrow().common.happened(event);
    }

    /// The shared part, with a device that is present.
    fn common(&self) -> Result<Rc<Common>, VerbsError> {
        let mut current = self.current.borrow_mut();
        if current.common.gone.get() {
            *current = Session::open(&self.config)?;
        }
        Ok(current.common.clone())
    }
}

impl Session {
    fn open(config: &VerbsConfig) -> Result<Session, VerbsError> {
        let config = config.clone();
        let (device, port) = choose(&config)?;
        let wish = Wish { gid_index: config.gid_index, address: config.address };
        let (gid_index, gid) = port_address::choose(&wish, &device, &port)?;
        let domain = ProtectionDomain::new(&device)?;
        let block_bytes = config.chunk_bytes as usize + PAYLOAD_AT;
        let pool = Pool::new(&domain, block_bytes, config.max_blocks as usize)?;
        tracing::info!(
            device = device.name(),
            port = port.number,
            link_layer = port.link_layer(),
            mtu = port.mtu_bytes(),
            gid_index,
            "verbs"
        );
        let poller = Poller::start(CompletionChannel::new(&device)?, config.spin)?;
        let adapter = Adapter { config, device, port, gid_index, gid, pool, poller };
        let upward = Rc::default();
        let common = Rc::new(Common {
            group: RefCell::new(Group::make(&adapter, &upward)),
            adapter,
            upward,
            refused: Cell::new(None),
            gone: Cell::new(false),
        });
        let events = tokio::task::spawn_local(watch(common.clone())).abort_handle();
        Ok(Session { common, events })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.events.abort();
    }
}

impl Common {
    /// This member's part in the multicast group, if it has a working one.
    pub(crate) fn group(&self) -> Option<Rc<Group>> {
        self.group.borrow().clone().filter(|group| !group.has_failed())
    }

    /// Joins the parent's group. `None` if that fails, which was logged.
    pub(crate) fn join(self: &Rc<Self>, address: GroupAddress) -> Option<Rc<Group>> {
        let current = self.group.borrow().clone();
        if let Some(group) = current.filter(|group| group.address() == address) {
            return Some(group).filter(|group| !group.has_failed());
        }
        if self.refused.get() == Some(address.tag) {
            return None;
        }
        let joined = Group::join(&self.adapter, &self.upward, address);
        if joined.is_none() {
            self.refused.set(Some(address.tag));
        }
        *self.group.borrow_mut() = joined.clone();
        // The children must learn of the end, but the caller is in the middle of its own work. A
        // task informs them.
        let common = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            if let Some(common) = common.upgrade() {
                common.adapter.poller.progress_all();
            }
        });
        joined
    }

    fn happened(&self, event: &DeviceEvent) {
        let (device, name) = (self.adapter.device.name(), event.name.as_str());
        match event.kind {
            EVENT_COMM_EST => tracing::debug!(device, event = name, "verbs"),
            EVENT_DEVICE_FATAL => {
                tracing::error!(device, event = name, "the device has failed");
                self.device_gone();
            }
            EVENT_PORT_ERR => {
                // If the port is soon active again, it costs only retries. A lane ends when its own
                // retries are exhausted.
                tracing::error!(
                    device,
                    event = name,
                    "a port is down: nothing is sent until it is up"
                );
            }
            _ => tracing::warn!(device, event = name, "the device reported an event"),
        }
    }

    /// The periodic work. Returns false if the port no longer exists.
    fn tick(&self) -> bool {
        self.group().iter().for_each(|group| group.sweep(Instant::now()));
        self.look_at_port()
    }

    /// Checks the port if requests are stuck. Returns false if the port no longer exists.
    fn look_at_port(&self) -> bool {
        if self.adapter.poller.is_any_stuck()
            && let Err(error) = self.adapter.device.port(self.adapter.port.number)
        {
            tracing::error!(device = self.adapter.device.name(), %error, "the device is gone");
            self.device_gone();
        }
        !self.gone.get()
    }

    fn device_gone(&self) {
        self.gone.set(true);
        self.adapter.poller.device_gone();
    }
}

impl Fabric for VerbsFabric {
    fn name(&self) -> &'static str {
        NAME
    }

    fn max_chunk_bytes(&self) -> u32 {
        self.config.chunk_bytes
    }

    fn place(&self, data: Bytes, for_many: bool) -> Bytes {
        let common = self.current.borrow().common.clone();
        let placed = common.adapter.pool.place(data);
        if for_many && common.group.borrow().is_some() {
            common.adapter.pool.mark(&placed, Mark::ForMany);
        }
        placed
    }

    fn open(&self, peer: NodeId, lane: Lane, end: End) -> io::Result<Box<dyn Opening>> {
        let common = self.common().map_err(LaneError::from)?;
        let half = Half::new(common, peer, lane, end).map_err(LaneError::from)?;
        Ok(Box::new(half))
    }
}

/// The configured device, or the first with an active port.
fn choose(config: &VerbsConfig) -> Result<(Arc<OpenDevice>, Port), VerbsError> {
    let names = match &config.device {
        Some(name) => vec![name.clone()],
        None => Device::list()?.into_iter().map(|device| device.name).collect(),
    };
    let mut reason = VerbsError::NoDevice;
    for name in names {
        let device = Device::open(Some(&name))?;
        match device.active_port(config.port) {
            Ok(port) => return Ok((device, port)),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

/// Handles events of the device, and does the periodic work. Ends the lanes of a lost device.
async fn watch(common: Rc<Common>) {
    let device = common.adapter.device.clone();
    let readable = match crate::watch::device(&device) {
        Ok(readable) => readable,
        Err(error) => {
            tracing::warn!(device = device.name(), %error, "the events of the device cannot be \
                                                            read");
            return;
        }
    };
    loop {
        let ready = match tokio::time::timeout(LOOK, readable.readable()).await {
            Ok(ready) => ready,
            Err(_) if common.tick() => continue,
            Err(_) => return,
        };
        let Ok(mut guard) = ready else { return };
        match device.take_event() {
            Ok(None) => guard.clear_ready(),
            Ok(Some(event)) => common.happened(&event),
            Err(error) => {
                tracing::error!(device = device.name(), %error, "the device is gone");
                return common.device_gone();
            }
        }
    }
}
