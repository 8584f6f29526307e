//! An address to listen on in a configuration file: an IP address and a port.
//!
//! Names are not looked up: a name may have several addresses, and others later.

use serde::{Deserialize, Deserializer, de};
use std::net::SocketAddr;

/// The message about any other text.
const EXPECTED: &str = "an IP address of this host with a port is expected, as \"10.0.0.1:7117\", \
                        or \"0.0.0.0:7117\" for all its addresses; a host name works only in \
                        addresses to connect to";

/// Reads an address such as `"10.0.0.1:7117"`.
pub(super) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| de::Error::custom(EXPECTED))
}

/// Reads the address of a key that may be left out.
pub(super) fn some<'de, D>(deserializer: D) -> Result<Option<SocketAddr>, D::Error>
where
    D: Deserializer<'de>,
{
    one(deserializer).map(Some)
}
