//! The conformance suite on clusters whose nodes share the suite's thread: what
//! the daemons' own tests and the embedded cluster do.

use crate::local_cluster::LocalFactory;

storm_primitives::conformance_tests!(LocalFactory { trust: None, by_reference: true });
