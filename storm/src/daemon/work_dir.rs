//! The Node Manager's own directory for its jobs' files, inside the directory that its options
//! name. Other files there, and the outer directory's mode, are left alone ([decision
//! 0115](../../../docs/decisions/0115-a-node-managers-own-directory.md)).

use super::DaemonError;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::{Uid, geteuid};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use storm_nm::live::keeper_of_other_cluster;

/// Users of jobs pass through to their own files; only this user lists or changes the directory.
const MODE: u32 = 0o711;
/// Another Node Manager may remove its directory, or the parent that it made, during an attempt.
const ATTEMPTS_MAX: u32 = 8;

/// The locked directory of one Node Manager. On drop it is removed if it is empty, and so is its
/// parent if that was made for it.
#[derive(Debug)]
pub(super) struct WorkDir {
    path: PathBuf,
    /// The parent, if it was made for this directory.
    made_above: Option<PathBuf>,
    /// The keeper closes the descriptors that it inherits, so a killed Node Manager leaves no lock.
    lock: Flock<File>,
}

impl WorkDir {
    /// Makes the directory of the Node Manager of this name in `above`, which need not exist. Takes
    /// over the directory of a former incarnation, unless the keeper of another cluster uses it.
    /// Call it before the keeper is started.
    pub(super) fn make(above: &Path, name: &str, cluster: &str) -> Result<WorkDir, DaemonError> {
        let path = above.join(format!("storm-nm-{}-{name}", geteuid()));
        let failed = |path: &Path, source| DaemonError::Path { path: path.to_owned(), source };
        if name.contains(['/', '\0']) {
            let why = "the name of a node has neither '/' nor a zero byte";
            return Err(failed(&path, io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let mut made_above = None;
        for _ in 0..ATTEMPTS_MAX {
            if !above.exists() && make_above(above).map_err(|error| failed(above, error))? {
                made_above = Some(above.to_owned());
            }
            match DirBuilder::new().mode(MODE).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(&path)?,
                made => made.map_err(|error| failed(&path, error))?,
            }
            if let Some(lock) = lock(&path)? {
                refuse_foreign_jobs(&path, cluster)?;
                // At creation the umask has reduced the mode.
                let is_set = lock.set_permissions(Permissions::from_mode(MODE));
                is_set.map_err(|error| failed(&path, error))?;
                return Ok(WorkDir { path, made_above, lock });
            }
        }
        Err(failed(&path, io::Error::other("it is removed again and again")))
    }

    /// The path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // `remove_dir` keeps a directory in use. A later Node Manager's new directory of the same
        // name is not ours to remove.
        if is_at(&self.lock, &self.path) {
            let _ = fs::remove_dir(&self.path);
        }
        if let Some(above) = &self.made_above {
            let _ = fs::remove_dir(above);
        }
    }
}

/// Makes a directory with its parents, and returns whether the directory itself was made here. A
/// directory or link that somebody else made meanwhile is left as it is.
fn make_above(above: &Path) -> io::Result<bool> {
    if let Some(parents) = above.parent() {
        DirBuilder::new().recursive(true).create(parents)?;
    }
    match DirBuilder::new().mode(MODE).create(above) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        made => made?,
    }
    // At creation the umask has reduced the mode.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let made = File::options().read(true).custom_flags(flags.bits()).open(above)?;
    made.set_permissions(Permissions::from_mode(MODE))?;
    Ok(true)
}

