//! Do-nothing static programs of a wanted size, made when they are needed.

use anyhow::{Context, Result, ensure};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes programs in one directory. Each has content that no earlier one had, so no node can have
/// it already.
#[derive(Debug)]
pub struct Payloads {
    dir: PathBuf,
    made: u64,
}

impl Payloads {
    /// Compiles the program once, with `cc`.
    ///
    /// # Errors
    /// There is no C compiler, or it cannot link statically.
    pub fn new(dir: &Path) -> Result<Payloads> {
        fs::write(dir.join("nothing.c"), "int main(void) { return 0; }\n")?;
        let status = Command::new("cc")
            .args(["-static", "-Os", "-s", "-o", "nothing", "nothing.c"])
            .current_dir(dir)
            .status()
            .context("cannot start cc, which makes the programs to launch")?;
        ensure!(status.success(), "cc -static failed: {status}");
        Ok(Payloads { dir: dir.to_owned(), made: 0 })
    }

    /// A program of at least `size_bytes`. Bytes after the end of an ELF file's segments are never
    /// loaded, but they are read, sent and written.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn make(&mut self, size_bytes: usize) -> Result<PathBuf> {
        self.made += 1;
        let path = self.dir.join(format!("nothing-{}", self.made));
        let mut content = fs::read(self.dir.join("nothing"))?;
        content.extend_from_slice(&noise(self.made, size_bytes.saturating_sub(content.len())));
        content.extend_from_slice(&self.made.to_le_bytes());
        let mut file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        file.write_all(&content)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

/// Bytes that no file system or network can compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_length_and_differs_by_seed() {
        assert_eq!(noise(1, 13).len(), 13);
        assert_ne!(noise(1, 13), noise(2, 13));
    }
}
