//! Communicators in whole jobs of real processes on simulated nodes.

use storm_mpi::testing::{Launcher, example};

#[test]
fn communicators_on_any_shape_of_job() {
    for (nodes, per_node) in [(1, 1), (1, 2), (2, 1), (3, 3), (4, 4)] {
        let outcome = Launcher::new(example("comm_check")).nodes(nodes, per_node).run().unwrap();
        assert!(outcome.success(), "{nodes} x {per_node}: {}", outcome.report());
    }
}