/// Whether this path still names the open directory.
fn is_at(directory: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (directory.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Refuses an existing directory that is not this user's. Where everybody may make files, as in
/// `/tmp`, somebody else could have taken the name.
fn check(path: &Path) -> Result<(), DaemonError> {
    let what = match fs::symlink_metadata(path) {
        // Removed just now; the next attempt makes a new directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(DaemonError::Path { path: path.to_owned(), source }),
        Ok(found) if !found.is_dir() => "no directory".to_owned(),
        Ok(found) if Uid::from_raw(found.uid()) != geteuid() => {
            format!("a directory of user {}", found.uid())
        }
        Ok(_) => return Ok(()),
    };
    Err(DaemonError::NotOwn { path: path.to_owned(), what })
}

/// Refuses a directory in which the jobs of another cluster wait for their next Node Manager: it
/// finds their keeper by a file there.
fn refuse_foreign_jobs(path: &Path, cluster: &str) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::Path { path: path.to_owned(), source };
    match keeper_of_other_cluster(path, cluster).map_err(failed)? {
        None => Ok(()),
        Some((cluster, pid)) => {
            Err(DaemonError::OtherCluster { path: path.to_owned(), cluster, pid: pid.0 })
        }
    }
}

/// Locks the directory for the lifetime of the lock; `None` if it was removed meanwhile.
fn lock(path: &Path) -> Result<Option<Flock<File>>, DaemonError> {
    let failed = |source| DaemonError::Path { path: path.to_owned(), source };
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let directory = match File::options().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(is_at(&lock, path).then_some(lock)),
        Err((_, nix::Error::EWOULDBLOCK)) => Err(DaemonError::InUse { path: path.to_owned() }),
        Err((_, errno)) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    fn name_of(dir: &WorkDir) -> String {
        dir.path().file_name().expect("a name").to_string_lossy().into_owned()
    }

    #[test]
    fn a_directory_that_is_there_keeps_its_mode_and_its_files() {
        let scratch = tempfile::tempdir().expect("room");
        let above = scratch.path().join("shared");
        fs::create_dir_all(above.join("jobs/alice")).expect("ours");
        fs::create_dir_all(above.join("cache/7")).expect("ours");
        fs::write(above.join("jobs/alice/thesis"), "precious").expect("ours");
        fs::write(above.join("cache/7/mine"), "precious").expect("ours");
        fs::set_permissions(&above, Permissions::from_mode(0o1777)).expect("ours");
        let one = WorkDir::make(&above, "a", "c").expect("it is made");
        let other = WorkDir::make(&above, "b", "c").expect("it is made");
        assert_eq!(name_of(&one), format!("storm-nm-{}-a", geteuid()));
        assert_eq!((mode(one.path()), mode(other.path())), (MODE, MODE));
        let (one_path, other_path) = (one.path().to_owned(), other.path().to_owned());
        drop((one, other));
        assert!(!one_path.exists() && !other_path.exists());
        assert_eq!(mode(&above), 0o1777);
        for file in ["jobs/alice/thesis", "cache/7/mine"] {
            assert_eq!(fs::read_to_string(above.join(file)).expect("it is there"), "precious");
        }
    }

    #[test]
    fn one_that_is_made_goes_again_when_nothing_else_is_in_it() {
        let scratch = tempfile::tempdir().expect("room");
        let above = scratch.path().join("made/here");
        let one = WorkDir::make(&above, "a", "c").expect("it is made");
        let other = WorkDir::make(&above, "b", "c").expect("it is made");
        assert_eq!(mode(&above), MODE);
        let second = WorkDir::make(&above, "a", "c").expect_err("the first is there");
        assert!(matches!(second, DaemonError::InUse { .. }), "{second}");
        drop(one);
        assert!(other.path().exists(), "the other is in it");
        drop(other);
        let again = WorkDir::make(&above, "a", "c").expect("it is there");
        fs::write(again.path().join("left"), "by a life that was killed").expect("ours");
        drop(again);
        let next = WorkDir::make(&above, "a", "c").expect("what a former life left is taken over");
        assert!(next.path().join("left").exists(), "who works in it removes it");
    }

    #[test]
    fn one_in_which_the_keeper_of_another_cluster_lives_is_left_as_it_is() {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
        use nix::sys::socket::{bind, listen, socket};
        use std::os::fd::AsRawFd;
        let scratch = tempfile::tempdir().expect("room");
        let own = WorkDir::make(scratch.path(), "a", "c").expect("it is made");
        let door = own.path().join("keeper-c");
        let flags = SockFlag::SOCK_CLOEXEC;
        let keeper = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("one");
        bind(keeper.as_raw_fd(), &UnixAddr::new(&door).expect("short")).expect("bound");
        listen(&keeper, Backlog::new(4).expect("few")).expect("it listens");
        drop(own);
        let refused = WorkDir::make(scratch.path(), "a", "zz").expect_err("jobs wait there");
        let DaemonError::OtherCluster { cluster, pid, .. } = &refused else { panic!("{refused}") };
        assert_eq!((cluster.as_str(), *pid), ("c", nix::unistd::getpid().as_raw()));
        assert!(door.exists(), "the next Node Manager finds it");
        drop(WorkDir::make(scratch.path(), "a", "c").expect("that is its own"));
        drop(keeper);
        WorkDir::make(scratch.path(), "a", "zz").expect("nobody lives there any more");
    }

    #[test]
    fn foreign_directories_are_refused() {
        let scratch = tempfile::tempdir().expect("room");
        let own = scratch.path().join(format!("storm-nm-{}-a", geteuid()));
        let refused = |what: &str| {
            let error = WorkDir::make(scratch.path(), "a", "c").expect_err("it is not its own");
            let DaemonError::NotOwn { what: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, what);
        };
        fs::write(&own, "x").expect("ours");
        refused("no directory");
        fs::remove_file(&own).expect("ours");
        std::os::unix::fs::symlink("/", &own).expect("ours");
        refused("no directory");
        fs::remove_file(&own).expect("ours");
        if geteuid().is_root() {
            fs::create_dir(&own).expect("ours");
            std::os::unix::fs::chown(&own, Some(7), None).expect("root may");
            refused("a directory of user 7");
        }
    }
}
