//! Access for `fuzz/` to the private messages between NM, keeper and PL.
//! Compiled by cargo-fuzz only.

use crate::carried::CarriedSet;
use crate::launch_spec::SpecBody;
use crate::launcher::request::Request;
use crate::protocol::{self, Command, Report};
use crate::{FilesEnd, LaunchFailure, LaunchSpec, RankSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes a message to or from the keeper, of a writer of files, or of a PL that failed. A decoded
/// message must have the same form after it is encoded and decoded again.
///
/// # Panics
/// The two forms differ.
pub fn message(kind: u8, bytes: &[u8]) {
    match kind % 4 {
        0 => survives::<Command>(bytes),
        1 => survives::<Report>(bytes),
        2 => survives::<FilesEnd>(bytes),
        _ => survives::<LaunchFailure>(bytes),
    }
}

/// Decodes everything that a PL reads of a launch message. Returns whether a PL would act on it.
pub fn launch(message: &[u8]) -> bool {
    let decoded =
        Request::open(message).and_then(|(_, rank, shared)| Request::decode(rank, shared));
    decoded.is_some_and(|request| {
        let found = request.variable(b"PATH").is_some_and(|path| !path.is_empty());
        found || request.env.len() + request.args.len() < message.len()
    })
}

/// The launch message of a rank, as the NM sends it. `None` if it cannot be sent, or needs more
/// than one message.
pub fn launch_message(spec: &LaunchSpec, rank: &RankSpec) -> Option<Vec<u8>> {
    let rank = rank.encode().ok()?;
    let SpecBody::Inline(shared) = spec.encode().ok()?.body else { return None };
    let mut message = vec![CarriedSet::default().byte()];
    message.extend((rank.len() as u32).to_le_bytes());
    message.extend(rank);
    message.extend_from_slice(&shared);
    Some(message)
}

fn survives<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(decoded) = protocol::decode::<T>(bytes) else { return };
    let encoded = postcard::to_stdvec(&decoded).expect("what was decoded is encoded");
    let again = protocol::decode::<T>(&encoded).expect("what was encoded is decoded");
    assert_eq!(postcard::to_stdvec(&again).expect("as before"), encoded);
}
