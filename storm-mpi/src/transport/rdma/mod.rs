//! Queue pairs between ranks of different nodes, where the cluster is on InfiniBand or RoCE: the bytes of a
//! connection go by RDMA, and its socket says who is there, and by its end that it is gone.
//!
//! Each pair has a ring of bytes each way in registered memory ([`pair`]). What is sent is copied to the
//! own ring and written to the same place of the other's, whose end is told how much by an immediate
//! value. Nothing is encrypted, as on TCP.

mod accounts;
mod adapter;
mod offer;
mod pair;

pub(super) use adapter::Adapter;
pub(super) use offer::{OFFER_BYTES, Offer};
pub(super) use pair::Pair;

use crate::error::InitError;
use std::net::IpAddr;

/// Names what carries bytes between nodes: `tcp`, `verbs`, or `auto`.
const NETWORK_VARIABLE: &str = "STORM_MPI_NETWORK";
/// Names the device that the node is on the network by.
pub const DEVICE_VARIABLE: &str = "STORM_MPI_RDMA_DEVICE";
/// How many ranks the job has, and how many of them are on this node.
const SIZE_VARIABLE: &str = "PMI_SIZE";
const HERE_VARIABLE: &str = "STORM_LOCAL_SIZE";

/// Whether bytes are to go by RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// They are not.
    Tcp,
    /// Where both ends can, else by TCP.
    Auto(Option<String>),
    /// To all ranks of other nodes, or not at all.
    Verbs(Option<String>),
}

impl Wish {
    /// As the environment says: without a word, by RDMA where the node names a device.
    pub(super) fn from_environment() -> Result<Wish, InitError> {
        let value = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Wish::of(value(NETWORK_VARIABLE), value(DEVICE_VARIABLE))
    }

    /// The device, for a job of so many ranks, if one is wanted and there.
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

    /// The device, where there are ranks of other nodes and nothing else will do: to be asked for before the process
    /// manager is spoken to.
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
