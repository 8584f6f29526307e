//! The records of a sealed session with a man in the middle who changes, drops, repeats and moves
//! them. The opened bytes are a prefix of the sealed bytes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use storm_session::fuzzing::End;

/// Frames of one play.
const MAX_FRAMES: usize = 16;

#[derive(Arbitrary, Debug)]
struct Play {
    /// Lengths of the frames.
    frames: Vec<u16>,
    meddling: Vec<Meddling>,
    cut: u16,
    room: u16,
}

#[derive(Arbitrary, Debug)]
enum Meddling {
    Flip { at: u32, with: u8 },
    Drop { from: u32, len: u8 },
    Insert { at: u32, bytes: Vec<u8> },
    Repeat { from: u32, len: u16 },
    Cut { at: u32 },
}

fn meddle(records: &mut Vec<u8>, meddling: &Meddling) {
    if records.is_empty() {
        return;
    }
    let place = |at: u32| at as usize % records.len();
    match meddling {
        Meddling::Flip { at, with } => {
            let at = place(*at);
            records[at] ^= with;
        }
        Meddling::Drop { from, len } => {
            let from = place(*from);
            let end = (from + usize::from(*len)).min(records.len());
            records.drain(from..end);
        }
        Meddling::Insert { at, bytes } => {
            let at = place(*at);
            records.splice(at..at, bytes.iter().copied());
        }
        Meddling::Repeat { from, len } => {
            let from = place(*from);
            let end = (from + usize::from(*len)).min(records.len());
            let again = records[from..end].to_vec();
            records.splice(end..end, again);
        }
        Meddling::Cut { at } => {
            let at = place(*at);
            records.truncate(at);
        }
    }
}

fuzz_target!(|play: Play| {
    let (one, other) = End::pair();
    let frame = |len: u16| (0..len).map(|at| (at.wrapping_mul(7) % 251) as u8).collect();
    let frames: Vec<Vec<u8>> = play.frames.iter().copied().take(MAX_FRAMES).map(frame).collect();
    let sealed = one.seal(&frames);
    let mut records = sealed.clone();
    play.meddling.iter().for_each(|meddling| meddle(&mut records, meddling));
    let sent = frames.concat();
    let (cut, room) = (usize::from(play.cut.max(16)), usize::from(play.room.max(64)));
    // Records are opened as far as they equal the sealed ones, and never beyond.
    let common = sealed.iter().zip(&records).take_while(|(a, b)| a == b).count();
    match other.open(&records, cut, room) {
        Ok(plain) => {
            assert!(sent.starts_with(&plain), "more was opened than was sealed");
            assert!(records != sealed || plain == sent, "not all was opened");
        }
        // The link ends.
        Err(_) => assert!(common < records.len(), "own records were refused"),
    }
});
