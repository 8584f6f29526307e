//! Sets of nodes as people write them, and as they travel.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::survives;
use storm_primitives::{MAX_NODES, NodeSet};

fuzz_target!(|input: &[u8]| {
    let text = std::str::from_utf8(input).ok().and_then(|text| text.parse::<NodeSet>().ok());
    for set in [text, survives::<NodeSet>(input)].into_iter().flatten() {
        assert!(set.last().is_none_or(|last| last.0 < MAX_NODES));
        if !set.is_empty() && set.len() > 1 {
            assert_eq!(set.to_string().parse::<NodeSet>().expect("its own text"), set);
        }
    }
});
