//! One member's access to its device: what all its lanes share.

use crate::abi::{EVENT_COMM_EST, EVENT_DEVICE_FATAL, EVENT_PORT_ERR, Gid};
use crate::config::VerbsConfig;
use crate::error::LaneError;
use crate::guard::{Device, DeviceEvent, OpenDevice, Port, ProtectionDomain};
use crate::lane::{self, Half, MAX_BLOCKS_PER_LANE};
use crate::pool::Pool;
use crate::{VerbsError, port_address};
use bytes::Bytes;
use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use storm_backend_tcp::fabric::{End, Fabric, Opening};
use storm_backend_tcp::wire::Lane;
use storm_primitives::NodeId;

/// Room for the head of a chunk in a block.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The name of the network.
const NAME: &str = "verbs";

/// A device in use, for [`RootConfig::fabric`](storm_backend_tcp::RootConfig::fabric) and
/// [`NodeConfig::fabric`](storm_backend_tcp::NodeConfig::fabric).
#[derive(Debug)]
pub struct VerbsFabric {
    common: Rc<Common>,
    events: tokio::task::AbortHandle,
}

/// What lanes need of it.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) config: VerbsConfig,
    pub(crate) device: Arc<OpenDevice>,
    pub(crate) port: Port,
    pub(crate) gid_index: u8,
    pub(crate) gid: Gid,
    pub(crate) pool: Pool,
    /// For when the device goes away.
    lanes: RefCell<Vec<Weak<lane::Lane>>>,
}

impl VerbsFabric {
    /// Opens the device and registers the first blocks, so that what stands in the way is
    /// known before a cluster depends on it. Must be called within a `LocalSet`.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub fn open(config: VerbsConfig) -> Result<VerbsFabric, VerbsError> {
        let mut config = config;
        config.blocks_per_lane = config.blocks_per_lane.clamp(1, MAX_BLOCKS_PER_LANE);
        let (device, port) = choose(&config)?;
        let (gid_index, gid) = port_address::choose(&config, &device, &port)?;
        let domain = ProtectionDomain::new(&device)?;
        let block_bytes = config.chunk_bytes as usize + MAX_HEAD_BYTES;
        let pool = Pool::new(&domain, block_bytes, config.max_blocks as usize)?;
        tracing::info!(
            device = device.name(),
            port = port.number,
            link_layer = port.link_layer(),
            mtu = port.mtu_bytes(),
            gid_index,
            "verbs"
        );
        let lanes = RefCell::default();
        let common = Rc::new(Common { config, device, port, gid_index, gid, pool, lanes });
        let events = tokio::task::spawn_local(watch(common.clone())).abort_handle();
        Ok(VerbsFabric { common, events })
    }

    /// The device.
    pub fn device(&self) -> &str {
        self.common.device.name()
    }

    /// How many blocks are registered, and how many of them are free.
    pub fn blocks(&self) -> (usize, usize) {
        self.common.pool.blocks()
    }
}

impl Drop for VerbsFabric {
    fn drop(&mut self) {
        self.events.abort();
    }
}

impl Common {
    /// This lane is to end when the device does.
    pub(crate) fn watch(&self, lane: &Rc<lane::Lane>) {
        let mut lanes = self.lanes.borrow_mut();
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Rc::downgrade(lane));
    }

    fn end_all(&self) {
        let lanes = std::mem::take(&mut *self.lanes.borrow_mut());
        lanes.iter().filter_map(Weak::upgrade).for_each(|lane| lane.device_gone());
    }
}

impl Fabric for VerbsFabric {
    fn name(&self) -> &'static str {
        NAME
    }

    fn max_chunk_bytes(&self) -> u32 {
        self.common.config.chunk_bytes
    }

    fn place(&self, data: Bytes) -> Bytes {
        self.common.pool.place(data)
    }

    fn open(&self, peer: NodeId, lane: Lane, end: End) -> io::Result<Box<dyn Opening>> {
        let half = Half::new(self.common.clone(), peer, lane, end).map_err(LaneError::from)?;
        Ok(Box::new(half))
    }
}

/// The device that is asked for, or the first whose port is active.
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

/// Says what happens to the device; when it is gone, so are the lanes.
async fn watch(common: Rc<Common>) {
    let device = common.device.clone();
    let readable = match device.clone().watch() {
        Ok(readable) => readable,
        Err(error) => {
            tracing::warn!(device = device.name(), %error, "its events are not seen");
            return;
        }
    };
    loop {
        let Ok(mut guard) = readable.readable().await else { return };
        match device.take_event() {
            Ok(None) => guard.clear_ready(),
            Ok(Some(event)) => happened(&common, &event),
            Err(error) => {
                tracing::error!(device = device.name(), %error, "the device is gone");
                return common.end_all();
            }
        }
    }
}

fn happened(common: &Common, event: &DeviceEvent) {
    let (device, name) = (common.device.name(), event.name.as_str());
    match event.kind {
        EVENT_COMM_EST => tracing::debug!(device, event = name, "verbs"),
        EVENT_DEVICE_FATAL => {
            tracing::error!(device, event = name, "the device has failed");
            common.end_all();
        }
        EVENT_PORT_ERR => {
            // A port that is soon back costs nothing but retries; lanes end with theirs.
            tracing::error!(device, event = name, "a port is down: nothing is sent until it is up");
        }
        _ => tracing::warn!(device, event = name, "something happened to the device"),
    }
}
