//! The conformance suite with a cluster key and everything encrypted, large transfers too, as
//! between hosts.

use crate::local_cluster::LocalFactory;
use storm_backend_tcp::{ClusterKey, Trust};

fn sealed() -> LocalFactory {
    let key = ClusterKey::generate().expect("random bytes");
    LocalFactory { trust: Some(Trust::new(key).encrypt_loopback()), by_reference: false }
}

storm_primitives::conformance_tests!(sealed());
