//! The messages between the ranks of a job, as `storm-mpi` encodes them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_mpi::fuzzing::{FRAME_BYTES, card, frame, hello, offer, segment};

/// The token of the job.
const TOKEN: u128 = 7;

fuzz_target!(|input: &[u8]| {
    if let Some(head) = input.first_chunk::<FRAME_BYTES>() {
        frame(head);
    }
    if let Ok(text) = std::str::from_utf8(input) {
        card(text);
    }
    let piece = input.first().map_or(1, |piece| usize::from(*piece));
    assert_eq!(segment(input, piece), segment(input, input.len()), "however it is cut");
    offer(input);
    let known = input.len() == 32 && input.get(8..24) == Some(&TOKEN.to_le_bytes()[..]);
    assert!(hello(input, TOKEN).is_none() || known, "a stranger was let in");
});
