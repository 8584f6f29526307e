//! Queue pairs between ranks of different nodes, if the cluster is on InfiniBand or RoCE. The bytes
//! of a connection use RDMA. Its socket identifies the ranks, and reports by its end that the other
//! rank is gone.
//!
//! Each pair has a ring of bytes in each direction in registered memory ([`pair`]). Sent bytes are
//! copied to the own ring and written to the same place of the other's ring; an immediate value
//! tells the other end how many. Nothing is encrypted, as on TCP.

mod accounts;
mod adapter;
mod offer;
mod pair;

pub(super) use adapter::Adapter;
pub(super) use offer::{OFFER_BYTES, Offer};
pub(super) use pair::Pair;

use crate::error::InitError;
use std::net::IpAddr;

/// Names the carrier of bytes between nodes: `tcp`, `verbs`, or `auto`.
const NETWORK_VARIABLE: &str = "STORM_MPI_NETWORK";
/// Names the device by which the node is on the network.
pub const DEVICE_VARIABLE: &str = "STORM_MPI_RDMA_DEVICE";
/// Variables with the number of ranks in the job, and the number on this node.
const SIZE_VARIABLE: &str = "PMI_SIZE";
const HERE_VARIABLE: &str = "STORM_LOCAL_SIZE";

/// Whether bytes go by RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// No bytes go by RDMA.
    Tcp,
    /// By RDMA if both ends can, else by TCP.
    Auto(Option<String>),
    /// By RDMA to all ranks of other nodes, or fail.
    Verbs(Option<String>),
}

impl Wish {
    /// Reads the environment. By default, bytes use RDMA if the node names a device.
    pub(super) fn from_environment() -> Result<Wish, InitError> {
        let value = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Wish::of(value(NETWORK_VARIABLE), value(DEVICE_VARIABLE))
    }

    /// Opens the device for a job of `ranks` ranks, if a device is wanted and present.
    pub(super) fn adapter(
        &self,
        address: IpAddr,
        ranks: usize,
    ) -> Result<Option<Adapter>, InitError> {
        match self {
            Wish::Tcp => Ok(None),
            Wish::Auto(device) => Ok(Adapter::open(device.as_deref(), address, ranks).ok()),
            Wish::Verbs(device) => {
                let opened = Adapter::open(device.as_deref(), address, ranks);
                opened.map(Some).map_err(|error| InitError::Verbs(Box::new(error)))
            }
        }
    }

    /// Opens the device if there are ranks of other nodes and only RDMA is allowed. Call it before
    /// the conversation with the process manager begins.
    pub(super) fn demanded(&self, address: IpAddr) -> Result<Option<Adapter>, InitError> {
        let number =
            |name| std::env::var(name).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let (size, here) = (number(SIZE_VARIABLE).unwrap_or(1), number(HERE_VARIABLE).unwrap_or(1));
        match self {
            Wish::Verbs(_) if size > here => self.adapter(address, size as usize),
            Wish::Verbs(_) | Wish::Auto(_) | Wish::Tcp => Ok(None),
        }
    }

    fn of(network: Option<String>, device: Option<String>) -> Result<Wish, InitError> {
        match network.as_deref().map(str::trim) {
            None if device.is_some() => Ok(Wish::Auto(device)),
            None | Some("tcp") => Ok(Wish::Tcp),
            Some("auto") => Ok(Wish::Auto(device)),
            Some("verbs") => Ok(Wish::Verbs(device)),
            Some(_) => {
                let value = network.unwrap_or_default();
                Err(InitError::Setting { variable: NETWORK_VARIABLE, value })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_names_a_device_is_on_it_unless_the_user_wants_otherwise() {
        let of = |network: &str, device: &str| {
            let given = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
            Wish::of(given(network), given(device)).ok()
        };
        let device = || Some("mlx5_0".to_owned());
        assert_eq!(of("", ""), Some(Wish::Tcp));
        assert_eq!(of("", "mlx5_0"), Some(Wish::Auto(device())));
        assert_eq!(of("tcp", "mlx5_0"), Some(Wish::Tcp));
        assert_eq!(of("auto", ""), Some(Wish::Auto(None)));
        assert_eq!(of(" verbs ", "mlx5_0"), Some(Wish::Verbs(device())));
        assert_eq!(of("infiniband", "mlx5_0"), None);
    }
}
