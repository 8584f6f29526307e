//! The path of a socket for users of this host.

use nix::fcntl::OFlag;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Users connect by writing to the socket.
const MODE: u32 = 0o666;

/// Makes way for a socket: makes its directory, and removes a socket that a dead daemon left.
///
/// # Errors
/// Somebody answers there, or a file that is no socket is there.
pub(super) fn make_way(socket: &Path) -> io::Result<()> {
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.is_dir();
    if let Some(directory) = socket.parent().filter(missing) {
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        tracing::info!(directory = %directory.display(), "made the directory of the socket");
    }
    if UnixStream::connect(socket).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another manager answers there"));
    }
    match fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(socket),
        Ok(_) => {
            let why = "the file there is not a socket; it is left alone";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Lets every user of this host connect to a socket that is bound.
pub(super) fn let_in_all(socket: &Path) -> io::Result<()> {
    fs::set_permissions(socket, Permissions::from_mode(MODE))
}

/// A socket file of this process. On drop it is removed, unless another daemon has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The open file: while it is open, no other file gets its inode.
    file: File,
}

impl SocketFile {
    /// Binds a socket to which every user of this host may connect, for use with tokio.
    pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        make_way(path)?;
        let listener = UnixListener::bind(path)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
        let file = SocketFile { path: path.to_owned(), file };
        let_in_all(path)?;
        listener.set_nonblocking(true)?;
        Ok((listener, file))
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(&self.path)) else {
            return;
        };
        if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_goes_with_its_daemon_and_no_other_daemons_socket_does() {
        let scratch = tempfile::tempdir().expect("room");
        let path = scratch.path().join("made/mm.sock");
        let (listener, file) = SocketFile::bind(&path).expect("free");
        let mode = fs::metadata(&path).expect("bound").mode();
        assert_eq!(mode & 0o777, MODE);
        let refused = SocketFile::bind(&path).expect_err("it is answered");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let (_next, next_file) = SocketFile::bind(&path).expect("the first is dead");
        drop(file);
        assert!(path.exists(), "it is the next daemon's");
        drop(next_file);
        assert!(!path.exists());
        fs::write(&path, "precious").expect("ours");
        assert!(SocketFile::bind(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("left alone"), "precious");
    }
}
