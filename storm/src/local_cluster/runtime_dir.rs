//! The directory of a local cluster's sockets and jobs' files, in memory if possible, so that a
//! launch does not wait for a disk.

use super::{LOG_NAME, SOCKET_NAME, StateDir, nodes_dir};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tried first: it is a tmpfs on almost every Linux.
const MEMORY: &str = "/dev/shm";

/// Longest path of the directory: a Unix socket's address holds 107 bytes, and
/// the daemons' sockets need some of them.
const MAX_PATH_BYTES: usize = 80;

/// Prefix of the directories' names.
const PREFIX: &str = "storm-";
/// The manager of a younger socket may be just about to listen.
const YOUNG: Duration = Duration::from_secs(60);
/// Long after a manager has made its socket, if it was started at all.
const NEVER_BEGUN: Duration = Duration::from_secs(600);

/// A directory of mode 0700, removed with all its contents on drop.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    is_kept: bool,
}

impl RuntimeDir {
    /// Makes a directory with room for about `needed_bytes`.
    pub(crate) fn make(needed_bytes: u64) -> io::Result<RuntimeDir> {
        let memory = PathBuf::from(MEMORY);
        let candidates = [memory, std::env::temp_dir(), PathBuf::from("/tmp")];
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let mut why = io::Error::from(io::ErrorKind::StorageFull);
        let recorded = StateDir::of_user().read().map(|kept| kept.runtime_dir);
        for base in candidates {
            if !is_suitable(&base, needed_bytes) {
                continue;
            }
            remove_abandoned(&base, recorded.as_deref());
            match builder.tempdir_in(&base) {
                Ok(made) => return Ok(RuntimeDir { path: made.keep(), is_kept: false }),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory on drop.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        if !self.is_kept {
            // Most often the manager has removed it already.
            let _ = nodes_dir::remove(&self.path);
        }
    }
}

/// Refuses a directory with anything but the log in it, as the directory is removed with the
/// cluster. A directory that another manager uses is refused by the same check. A missing directory
/// is fine.
///
/// # Errors
/// The directory is not empty, or cannot be read.
pub(crate) fn check_unused(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name != LOG_NAME {
            let found = name.to_string_lossy();
            let why = format!("it contains {found:?}, which would be removed with the cluster");
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why));
        }
    }
    Ok(())
}

/// Removes directories of this user's clusters that were killed together with their owners: no
/// process listens on their sockets. `recorded` is skipped, as `storm down` reports on it.
fn remove_abandoned(base: &Path, recorded: Option<&Path>) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && fs::symlink_metadata(&path).is_ok_and(|found| {
                found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0
            });
        if ours && recorded != Some(&path) && is_abandoned(&path) {
            // A directory that cannot be removed stays.
            let _ = nodes_dir::remove(&path);
        }
    }
}

/// Whether no process has listened on the socket for a while. Without a socket: whether the
/// directory is old and has nothing but the log and the nodes' directory, as its manager never
/// began.
fn is_abandoned(directory: &Path) -> bool {
    let socket = directory.join(SOCKET_NAME);
    match age(&socket) {
        Ok(age) => age > YOUNG && is_refused(&socket).unwrap_or(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            age(directory).is_ok_and(|age| age > NEVER_BEGUN)
                && fs::read_dir(directory).is_ok_and(|entries| {
                    let mut names = entries.flatten().map(|entry| entry.file_name());
                    names.all(|name| name == LOG_NAME || name == nodes_dir::NAME)
                })
        }
        Err(_) => false,
    }
}

/// Time since its last change.
fn age(path: &Path) -> io::Result<Duration> {
    let changed = fs::symlink_metadata(path)?.modified()?;
    changed.elapsed().map_err(io::Error::other)
}

/// Whether a connection is refused. Does not wait: a listener that does not answer is a listener.
fn is_refused(path: &Path) -> nix::Result<bool> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let refused = connect(socket.as_raw_fd(), &UnixAddr::new(path)?);
    Ok(refused == Err(Errno::ECONNREFUSED))
}

