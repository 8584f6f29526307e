//! Memory as users write it, in Slurm's way: `512M`, `16G`, `4096` (MiB).

use crate::size::{NotASize, parse_size};
use thiserror::Error;

/// The text is not an amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotMemory {
    #[error("an amount of memory is expected, as 512M, 16G, 64GiB, or 4096 for 4096 MiB")]
    Units,
    #[error("the amount of memory is too large")]
    TooMuch,
}

/// Memory in bytes; a bare number is MiB.
pub(crate) fn parse_memory(text: &str) -> Result<u64, NotMemory> {
    let text = text.trim();
    let unit = |letter: &char| "kmgt".contains(*letter);
    let parsed = match text.chars().last() {
        Some(digit) if digit.is_ascii_digit() => parse_size(&format!("{text}MiB")),
        Some(letter) if unit(&letter) => parse_size(&text.to_ascii_uppercase()),
        Some(_) | None => parse_size(text),
    };
    parsed.map_err(|error| match error {
        NotASize::Units => NotMemory::Units,
        NotASize::TooLarge => NotMemory::TooMuch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_mib_and_units_are_of_two() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096 << 20),
            ("512K", 512 << 10),
            ("512M", 512 << 20),
            ("16G", 16 << 30),
            ("16g", 16 << 30),
            ("64GiB", 64 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn malformed_memory_amounts_are_refused() {
        for text in ["", "G", "-1", "16gb", "lots"] {
            assert_eq!(parse_memory(text), Err(NotMemory::Units), "{text}");
        }
        for text in ["99999999999999999999", "9999999999999999T"] {
            assert_eq!(parse_memory(text), Err(NotMemory::TooMuch), "{text}");
        }
    }
}
