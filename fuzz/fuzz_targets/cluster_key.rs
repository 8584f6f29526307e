//! The text of a cluster key's file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_backend_tcp::ClusterKey;
use storm_fuzz::plant;

fn written() -> String {
    ClusterKey::generate().expect("random bytes").to_text().to_string()
}

fuzz_target!(init: plant([written(), format!("# of the lab\n\n{}", written())]), |text: &str| {
    let Ok(key) = text.parse::<ClusterKey>() else { return };
    let again: ClusterKey = key.to_text().parse().expect("its own text");
    assert_eq!(again.id(), key.id());
});
