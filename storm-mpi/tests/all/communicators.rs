//! Communicators in whole jobs of real processes on simulated nodes.

use storm_mpi::testing::Launcher;

#[test]
fn communicators_on_any_shape_of_job() {
    let test = std::env::current_exe().expect("this test has a path");
    let deps = test.ancestors().nth(2).expect("in target/PROFILE/deps");
    let program = deps.join("examples/comm_check");
    for (nodes, per_node) in [(1, 1), (1, 2), (2, 1), (3, 3), (4, 4)] {
        let outcome = Launcher::new(&program).nodes(nodes, per_node).run().unwrap();
        assert!(outcome.success(), "{nodes} x {per_node}: {}", outcome.report());
    }
}
