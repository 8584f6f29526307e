//! The adapter of a member: an open device with a port, registered memory and completions.

use crate::abi::Gid;
use crate::config::VerbsConfig;
use crate::guard::{OpenDevice, Port};
use crate::poller::Poller;
use crate::pool::Pool;
use std::sync::Arc;

/// Room for the header of a chunk in a block. The payload of a chunk received in datagrams begins
/// here.
pub(crate) const PAYLOAD_AT: usize = 16 << 10;

/// The adapter, as lanes and the multicast group use it.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) config: VerbsConfig,
    pub(crate) device: Arc<OpenDevice>,
    pub(crate) port: Port,
    pub(crate) gid_index: u8,
    pub(crate) gid: Gid,
    pub(crate) pool: Pool,
    pub(crate) poller: Poller,
}
