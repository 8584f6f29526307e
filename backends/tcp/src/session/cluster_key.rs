//! The key of a cluster: 32 bytes that each of its daemons holds.
//!
//! It is written as one line of text, `storm-key-1 ID HEX`, so that a key can be
//! told from another without being shown. Files are not read here.

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;
use thiserror::Error;
use zeroize::Zeroizing;

/// Length of a key in bytes: of a pre-shared key in Noise (section 9).
const KEY_BYTES: usize = 32;
/// Length of a key's name in bytes: enough that two keys never share it.
pub(super) const ID_BYTES: usize = 8;
/// First word of a written key.
const FORMAT: &str = "storm-key-1";
/// What names are derived for, and nothing else (BLAKE3's context string).
const ID_CONTEXT: &str = "storm 2026-11-21 name of a cluster key";

/// A secret that the daemons of a cluster share. Cleared from memory when dropped;
/// never shown by `Debug`.
#[derive(Clone)]
pub struct ClusterKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// What a key is called in logs and on the wire: tells nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(super) [u8; ID_BYTES]);

/// Why a text is not a key. It never repeats what the text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAKey {
    /// There is no line that begins as a written key does.
    #[error("it has no line `{FORMAT} ID KEY`")]
    Format,
    /// There is more than one key.
    #[error("it has more than one key")]
    Several,
    /// The last word is not 64 hexadecimal digits.
    #[error("the key is not {} hexadecimal digits", 2 * KEY_BYTES)]
    Digits,
    /// The name is not that of the key: a digit was lost or changed.
    #[error("the key does not have the name beside it: a digit is wrong")]
    Name,
}

impl ClusterKey {
    /// A new key.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate() -> io::Result<ClusterKey> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(bytes.as_mut()).map_err(io::Error::other)?;
        Ok(ClusterKey { bytes })
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        let derived = blake3::derive_key(ID_CONTEXT, self.bytes.as_ref());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&derived[..ID_BYTES]);
        KeyId(id)
    }

    /// As it is written, with its name; the only way to get at the secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(128));
        // Writing to a string does not fail.
        let _ = write!(text, "{FORMAT} {} ", self.id());
        for byte in self.bytes.iter() {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        text
    }

    pub(super) fn secret(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }
}

impl FromStr for ClusterKey {
    type Err = NotAKey;

    /// Lines that are empty or begin with `#` are passed over.
    fn from_str(text: &str) -> Result<ClusterKey, NotAKey> {
        let mut lines = text.lines().map(str::trim);
        let mut next = || lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let line = next().ok_or(NotAKey::Format)?;
        if next().is_some() {
            return Err(NotAKey::Several);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [FORMAT, id, digits] = words[..] else { return Err(NotAKey::Format) };
        let bytes = from_hex(digits).ok_or(NotAKey::Digits)?;
        let key = ClusterKey { bytes };
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

fn from_hex(digits: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
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
    fn what_is_no_key_is_told_without_repeating_it() {
        let key = ClusterKey::generate().expect("random bytes");
        let text = key.to_text();
        let flipped = if text.ends_with("0\n") { "1" } else { "0" };
        for (wrong, why) in [
            ("", NotAKey::Format),
            ("hello", NotAKey::Format),
            (&*text.replace(FORMAT, "storm-key-9"), NotAKey::Format),
            (&*text.repeat(2), NotAKey::Several),
            (&text[..text.len() - 3], NotAKey::Digits),
            (&*text.replace(&text[text.len() - 3..], "äx"), NotAKey::Digits),
            (&*format!("{}{flipped}", &text[..text.len() - 2]), NotAKey::Name),
        ] {
            assert_eq!(wrong.parse::<ClusterKey>().map(|key| key.id()), Err(why), "{wrong}");
        }
    }
}
