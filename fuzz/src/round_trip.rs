//! The promise of every codec: a decoded value encodes so that it decodes again.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes `bytes` with postcard. Checks that the value survives its own encoding. Returns it, or
/// `None` if `bytes` are no `T`.
///
/// # Panics
/// If the two values differ.
pub fn survives<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (decoded, _) = postcard::take_from_bytes::<T>(bytes).ok()?;
    let encoded = postcard::to_stdvec(&decoded).expect("what was decoded is encoded");
    let again: T = postcard::from_bytes(&encoded).expect("what was encoded is decoded");
    // Not every type can be compared; their encodings can.
    assert_eq!(postcard::to_stdvec(&again).expect("as before"), encoded);
    Some(decoded)
}
