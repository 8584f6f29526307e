//! Reads text files that a user names, with a bound on their length.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest scenario or profile in bytes. A longer file is not a scenario; it may be /dev/zero.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// The contents of the file.
///
/// # Errors
/// The file cannot be read, or is longer than [`MAX_BYTES`].
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read_bytes = File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if read_bytes as u64 > MAX_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB: that is something else"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_refused() {
        let error = read(Path::new("/dev/zero")).expect_err("it has no end");
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
    }
}
