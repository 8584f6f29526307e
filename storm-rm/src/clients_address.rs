//! Where users of other hosts reach the Machine Manager, as nodes are told.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Where a Machine Manager listens for users of other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientsAddress {
    /// The address; `None` if it listens on all addresses of its host.
    pub host: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for ClientsAddress {
    fn from(listens: SocketAddr) -> ClientsAddress {
        let host = Some(listens.ip()).filter(|host| !host.is_unspecified());
        ClientsAddress { host, port: listens.port() }
    }
}
