//! Opens the network that the options of a daemon select. The daemons' crates do not depend on this
//! choice.

use super::DaemonError;
use crate::cli::{Backend, BackendOptions, RdmaMulticast};
use std::error::Error;
use std::net::IpAddr;
use std::rc::Rc;
use storm_backend_tcp::JoinError;
use storm_backend_tcp::fabric::{Fabric, TCP};
use storm_backend_tcp::wire::Refusal;
use storm_backend_verbs::{Multicast, VerbsConfig, VerbsError, VerbsFabric};

/// The network for the lanes of a member that is not on TCP.
pub(super) struct Opened {
    pub(super) fabric: Rc<dyn Fabric>,
    /// The name of the device.
    pub(super) device: String,
}

/// Opens the network for the lanes of a member known by `address`; `None` is TCP. The root passes
/// `multicast`. Call it within a `LocalSet`.
pub(super) fn open(
    options: &BackendOptions,
    address: IpAddr,
    multicast: Option<RdmaMulticast>,
) -> Result<Option<Opened>, DaemonError> {
    let verbs = || verbs(options, address, multicast);
    match options.backend {
        Backend::Tcp => Ok(None),
        Backend::Verbs => Ok(Some(verbs()?)),
        Backend::Auto => match verbs() {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => {
                let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
                tracing::info!("on TCP, as {error}{source}");
                Ok(None)
            }
        },
    }
}

fn verbs(
    options: &BackendOptions,
    address: IpAddr,
    multicast: Option<RdmaMulticast>,
) -> Result<Opened, VerbsError> {
    let multicast = multicast.map(|multicast| match multicast {
        RdmaMulticast::Auto => Multicast::Auto,
        RdmaMulticast::Off => Multicast::Off,
        RdmaMulticast::On => Multicast::On,
    });
    let fabric = VerbsFabric::open(VerbsConfig {
        device: options.rdma_device.clone(),
        address: Some(address),
        spin: options.rdma_spin.unwrap_or_default(),
        multicast,
        ..VerbsConfig::default()
    })?;
    let device = fabric.device();
    Ok(Opened { fabric: Rc::new(fabric), device })
}

/// Whether the node may choose its network.
pub(super) fn may_follow(options: &BackendOptions) -> bool {
    options.backend == Backend::Auto
}

/// Whether the node may choose its network, chose another than its manager, and can switch to the
/// manager's.
pub(super) fn can_follow(options: &BackendOptions, refused: &JoinError) -> bool {
    let to_tcp = |refusal: &Refusal| matches!(refusal, Refusal::Fabric { root, .. } if root == TCP);
    may_follow(options) && matches!(refused, JoinError::Refused(refusal) if to_tcp(refusal))
}
