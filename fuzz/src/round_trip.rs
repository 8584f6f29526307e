//! What every codec promises: what it decodes, it encodes so that it decodes again.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes `bytes` with postcard, and what that gives again from its own encoding;
/// `None` when they are no `T`.
///
/// # Panics
/// The two differ.
pub fn survives<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (decoded, _) = postcard::take_from_bytes::<T>(bytes).ok()?;
    let encoded = postcard::to_stdvec(&decoded).expect("what was decoded is encoded");
    let again: T = postcard::from_bytes(&encoded).expect("what was encoded is decoded");
    // Not every type can be compared; their encodings can.
    assert_eq!(postcard::to_stdvec(&again).expect("as before"), encoded);
    Some(decoded)
}
