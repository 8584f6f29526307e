//! The frames of the TCP backend in a stream that arrives in pieces. Own frames come out whole
//! however they are cut, and any bytes after them do no harm. A header makes no more room than a
//! link in that state allows.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use storm_backend_tcp::wire::{Frame, FrameBuffer, encode};

/// Room for the longest frame and the bytes read along with it, doubled by the allocator.
const MOST_ROOM_BYTES: usize = 5 << 20;
/// The same for an unknown peer.
const MOST_STRANGER_ROOM_BYTES: usize = 48 << 10;

#[derive(Arbitrary, Debug)]
struct Arrival<'a> {
    admitted: bool,
    payloads: Vec<&'a [u8]>,
    cuts: Vec<u16>,
    rest: &'a [u8],
}

/// The frames in `stream`, cut into pieces, and whether all of it could be a stream of frames.
fn read(stream: &[u8], admitted: bool, cuts: &[u16]) -> (Vec<Frame>, bool) {
    let mut buffer = FrameBuffer::new();
    let most = if admitted { MOST_ROOM_BYTES } else { MOST_STRANGER_ROOM_BYTES };
    if admitted {
        buffer.admit();
    }
    let mut frames = Vec::new();
    let (mut left, mut cuts) = (stream, cuts.iter().cycle());
    while !left.is_empty() {
        let cut = cuts.next().map_or(left.len(), |cut| usize::from(*cut).clamp(1, left.len()));
        let spare = buffer.spare();
        assert!(spare.capacity() <= most + stream.len(), "{} bytes", spare.capacity());
        spare.extend_from_slice(&left[..cut]);
        left = &left[cut..];
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
    }
    (frames, true)
}

fuzz_target!(|arrival: Arrival<'_>| {
    let Arrival { admitted, mut payloads, cuts, rest } = arrival;
    if !admitted {
        payloads.clear();
    }
    let mut stream = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        stream.extend_from_slice(&encode(&(number as u64), payload));
    }
    stream.extend_from_slice(rest);
    let (frames, sound) = read(&stream, admitted, &cuts);
    let (at_once, sound_at_once) = read(&stream, admitted, &[]);
    assert_eq!(sound, sound_at_once);
    assert!(frames.iter().map(|frame| &frame.raw).eq(at_once.iter().map(|frame| &frame.raw)));
    for (number, payload) in payloads.iter().enumerate() {
        assert_eq!(frames[number].message::<u64>().expect("own"), number as u64);
        assert_eq!(&frames[number].payload()[..], *payload);
    }
});
