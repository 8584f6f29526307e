//! The suite gives the same results when it reaches its nodes through frames of bytes.

use crate::wire_cluster::WireFactory;

storm_primitives::conformance_tests!(WireFactory);
