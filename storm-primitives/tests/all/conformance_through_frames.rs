//! The suite says the same when it reaches its nodes through frames of bytes.

use crate::wire_cluster::WireFactory;

storm_primitives::conformance_tests!(WireFactory);
