//! Keys as text: one line of words, the first of which names the format, the last the
//! secret in hexadecimal digits. Empty lines and those that begin with `#` are passed
//! over.

use std::fmt::Write as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// Length of a secret in bytes: of a pre-shared key in Noise (section 9).
pub(super) const SECRET_BYTES: usize = 32;

/// A secret, cleared from memory when dropped.
pub(super) type Secret = Zeroizing<[u8; SECRET_BYTES]>;

/// Why a text is not a key. It never repeats what the text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAKey {
    /// There is no line that begins as a written key does.
    #[error("it has no line `{line}`")]
    Format {
        /// What the line looks like.
        line: &'static str,
    },
    /// There is more than one key.
    #[error("it has more than one key")]
    Several,
    /// The last word is not 64 hexadecimal digits.
    #[error("the key is not {} hexadecimal digits", 2 * SECRET_BYTES)]
    Digits,
    /// The name is not that of the key: a digit was lost or changed.
    #[error("the key does not have the name beside it: a digit is wrong")]
    Name,
}

/// The words of the only line of `text`, which looks like `line`: its first word
/// begins the text's line too, and there are as many.
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

/// `words`, and the secret behind them.
pub(super) fn written(words: &[&str], secret: &Secret) -> Zeroizing<String> {
    // Of a size that leaves no copy behind.
    let room = words.iter().map(|word| word.len() + 1).sum::<usize>() + 2 * SECRET_BYTES + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    for word in words {
        text.push_str(word);
        text.push(' ');
    }
    for byte in secret.iter() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

/// The bytes that hexadecimal digits stand for.
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
