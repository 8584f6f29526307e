//! The address of a cluster's group. The root chooses it, and each parent passes it on to its
//! children.

use crate::VerbsError;
use crate::abi::Gid;
use crate::guard::{OpenDevice, Port};
use crate::multicast::datagram::HEAD_BYTES;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Groups of one site (RFC 2365, section 6.1: the IPv4 local scope), which routers do not forward.
const LOCAL_SCOPE: [u8; 2] = [239, 255];
/// The possible MTUs.
const MTU_BYTES: [u32; 5] = [256, 512, 1024, 2048, 4096];
/// Keys with the highest bit are for privileged programs (InfiniBand specification, 10.2.5).
const MAX_QKEY: u32 = u32::MAX >> 1;

/// The address of the group, and the common part of its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupAddress {
    /// The beginning of every datagram. It is random, so that no other group has it.
    pub(crate) tag: u64,
    /// The group's address.
    gid: [u8; 16],
    /// The Q_Key of all its members.
    pub(crate) qkey: u32,
    /// The longest datagram: the MTU of the root's port, in bytes.
    pub(crate) datagram_bytes: u32,
}

impl GroupAddress {
    /// A new group, for members that are reached from this port.
    ///
    /// # Errors
    /// [`VerbsError::NoMulticast`].
    pub(crate) fn new(
        device: &OpenDevice,
        port: &Port,
        own: Gid,
    ) -> Result<GroupAddress, VerbsError> {
        let none = |why| VerbsError::NoMulticast { device: device.name().to_owned(), why };
        if !port.is_ethernet() {
            return Err(none("on InfiniBand a group needs rdma_cm, which is not supported"));
        }
        if own_address(own).is_none() {
            return Err(none("its port has no IPv4 address"));
        }
        let random = || getrandom::u64().map_err(|_| none("the system gives no random numbers"));
        let (tag, [_, _, high, low, key @ ..]) = (random()?, random()?.to_le_bytes());
        let group = Ipv4Addr::from([LOCAL_SCOPE[0], LOCAL_SCOPE[1], high, low]);
        let gid = group.to_ipv6_mapped().octets();
        let qkey = u32::from_le_bytes(key) & MAX_QKEY;
        let datagram_bytes = port.mtu_bytes();
        Ok(GroupAddress { tag, gid, qkey, datagram_bytes })
    }

    /// The fault of the address, if it has a fault.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match () {
            () if self.ip().is_none() => {
                Some("the address of its group is not a multicast address")
            }
            () if !MTU_BYTES.contains(&self.datagram_bytes) => {
                Some("the MTU of its group does not exist")
            }
            () if self.qkey > MAX_QKEY => Some("the Q_Key of its group is reserved"),
            () => None,
        }
    }

    /// The address in the library's form.
    pub(crate) fn gid(&self) -> Gid {
        Gid { raw: self.gid }
    }

    /// The IP address, if there is one.
    pub(crate) fn ip(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.gid).to_ipv4_mapped().filter(Ipv4Addr::is_multicast)
    }

    /// Length of every piece of a chunk but the last, in bytes.
    pub(crate) fn piece_bytes(&self) -> u32 {
        self.datagram_bytes.saturating_sub(HEAD_BYTES as u32).max(1)
    }
}

/// The IPv4 address of a port, if it has one.
pub(crate) fn own_address(gid: Gid) -> Option<Ipv4Addr> {
    Ipv6Addr::from(gid.raw).to_ipv4_mapped()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> GroupAddress {
        let gid = Ipv4Addr::new(239, 255, 3, 4).to_ipv6_mapped().octets();
        GroupAddress { tag: 7, gid, qkey: MAX_QKEY, datagram_bytes: 1024 }
    }

    #[test]
    fn impossible_group_addresses_are_detected() {
        assert_eq!(address().fault(), None);
        assert_eq!(address().piece_bytes(), 1000);
        let changed = |change: fn(&mut GroupAddress)| {
            let mut address = address();
            change(&mut address);
            address.fault().is_some()
        };
        assert!(changed(|address| address.gid[12] = 10));
        assert!(changed(|address| address.gid[0] = 0xff));
        assert!(changed(|address| address.qkey += 1));
        assert!(changed(|address| address.datagram_bytes = 0));
    }
}
