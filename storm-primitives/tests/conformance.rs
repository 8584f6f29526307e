//! The simulator keeps the contract: the whole conformance suite.

mod sim_cluster;

use sim_cluster::SimFactory;

storm_primitives::conformance_tests!(SimFactory { wrap: () });
