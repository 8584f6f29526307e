//! The name of a file's content.

use std::fs::File;
use std::io::{self, Read, Seek};
use storm_rm::ContentHash;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 8 << 20;

/// Blocks of this length and more are hashed by several threads; below it, starting threads costs
/// more than it saves.
const PARALLEL_BYTES: usize = 1 << 20;

/// The hash and the length of a file, read from its beginning, where the file is left again.
///
/// # Errors
/// The file cannot be read.
pub fn hash_file(file: &mut File) -> io::Result<(ContentHash, u64)> {
    file.rewind()?;
    let expected = file.metadata()?.len();
    let block = usize::try_from(expected).unwrap_or(BLOCK_BYTES).clamp(1, BLOCK_BYTES);
    let mut buffer = vec![0; block];
    let mut hasher = blake3::Hasher::new();
    let mut size_bytes = 0;
    loop {
        let length = read_full(file, &mut buffer)?;
        if length >= PARALLEL_BYTES {
            hasher.update_rayon(&buffer[..length]);
        } else {
            hasher.update(&buffer[..length]);
        }
        size_bytes += length as u64;
        if length < buffer.len() {
            break;
        }
    }
    file.rewind()?;
    Ok((ContentHash(*hasher.finalize().as_bytes()), size_bytes))
}

/// Fills the buffer, or reads to the end of the file.
pub(super) fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
