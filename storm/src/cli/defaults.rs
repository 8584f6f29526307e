//! Defaults of options. A default that another part of STORM also has is taken from that part.

use std::sync::LazyLock;
use std::time::Duration;

/// Nodes of an embedded cluster.
pub(crate) const EMBEDDED_NODES: u32 = 64;
/// Processing elements of each node of a cluster on this machine.
pub(crate) const LOCAL_PES: u32 = 4;
/// The file of a cluster's key.
pub(super) const CLUSTER_KEY: &str = "/etc/storm/cluster.key";
/// The file of a login host's key.
pub(super) const DOOR_KEY: &str = "/etc/storm/door.key";

/// The quantum.
pub(super) static QUANTUM: LazyLock<String> = LazyLock::new(|| text(storm_sched::DEFAULT_QUANTUM));
/// How long a node tries to join.
pub(super) static JOIN_TIMEOUT: LazyLock<String> =
    LazyLock::new(|| text(storm_backend_tcp::DEFAULT_JOIN_TIMEOUT));
/// The time between two boosts under the policy `pb`.
pub(super) static BOOST_PERIOD: LazyLock<String> =
    LazyLock::new(|| text(storm_nm::DEFAULT_BOOST_PERIOD));

/// A time as users write it.
fn text(time: Duration) -> String {
    format!("{time:?}")
}

/// A help text with the default, for an option that is absent by default.
pub(super) fn with_default(help: &str, default: impl std::fmt::Display) -> String {
    format!("{help} [default: {default}]")
}
