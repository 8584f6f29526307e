//! The suite says the same when it reaches its nodes through frames of bytes.

mod wire_cluster;

use wire_cluster::WireFactory;

storm_primitives::conformance_tests!(WireFactory);
