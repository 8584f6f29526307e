//! The whole conformance suite on clusters whose nodes are processes and whose lanes are queue
//! pairs: the same cases as over TCP. It needs an RDMA device; `.ci/verbs` provides one.

#[path = "../../tcp/tests/process_cluster/mod.rs"]
mod process_cluster;

use process_cluster::{ProcessCluster, ProcessFactory};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_backend_tcp::fabric::Fabric;
use storm_backend_verbs::{Multicast, VerbsConfig, VerbsFabric};
use storm_primitives::conformance::{Capabilities, ClusterSpec, Factory, RunError};

/// The number of addresses on the test machine's one device, from 10.9.0.1.
const ADDRESSES: u32 = 8;
/// The log filter of the nodes, for `tracing`.
const LOG_VARIABLE: &str = "STORM_TEST_LOG";
/// Forces multicast on (`on`) or off (`off`) at the root.
const MULTICAST_VARIABLE: &str = "STORM_TEST_MULTICAST";
/// How many microseconds members poll for completions before they sleep.
const SPIN_VARIABLE: &str = "STORM_TEST_SPIN_US";

/// Not a test by itself: the processes of a cluster run it. Without the factory's variables, it
/// only checks that they are not set.
#[test]
fn node_process() {
    match process_cluster::NodeProcess::from_env() {
        Some(process) => {
            if let Ok(filter) = std::env::var(LOG_VARIABLE) {
                tracing_subscriber::fmt()
                    .with_env_filter(filter)
                    .with_writer(std::io::stderr)
                    .with_ansi(false)
                    .init();
            }
            process.run(fabric);
        }
        None => assert!(std::env::var_os(process_cluster::SUITE_VARIABLE).is_none()),
    }
}

/// Not a test by itself: on the second machine, it starts the nodes of a cluster of two machines.
/// Does nothing unless its variable is set.
#[test]
fn starter() {
    process_cluster::serve_if_starter();
}

/// The fabric of one simulated host, or of a machine with a single device.
fn fabric(node: u32, machine: IpAddr) -> Option<Rc<dyn Fabric>> {
    let address = match machine.is_loopback() {
        true => [10, 9, 0, 1 + (node % ADDRESSES) as u8].into(),
        false => machine,
    };
    // Other members follow the root.
    let multicast = (node == 0).then(multicast);
    let spin = spin();
    let config = VerbsConfig { address: Some(address), multicast, spin, ..VerbsConfig::default() };
    Some(Rc::new(VerbsFabric::open(config).expect("a device that works")))
}

/// How the root sends large transfers.
fn multicast() -> Multicast {
    match std::env::var(MULTICAST_VARIABLE).as_deref() {
        Ok("off") => Multicast::Off,
        Ok("on") => Multicast::On,
        _ => Multicast::Auto,
    }
}

/// How long a member polls for completions.
fn spin() -> Duration {
    let spin_us = std::env::var(SPIN_VARIABLE).map_or(0, |us| us.parse().expect("microseconds"));
    Duration::from_micros(spin_us)
}

/// Clusters of processes, with the longer timeouts of an emulated machine.
struct EmulatedFactory;

impl Factory for EmulatedFactory {
    type Cluster = ProcessCluster;

    fn capabilities(&self) -> Capabilities {
        ProcessFactory.capabilities()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(240)
    }

    fn run<R, B, Fut>(&self, spec: &ClusterSpec, body: B) -> Result<R, RunError>
    where
        B: FnOnce(Self::Cluster) -> Fut,
        Fut: Future<Output = R> + 'static,
        R: 'static,
    {
        ProcessFactory.run(spec, body)
    }
}

storm_primitives::conformance_tests!(EmulatedFactory);
