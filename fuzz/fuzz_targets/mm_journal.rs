//! The entries of the journal as they are stored: damage shows, and any events that are
//! whole make a manager.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::{Script, manager_config};
use storm_mm::Core;
use storm_mm::journal::{Entry, fuzzing};
use storm_primitives::Instant;

fuzz_target!(|input: &[u8]| {
    // An input shorter than its checksum does not decode.
    assert!(fuzzing::decode(1, input).is_err() || input.len() >= 8);
    let sealed = fuzzing::seal(7, input);
    assert!(fuzzing::decode(8, &sealed).is_err(), "an entry counts in another place");
    if let Ok(entry) = fuzzing::decode(7, &sealed) {
        let encoded = postcard::to_stdvec(&entry).expect("what was read is written");
        let again = fuzzing::decode(7, &fuzzing::seal(7, &encoded)).expect("its own bytes");
        assert_eq!(again, entry);
    }
    let mut script = Script::new(input);
    let entries: Vec<Entry> = std::iter::from_fn(|| script.message()).take(64).collect();
    let config = manager_config("gang");
    Core::new(config, entries, Instant::ORIGIN).expect("the partitions are as configured");
});
