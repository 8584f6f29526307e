//! Lists the devices, for the command line.

use crate::VerbsError;
use crate::guard::{Device, OpenDevice, Port};
use serde::Serialize;
use std::net::IpAddr;
use storm_verbs::port_address;

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// The kernel's name.
    pub name: String,
    /// The ports, from 1.
    pub ports: Vec<PortReport>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortReport {
    /// From 1.
    pub number: u8,
    /// The state in words; an `active` port is usable.
    pub state: &'static str,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: &'static str,
    /// The current largest packet, in bytes.
    pub mtu_bytes: u32,
    /// The addresses that `--backend verbs` can use: RoCE version 2 addresses, or any on
    /// InfiniBand.
    pub addresses: Vec<String>,
}

/// All devices of this host with their ports.
///
/// # Errors
/// [`VerbsError`]: no library, no verbs in the kernel, or a device that cannot be opened.
pub fn inventory() -> Result<Vec<DeviceReport>, VerbsError> {
    Device::list()?.into_iter().map(|device| report(&device.name)).collect()
}

fn report(name: &str) -> Result<DeviceReport, VerbsError> {
    let device = Device::open(Some(name))?;
    Ok(DeviceReport { name: name.to_owned(), ports: ports(&device) })
}

/// Ports are numbered without gaps: the first missing number ends the list.
fn ports(device: &OpenDevice) -> Vec<PortReport> {
    let report = |port: Port| PortReport {
        addresses: port_address::usable(device, &port).iter().map(IpAddr::to_string).collect(),
        number: port.number,
        state: port.state(),
        link_layer: port.link_layer(),
        mtu_bytes: port.mtu_bytes(),
    };
    (1..=u8::MAX).map_while(|number| device.port(number).ok()).map(report).collect()
}
