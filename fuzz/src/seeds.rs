//! The seeds of a target: messages as the product encodes them. The target writes them at its start
//! to the directory `STORM_FUZZ_SEEDS`, which libFuzzer then reads as a corpus. The repository
//! keeps none, so that they follow the product.

use std::fs;
use std::path::{Path, PathBuf};

/// Names the directory.
const VARIABLE: &str = "STORM_FUZZ_SEEDS";

/// Writes these seeds, if a directory is set.
///
/// # Panics
/// If the seeds cannot be written.
pub fn plant<T: AsRef<[u8]>>(seeds: impl IntoIterator<Item = T>) {
    let Some(directory) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    fs::create_dir_all(&directory).expect("the directory of the seeds can be made");
    for (number, seed) in seeds.into_iter().enumerate() {
        fs::write(directory.join(number.to_string()), seed).expect("a seed can be written");
    }
}

/// The texts in a directory of the repository, in order of their names.
///
/// # Panics
/// If the texts cannot be read.
pub fn texts(directory: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory);
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("it can be read")).collect()
}
