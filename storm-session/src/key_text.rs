//! Keys as text: a line of words. The first word names the format; the last is the secret in
//! hexadecimal digits. Empty lines and lines that begin with `#` are skipped.

use std::fmt::Write as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// Length of a secret in bytes: that of a pre-shared key in Noise (section 9).
pub(super) const SECRET_BYTES: usize = 32;

/// A secret, which is cleared from memory on drop.
pub(super) type Secret = Zeroizing<[u8; SECRET_BYTES]>;

/// Why a text is not a key. The error never repeats a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAKey {
    /// No line begins like a written key.
    #[error("there is no line `{line}`")]
    Format {
        /// The form of the missing line.
        line: &'static str,
    },
    /// There is more than one key.
    #[error("there is more than one key")]
    Several,
    /// The last word is not 64 hexadecimal digits.
    #[error("the key is not {} hexadecimal digits", 2 * SECRET_BYTES)]
    Digits,
    /// The name does not belong to the key: a digit was lost or changed.
    #[error("the key does not have the name beside it: a digit is wrong")]
    Name,
}

/// The words of the only line of `text`. The line must have as many words as `line`, and the same
/// first word.
pub(super) fn words<'a, const WORDS: usize>(
    text: &'a str,
    line: &'static str,
) -> Result<[&'a str; WORDS], NotAKey> {
    let mut lines = text.lines().map(str::trim);
    let mut next = || lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let found = next().ok_or(NotAKey::Format { line })?;
    if next().is_some() {
        return Err(NotAKey::Several);
    }
    let words: Vec<&str> = found.split_whitespace().collect();
    let words: [&str; WORDS] = words.try_into().map_err(|_| NotAKey::Format { line })?;
    let format = line.split(' ').next();
    if words.first().copied() == format { Ok(words) } else { Err(NotAKey::Format { line }) }
}

/// The text of `words` followed by the secret.
pub(super) fn written(words: &[&str], secret: &Secret) -> Zeroizing<String> {
    // Allocates the whole capacity first: growing would leave a copy of the secret behind.
    let room = words.iter().map(|word| word.len() + 1).sum::<usize>() + 2 * SECRET_BYTES + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    for word in words {
        text.push_str(word);
        text.push(' ');
    }
    for byte in secret.iter() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

/// Decodes hexadecimal digits.
pub(super) fn from_hex<const BYTES: usize>(digits: &str) -> Option<Zeroizing<[u8; BYTES]>> {
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = Zeroizing::new([0; BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}
