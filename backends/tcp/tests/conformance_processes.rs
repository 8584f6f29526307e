//! The whole conformance suite on clusters whose nodes are processes. They are killed, stopped at a
//! chosen frame, frozen and started again.

mod process_cluster;

use process_cluster::ProcessFactory;

/// Not a test of its own: the processes of a cluster run it. Without the factory's variables, it
/// only checks that they are not set.
#[test]
fn node_process() {
    match process_cluster::NodeProcess::from_env() {
        Some(process) => process.run(|_, _| None),
        None => assert!(std::env::var_os(process_cluster::SUITE_VARIABLE).is_none()),
    }
}

/// Not a test of its own: on the second machine, it starts the nodes of a cluster of two machines.
/// Does nothing unless its variable is set.
#[test]
fn starter() {
    process_cluster::serve_if_starter();
}

storm_primitives::conformance_tests!(ProcessFactory);
