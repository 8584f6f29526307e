//! The messages of the TCP backend's five links and of its handshakes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use storm_backend_tcp::wire::{
    Chunk, Down, FromNode, FromRoot, Hello, JoinAnswer, Up, decode, encode,
};

/// The message in a frame with this body.
fn check<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(body);
    let Ok(Some((message, payload))) = decode::<T>(&frame) else { return };
    assert!(payload.is_empty());
    let encoded = encode(&message, &[]);
    let (again, _) = decode::<T>(&encoded).expect("own").expect("whole");
    assert_eq!(encode(&again, &[]), encoded);
}

fuzz_target!(|input: &[u8]| {
    let Some((link, body)) = input.split_first() else { return };
    match link % 7 {
        0 => check::<Hello>(body),
        1 => check::<JoinAnswer>(body),
        2 => check::<FromRoot>(body),
        3 => check::<FromNode>(body),
        4 => check::<Down>(body),
        5 => check::<Up>(body),
        _ => check::<Chunk>(body),
    }
});
