//! `nodes --fabric`: the RDMA devices of this host. No manager is asked.

use super::print;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use storm_backend_verbs::{DeviceReport, VerbsError, inventory};

pub(super) fn list(output: &dyn Output) -> Result<u8, Failure> {
    let devices = match inventory() {
        Ok(devices) => devices,
        // A host without a device has an empty list.
        Err(VerbsError::NoDevice) => Vec::new(),
        Err(error) => {
            let failure = Failure::of("verbs", &error);
            return Err(failure.hint("without it, STORM runs on TCP"));
        }
    };
    print(&output.sheet(&sheet(&devices))).map(|()| 0)
}

fn sheet(devices: &[DeviceReport]) -> Sheet {
    let sheet = Sheet::new(&devices);
    if devices.is_empty() {
        return sheet.note(
            "There is no RDMA device on this host: `rdma link` shows those that the kernel knows.",
        );
    }
    let rows = devices.iter().flat_map(|device| {
        device.ports.iter().map(|port| {
            vec![
                device.name.clone(),
                port.number.to_string(),
                port.state.to_owned(),
                port.link_layer.to_owned(),
                port.mtu_bytes.to_string(),
                port.addresses.join(", "),
            ]
        })
    });
    sheet.table(["DEVICE", ">PORT", "STATE", "NETWORK", ">MTU", "ADDRESSES"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{JsonOutput, TableOutput};
    use jiff::tz::TimeZone;
    use storm_backend_verbs::PortReport;

    #[test]
    fn devices_are_listed_for_people_and_for_programs() {
        let port = PortReport {
            number: 1,
            state: "active",
            link_layer: "Ethernet",
            mtu_bytes: 4096,
            addresses: vec![String::from("10.9.0.1"), String::from("10.9.0.2")],
        };
        let down = PortReport { state: "down", addresses: Vec::new(), ..port.clone() };
        let devices = [
            DeviceReport { name: String::from("mlx5_0"), ports: vec![port] },
            DeviceReport { name: String::from("mlx5_1"), ports: vec![down] },
        ];
        let (some, none) = (sheet(&devices), sheet(&[]));
        let table = TableOutput::new(TimeZone::UTC.into());
        insta::assert_snapshot!(
            [
                table.sheet(&some),
                JsonOutput.sheet(&some),
                table.sheet(&none),
                JsonOutput.sheet(&none),
            ]
            .join("\n")
        );
    }
}
