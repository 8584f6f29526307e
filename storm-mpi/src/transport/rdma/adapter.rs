//! The RDMA device of this rank.

use super::accounts::Ring;
use super::offer::Offer;
use super::pair::Pair;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use storm_verbs::VerbsError;
use storm_verbs::abi::Gid;
use storm_verbs::guard::{
    CompletionChannel, Device, Endpoint, OpenDevice, Port, ProtectionDomain, Route,
};
use storm_verbs::port_address::{self, Wish};

/// The port that is used.
const PORT: u8 = 1;

/// A device in use, and the resources that all queue pairs of this rank share.
pub(in crate::transport) struct Adapter {
    port: Port,
    gid_index: u8,
    gid: Gid,
    domain: Arc<ProtectionDomain>,
    channel: Arc<CompletionChannel>,
    ring: Ring,
}

impl Adapter {
    /// Opens the device named `wanted`, or the first with an active port, for a job of `ranks`
    /// ranks. If the port has `address`, other nodes know it by that address.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub(in crate::transport) fn open(
        wanted: Option<&str>,
        address: IpAddr,
        ranks: usize,
    ) -> Result<Adapter, VerbsError> {
        let (device, port) = choose(wanted)?;
        let wish = Wish { gid_index: None, address: Some(address) };
        let (gid_index, gid) = port_address::choose(&wish, &device, &port)?;
        let domain = ProtectionDomain::new(&device)?;
        let channel = CompletionChannel::new(&device)?;
        channel.unblock()?;
        Ok(Adapter { port, gid_index, gid, domain, channel, ring: Ring::of_job(ranks) })
    }

    /// Makes half of a connection. News of it carries the name `name`.
    pub(in crate::transport) fn pair(&self, name: usize) -> Result<Pair, VerbsError> {
        Pair::new(&self.domain, &self.channel, &self.port, self.ring, name)
    }

    /// The offer that describes this half to the other end.
    pub(in crate::transport) fn offer(&self, pair: &Pair) -> Offer {
        Offer {
            number: pair.number(),
            first_packet: pair.first_packet(),
            gid: self.gid.raw,
            lid: self.port.attr.lid,
            link_layer: self.port.attr.link_layer,
            ring: pair.ring(),
            mtu: self.port.attr.active_mtu,
            ring_addr: pair.ring_addr(),
            ring_rkey: pair.ring_rkey(),
        }
    }

    /// Joins the half with the other end's.
    pub(in crate::transport) fn join(&self, pair: &mut Pair, theirs: Offer) -> io::Result<()> {
        let own = self.offer(pair);
        if own.link_layer != theirs.link_layer {
            let why = "one of the two is on InfiniBand, and the other on Ethernet";
            return Err(io::Error::other(why));
        }
        if own.ring != theirs.ring {
            let why = "the two take the job for one of different size";
            return Err(io::Error::other(why));
        }
        let endpoint = |offer: &Offer| Endpoint {
            number: offer.number,
            first_packet: offer.first_packet,
            gid: Gid { raw: offer.gid },
            lid: offer.lid,
        };
        let route = Route { gid_index: self.gid_index, mtu: own.mtu.min(theirs.mtu) };
        pair.join(&self.port, &route, [&endpoint(&own), &endpoint(&theirs)], theirs)
            .map_err(io::Error::other)
    }

    /// Checks that the device is present, whatever its network's state.
    pub(in crate::transport) fn is_there(&self) -> io::Result<()> {
        let port = self.channel.device().port(self.port.number);
        port.map(drop).map_err(|_| io::Error::other("the RDMA device is gone"))
    }

    /// The name of a pair that has news, if any has.
    pub(in crate::transport) fn next_news(&self) -> io::Result<Option<usize>> {
        match self.channel.take_notification() {
            Ok(name) => Ok(Some(name)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Adapter {
    /// The descriptor is readable when a pair has news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn choose(wanted: Option<&str>) -> Result<(Arc<OpenDevice>, Port), VerbsError> {
    if let Some(name) = wanted {
        let device = Device::open(Some(name))?;
        let port = device.active_port(PORT)?;
        return Ok((device, port));
    }
    let mut reason = VerbsError::NoDevice;
    for Device { name } in Device::list()? {
        let opened = Device::open(Some(&name));
        match opened.and_then(|device| Ok((device.active_port(PORT)?, device))) {
            Ok((port, device)) => return Ok((device, port)),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}
