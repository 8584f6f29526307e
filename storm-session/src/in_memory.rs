//! Sessions without sockets, for tests and fuzzing. Both ends are in memory. The records of one end
//! are passed to the other in pieces.
//!
//! Daemons do not use this module.

use super::Sealed;
use bytes::{Bytes, BytesMut};
use snow::Builder;
use std::io;

/// The two ends of a session after their handshake.
pub(super) fn pair() -> (Sealed, Sealed) {
    let builder = || {
        let params = "Noise_NNpsk0_25519_AESGCM_SHA256".parse().expect("a pattern");
        Builder::new(params).psk(0, &[7; 32]).expect("a place for a key")
    };
    let mut initiator = builder().build_initiator().expect("an end");
    let mut responder = builder().build_responder().expect("an end");
    let (mut first, mut second) = ([0; 48], [0; 48]);
    initiator.write_message(&[], &mut first).expect("first");
    responder.read_message(&first, &mut []).expect("first");
    responder.write_message(&[], &mut second).expect("second");
    initiator.read_message(&second, &mut []).expect("second");
    let sealed = |end: snow::HandshakeState| {
        Sealed::new(end.into_transport_mode().expect("the handshake is over"))
    };
    (sealed(initiator), sealed(responder))
}

/// The records that carry `frames`.
pub(super) fn seal(end: &Sealed, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = frames.iter().cloned().map(Bytes::from).collect();
    let mut records = Vec::new();
    loop {
        let some = end.seal(&mut out).expect("it seals").to_vec();
        if some.is_empty() {
            return records;
        }
        end.written(some.len());
        records.extend(some);
    }
}

/// The plain text of `records`, read in pieces of `cut` bytes into `room` bytes.
pub(super) fn open(end: &Sealed, records: &[u8], cut: usize, room: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    for piece in records.chunks(cut) {
        end.fill(|buffer| buffer.extend_from_slice(piece));
        loop {
            let mut into = BytesMut::with_capacity(room);
            if end.open(&mut into)? == 0 {
                break;
            }
            plain.extend_from_slice(&into);
        }
    }
    Ok(plain)
}
