//! The key of a cluster: 32 bytes that each of its daemons holds.
//!
//! The text of a key is a line `storm-key-1 ID HEX`. The id tells keys apart without showing them.
//! Key files are not read here.

use crate::key_text::{self, NotAKey, Secret};
use std::fmt;
use std::io;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Length of a key's name in bytes: long enough that no two keys share it.
pub(super) const ID_BYTES: usize = 8;
/// The form of a written key.
const LINE: &str = "storm-key-1 ID KEY";
/// The first word.
const FORMAT: &str = "storm-key-1";
/// The purpose for which names are derived, and only they (BLAKE3's context string).
const ID_CONTEXT: &str = "storm 2026-11-21 name of a cluster key";

/// A secret that the daemons of a cluster share, cleared from memory on drop and never shown by
/// `Debug`.
#[derive(Clone)]
pub struct ClusterKey {
    secret: Secret,
}

/// The name of a key in logs and messages, which reveals nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(super) [u8; ID_BYTES]);

impl ClusterKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> io::Result<ClusterKey> {
        let mut secret = Secret::default();
        getrandom::fill(secret.as_mut()).map_err(io::Error::other)?;
        Ok(ClusterKey { secret })
    }

    /// The name.
    pub fn id(&self) -> KeyId {
        let derived = blake3::derive_key(ID_CONTEXT, self.secret.as_ref());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&derived[..ID_BYTES]);
        KeyId(id)
    }

    /// The text of the key, with its name; the only way to obtain the secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        key_text::written(&[FORMAT, &self.id().to_string()], &self.secret)
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl FromStr for ClusterKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<ClusterKey, NotAKey> {
        let [_, id, digits] = key_text::words(text, LINE)?;
        let secret = key_text::from_hex(digits).ok_or(NotAKey::Digits)?;
        let key = ClusterKey { secret };
        if key.id().to_string() == id { Ok(key) } else { Err(NotAKey::Name) }
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({})", self.id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_being_written() {
        let key = ClusterKey::generate().expect("random bytes");
        let text = format!("# of the lab\n\n{}", *key.to_text());
        let read: ClusterKey = text.parse().expect("as written");
        assert!(read.secret() == key.secret() && read.id() == key.id());
        let other = ClusterKey::generate().expect("random bytes");
        assert_ne!(other.id(), key.id());
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = ClusterKey::generate().expect("random bytes");
        let shown = format!("{key:?}");
        let text = key.to_text();
        let secret = text.split_whitespace().last().expect("three words");
        assert!(shown.contains(&key.id().to_string()) && !shown.contains(&secret[..8]));
    }

    #[test]
    fn a_malformed_key_is_reported_without_its_text() {
        let key = ClusterKey::generate().expect("random bytes");
        let text = key.to_text();
        let flipped = if text.ends_with("0\n") { "1" } else { "0" };
        for (wrong, why) in [
            ("", NotAKey::Format { line: LINE }),
            ("hello", NotAKey::Format { line: LINE }),
            (&*text.replace(FORMAT, "storm-key-9"), NotAKey::Format { line: LINE }),
            (&*text.repeat(2), NotAKey::Several),
            (&text[..text.len() - 3], NotAKey::Digits),
            (&*text.replace(&text[text.len() - 3..], "äx"), NotAKey::Digits),
            (&*format!("{}{flipped}", &text[..text.len() - 2]), NotAKey::Name),
        ] {
            assert_eq!(wrong.parse::<ClusterKey>().map(|key| key.id()), Err(why), "{wrong}");
        }
    }
}
