//! Chooses the address that identifies a port.

use crate::VerbsError;
use crate::abi::Gid;
use crate::guard::{OpenDevice, Port};
use std::net::{IpAddr, Ipv6Addr};

/// The kernel's name for RoCE version 2 in the table of types.
const ROCE_V2: &str = "RoCE v2";

/// The requested address of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The index of the address in the port's table of GIDs. Default none: the first of these that
    /// exists is taken. They are the index of `address`, the index of the first RoCE version 2
    /// address over IPv4, and 0. InfiniBand has only index 0.
    pub gid_index: Option<u8>,
    /// The address by which other nodes know this host. Used with RoCE only.
    pub address: Option<IpAddr>,
}

/// Chooses the address that identifies a port. Returns its index in the port's table, and its
/// value.
///
/// # Errors
/// [`VerbsError::NoGid`] if the requested index has no address, or the port has none.
pub fn choose(wish: &Wish, device: &OpenDevice, port: &Port) -> Result<(u8, Gid), VerbsError> {
    let none = |wanted: String| {
        let (device, port) = (device.name().to_owned(), port.number);
        VerbsError::NoGid { device, port, wanted }
    };
    let table = table(device, port);
    if let Some(index) = wish.gid_index {
        let found = table.into_iter().find(|entry| entry.index == index);
        return found.map(Entry::chosen).ok_or_else(|| none(format!("number {index}")));
    }
    if !port.is_ethernet() {
        return table.into_iter().next().map(Entry::chosen).ok_or_else(|| none("at all".into()));
    }
    let of_address = |entry: &&Entry| {
        wish.address.is_some_and(|address| entry.address() == address.to_canonical())
    };
    let second = || table.iter().filter(|entry| entry.is_second_version);
    let best = second()
        .find(of_address)
        .or_else(|| second().find(|entry| entry.address().is_ipv4()))
        .or_else(|| second().next());
    best.copied().map(Entry::chosen).ok_or_else(|| none("of RoCE version 2".into()))
}

/// The addresses from which [`choose`] chooses.
pub fn usable(device: &OpenDevice, port: &Port) -> Vec<IpAddr> {
    let is_usable = |entry: &Entry| !port.is_ethernet() || entry.is_second_version;
    table(device, port).into_iter().filter(is_usable).map(|entry| entry.address()).collect()
}

/// One address of a port.
#[derive(Clone, Copy, Debug)]
struct Entry {
    index: u8,
    gid: Gid,
    is_second_version: bool,
}

impl Entry {
    fn chosen(self) -> (u8, Gid) {
        (self.index, self.gid)
    }

    fn address(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.gid.raw)).to_canonical()
    }
}

/// The port's present addresses.
fn table(device: &OpenDevice, port: &Port) -> Vec<Entry> {
    let len = u8::try_from(port.attr.gid_tbl_len).unwrap_or(u8::MAX);
    let types =
        format!("/sys/class/infiniband/{}/ports/{}/gid_attrs/types", device.name(), port.number);
    let entry = |index: u8| {
        // An empty entry cannot be read.
        let gid = device.gid(port.number, index).ok()?;
        let kind = std::fs::read_to_string(format!("{types}/{index}")).unwrap_or_default();
        let is_second_version = kind.trim() == ROCE_V2;
        (gid != Gid::default()).then_some(Entry { index, gid, is_second_version })
    };
    (0..len).filter_map(entry).collect()
}
