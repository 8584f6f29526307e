//! The defaults for values that a profile leaves out.

use super::keys::left_out;
use super::{HostProfile, LoadProfile, WireProfile};

impl Default for WireProfile {
    fn default() -> WireProfile {
        WireProfile {
            put_start_us: left_out("simulation.wire.put-start-us"),
            detection_ms: left_out("simulation.wire.detection-ms"),
            fan_out: None,
        }
    }
}

impl Default for HostProfile {
    fn default() -> HostProfile {
        HostProfile {
            nfs_read_mib_s: None,
            disk_read_mib_s: None,
            nic_buffers: None,
            write_mib_s: None,
            processors: left_out("simulation.host.processors"),
            wake_us: left_out("simulation.host.wake-us"),
            noise_period_ms: left_out("simulation.host.noise-period-ms"),
            noise_us: left_out("simulation.host.noise-us"),
            fork_exec_ms: None,
            exec_skew_ms: left_out("simulation.host.exec-skew-ms"),
            exit_ms: left_out("simulation.host.exit-ms"),
        }
    }
}

impl Default for LoadProfile {
    fn default() -> LoadProfile {
        LoadProfile {
            cpu_slice_ms: left_out("simulation.load.cpu-slice-ms"),
            network_message_mib: left_out("simulation.load.network-message-mib"),
            network_bandwidth_share: left_out("simulation.load.network-bandwidth-share"),
            network_message_wait_ms: left_out("simulation.load.network-message-wait-ms"),
            network_conditional_wait_us: left_out("simulation.load.network-conditional-wait-us"),
        }
    }
}
