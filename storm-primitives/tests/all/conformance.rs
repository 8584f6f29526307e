//! The simulator keeps the contract: the whole conformance suite.

use storm_primitives::conformance::SimFactory;

storm_primitives::conformance_tests!(SimFactory::around(()));
