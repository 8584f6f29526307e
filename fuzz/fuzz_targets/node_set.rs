//! Sets of nodes as people write them, and as they travel.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::{plant, survives};
use storm_primitives::{MAX_NODES, NodeNames, NodeSet};

/// Each kind of list, and lists that took too much memory, stack or time of the parser.
const LISTS: [&str; 16] = [
    "n[1-3],n2,m7",
    "n[1-8/2] n12",
    "r[1-2]n[01-16]!r1n07",
    "(n[1-4]&n[3-9])^x",
    "n[1-4] - n2",
    "rack1[2-4]05c[1,3]x",
    "@rack:n1",
    "8-999999999\n\0",
    "n[1-1000000000]!n[1-1000000000]",
    "n[0-9999]x[0-9999]",
    "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]g[1-9]",
    "n[430000000]0",
    "n[0000000000000000000001-2]",
    "n[1-9/0]",
    "(a1b1,a1b1,a1b1)&(a1b1,a1b1)&(a1b1,a1b1)",
    "((((((((((((((((((((n1",
];

fuzz_target!(init: plant(LISTS), |input: &[u8]| {
    let text = std::str::from_utf8(input).ok();
    let set = text.and_then(|text| text.parse::<NodeSet>().ok());
    for set in [set, survives::<NodeSet>(input)].into_iter().flatten() {
        assert!(set.last().is_none_or(|last| last.0 < MAX_NODES));
        if !set.is_empty() && set.len() > 1 {
            assert_eq!(set.to_string().parse::<NodeSet>().expect("its own text"), set);
        }
    }
    if let Some(names) = text.and_then(|text| NodeNames::parse(text, MAX_NODES).ok()) {
        assert!(names.len() <= MAX_NODES as usize);
        assert_eq!(names.iter().count(), names.len());
    }
});