/// A directory in memory where programs can be executed, else the directory for temporary files.
pub(crate) fn memory_directory() -> PathBuf {
    let memory = PathBuf::from(MEMORY);
    if is_suitable(&memory, 0) { memory } else { std::env::temp_dir() }
}

/// Whether programs can be executed there, and there is room.
fn is_suitable(base: &Path, needed_bytes: u64) -> bool {
    let Ok(found) = statvfs(base) else { return false };
    let free_bytes = found.blocks_available().saturating_mul(found.fragment_size());
    let executable = !found.flags().contains(FsFlags::ST_NOEXEC);
    executable && free_bytes >= needed_bytes && base.as_os_str().len() < MAX_PATH_BYTES - 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::AT_FDCWD;
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;
    use std::os::unix::net::UnixListener;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn it_is_ours_alone_and_goes_with_its_owner() {
        let made = RuntimeDir::make(1 << 20).expect("there is some place");
        let path = made.path().to_owned();
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn directories_without_a_listener_are_removed_and_nothing_else() {
        let base = tempfile::tempdir().expect("a directory");
        let old = SystemTime::now() - 2 * YOUNG;
        let make = |name: &str, made: SystemTime| {
            let path = base.path().join(name);
            fs::create_dir(&path).expect("made");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("ours");
            let listener = UnixListener::bind(path.join(SOCKET_NAME)).expect("bound");
            let times =
                [TimeSpec::from_duration(made.duration_since(UNIX_EPOCH).expect("later")); 2];
            let socket = path.join(SOCKET_NAME);
            utimensat(AT_FDCWD, &socket, &times[0], &times[1], UtimensatFlags::FollowSymlink)
                .expect("ours");
            (path, listener)
        };
        let (dead, listener) = make("storm-dead", old);
        drop(listener);
        let (recorded, listener) = make("storm-recorded", old);
        drop(listener);
        let (young, listener) = make("storm-young", SystemTime::now());
        drop(listener);
        let (others, listener) = make("other", old);
        drop(listener);
        let (alive, _listener) = make("storm-alive", old);
        remove_abandoned(base.path(), Some(&recorded));
        let left = [&dead, &recorded, &young, &others, &alive].map(|path| path.exists());
        assert_eq!(left, [false, true, true, true, true]);
    }

    #[test]
    fn leftovers_of_a_failed_start_go_and_directories_of_others_stay() {
        let base = tempfile::tempdir().expect("a directory");
        let old = SystemTime::now() - 2 * NEVER_BEGUN;
        let make = |name: &str, files: &[&str], made: SystemTime| {
            let path = base.path().join(name);
            fs::create_dir(&path).expect("made");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("ours");
            files.iter().for_each(|file| fs::write(path.join(file), "").expect("written"));
            fs::File::open(&path).and_then(|opened| opened.set_modified(made)).expect("ours");
            path
        };
        let dead = make("storm-dead", &[LOG_NAME], old);
        let young = make("storm-young", &[LOG_NAME], SystemTime::now());
        let data = make("storm-data", &[LOG_NAME, "results"], old);
        remove_abandoned(base.path(), None);
        assert_eq!([&dead, &young, &data].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn a_directory_that_is_not_empty_gets_no_cluster() {
        let scratch = tempfile::tempdir().expect("a directory");
        check_unused(scratch.path()).expect("it is empty");
        check_unused(&scratch.path().join("none")).expect("it is not there");
        fs::write(scratch.path().join(LOG_NAME), "").expect("ours");
        check_unused(scratch.path()).expect("its log is its own");
        fs::write(scratch.path().join("thesis"), "precious").expect("ours");
        let refused = check_unused(scratch.path()).expect_err("it is somebody's");
        assert!(refused.to_string().contains("it contains \"thesis\""), "{refused}");
    }

    #[test]
    fn no_place_is_large_enough_for_everything() {
        assert!(RuntimeDir::make(u64::MAX).is_err());
        assert!(!is_suitable(Path::new("/proc/nowhere"), 0));
    }
}
