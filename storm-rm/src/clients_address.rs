//! The address at which users of other hosts reach the Machine Manager. It is sent to the nodes.

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
