//! Sizes as users write them: `12MB`, `512KiB`, `4096`.

use thiserror::Error;

/// The text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotASize {
    #[error("a size is expected, as 4096, 512KiB, 12MB or 12MiB")]
    Units,
    #[error("the size is larger than any file can be")]
    TooLarge,
}

/// The text is not a size above 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotSomeSize {
    #[error(transparent)]
    NotASize(#[from] NotASize),
    #[error("a size above 0 is expected, as 512MiB")]
    Nothing,
}

/// Reads a size above 0; see [`parse_size`].
pub(crate) fn parse_some_size(text: &str) -> Result<u64, NotSomeSize> {
    match parse_size(text)? {
        0 => Err(NotSomeSize::Nothing),
        bytes => Ok(bytes),
    }
}

/// A size in bytes; a bare number is bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, NotASize> {
    let text = text.trim();
    let letters = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(letters);
    let unit_bytes: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "KiB" | "K" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" | "M" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" | "G" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "TiB" | "T" => 1 << 40,
        _ => return Err(NotASize::Units),
    };
    let bytes = match number.parse::<u64>() {
        Ok(count) => count.checked_mul(unit_bytes).ok_or(NotASize::TooLarge)?,
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| NotASize::Units)? * unit_bytes as f64;
            // Casts saturate; the filter below rejects those that did.
            bytes.round() as u64
        }
    };
    if bytes > i64::MAX as u64 { Err(NotASize::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_ten_and_of_two_are_told_apart() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("512KiB", 512 << 10),
            ("12MB", 12_000_000),
            ("12MiB", 12 << 20),
            ("1.5M", 3 << 19),
            ("2 GB", 2_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_some_size("0 MB"), Err(NotSomeSize::Nothing));
        assert_eq!(parse_some_size("1"), Ok(1));
    }

    #[test]
    fn malformed_sizes_are_refused() {
        for text in ["", "MB", "-1", "12mb", "1e3", "..", "12 apples"] {
            assert_eq!(parse_size(text), Err(NotASize::Units), "{text}");
        }
        for text in ["99999999999999999999", "9223372036854775808", "99999999999G"] {
            assert_eq!(parse_size(text), Err(NotASize::TooLarge), "{text}");
        }
    }
}
