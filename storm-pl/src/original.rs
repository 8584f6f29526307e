//! Whether the original of a copied program can be executed on this node.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use libc::O_NONBLOCK;
use nix::unistd::geteuid;

/// Bytes compared at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// The sticky bit in the mode of a directory (inode(7)).
const STICKY: u32 = 0o1000;

/// Whether `original` can be executed in place of the program `copy`. The original must have the
/// same bytes. The original then does the same, and finds the files in its directory. False if one
/// of the files cannot be read.
///
/// Call it as the user of the job, since it opens a file that the user names. The result is also
/// false, for root, if another user could replace the program before it is executed.
pub fn stands_in_for(original: &Path, copy: &Path) -> bool {
    let trusted = || !geteuid().is_root() || is_roots_alone(original).unwrap_or(false);
    is_same(original, copy).unwrap_or(false) && trusted()
}

fn is_same(original: &Path, copy: &Path) -> io::Result<bool> {
    // Non-blocking, so that a pipe or a device does not make the caller wait.
    let mut original = File::options().read(true).custom_flags(O_NONBLOCK).open(original)?;
    let mut copy = File::open(copy)?;
    let expected = copy.metadata()?;
    if !is_candidate(&original.metadata()?, &expected) {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let mut left = expected.len();
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        original.read_exact(&mut ours[..length])?;
        copy.read_exact(&mut theirs[..length])?;
        if ours[..length] != theirs[..length] {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

/// Whether only root can write the file or change the target of its path.
fn is_roots_alone(path: &Path) -> io::Result<bool> {
    for part in path.canonicalize()?.ancestors() {
        let found = part.symlink_metadata()?;
        // In a sticky directory other users can change only their own files (inode(7)).
        let others = found.mode() & 0o022 != 0 && found.mode() & STICKY == 0;
        if found.uid() != 0 || others {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_candidate(found: &Metadata, expected: &Metadata) -> bool {
    found.is_file() && expected.is_file() && found.len() == expected.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_same_bytes_are_the_same_program() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let mut content = vec![7; 200_000];
        fs::write(path("copy"), &content).expect("written");
        fs::write(path("same"), &content).expect("written");
        content[199_999] = 8;
        fs::write(path("edited"), &content).expect("written");
        fs::write(path("shorter"), &content[..199_998]).expect("written");
        assert!(stands_in_for(&path("same"), &path("copy")));
        for other in ["edited", "shorter", "nowhere", "."] {
            assert!(!stands_in_for(&path(other), &path("copy")), "{other}");
        }
        let pipe = path("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        // No process writes to the pipe, so an open that blocks would never return.
        assert!(!stands_in_for(&pipe, &path("copy")));
    }

    #[test]
    fn root_does_not_execute_what_others_can_replace() {
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        fs::write(&path, "same").expect("written");
        assert!(stands_in_for(&path, &path));
        let of_others = fs::Permissions::from_mode(0o777);
        fs::set_permissions(dir.path(), of_others).expect("root's");
        assert!(!stands_in_for(&path, &path));
    }
}
