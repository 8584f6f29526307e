//! The conformance suite on clusters whose nodes share the suite's thread. The daemons' own tests
//! and the embedded cluster use such clusters.

use crate::local_cluster::LocalFactory;

storm_primitives::conformance_tests!(LocalFactory { trust: None, by_reference: true });
