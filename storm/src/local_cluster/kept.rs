//! The record of the cluster that `storm up` keeps for a user.

use super::{LOG_NAME, LocalClusterError, ProcessIdentity, nodes_dir};
use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const RECORD: &str = "cluster.json";
const LOCK: &str = "lock";

/// A cluster that outlives the command that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptCluster {
    /// The process of its Machine Manager.
    pub(crate) process: ProcessIdentity,
    /// The socket for clients.
    pub(crate) socket: PathBuf,
    /// The directory of its files.
    pub(crate) runtime_dir: PathBuf,
    pub(crate) nodes: u32,
    /// Processing elements of each node.
    pub(crate) pes: u32,
    /// Its policies.
    pub(crate) sched: Vec<String>,
    /// The time at which it was ready.
    pub(crate) started: Timestamp,
}

impl KeptCluster {
    /// Removes its files. Whatever the record contains, only a directory that belongs to this user
    /// and looks like a cluster's is removed.
    pub(crate) fn remove_files(&self) -> io::Result<()> {
        let name = self.runtime_dir.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let Ok(found) = fs::symlink_metadata(&self.runtime_dir) else { return Ok(()) };
        if !name.starts_with("storm-") || !found.is_dir() || found.uid() != geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        nodes_dir::remove(&self.runtime_dir)
    }

    /// The error that its Machine Manager has died.
    pub(crate) fn died(&self) -> LocalClusterError {
        let log = self.runtime_dir.join(LOG_NAME);
        LocalClusterError::KeptDied {
            pid: self.process.pid,
            started: self.started.to_string(),
            log: log.exists().then_some(log),
        }
    }
}

/// The directory of a user's record. No other user can write to it.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// `$XDG_RUNTIME_DIR/storm`, or `/tmp/storm-UID`.
    pub(crate) fn of_user() -> StateDir {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let path = match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
            Some(runtime) => runtime.join("storm"),
            None => PathBuf::from(format!("/tmp/storm-{}", geteuid())),
        };
        StateDir { path }
    }

    /// The reason why `$XDG_RUNTIME_DIR` cannot be used, if it is set. A cluster that is kept under
    /// it is not found.
    pub(crate) fn complaint() -> Option<String> {
        let set = std::env::var_os("XDG_RUNTIME_DIR").filter(|set| !set.is_empty())?;
        let path = PathBuf::from(set);
        let why = if !path.is_absolute() {
            "not an absolute path"
        } else if !path.is_dir() {
            "no directory"
        } else {
            return None;
        };
        let (set, used) = (path.display(), StateDir::of_user().path);
        Some(format!("XDG_RUNTIME_DIR, {set}, is {why}: {} is used instead", used.display()))
    }

    /// Makes the directory, and takes the lock under which the record is changed.
    pub(crate) fn lock(&self) -> Result<Flock<File>, LocalClusterError> {
        let fail = |source| LocalClusterError::StateDir { path: self.path.clone(), source };
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fail(error)),
            Ok(()) | Err(_) => {}
        }
        if self.path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Err(LocalClusterError::NotADirectory(self.path.clone()));
        }
        if !self.is_ours() {
            return Err(LocalClusterError::NotOurs(self.path.clone()));
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join(LOCK))
            .map_err(fail)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, error)| match error {
            Errno::EWOULDBLOCK => LocalClusterError::Busy,
            error => fail(error.into()),
        })?;
        // The former holder may have removed the file, and another process may have made a new one.
        let held = lock.metadata().map_err(fail)?;
        match fs::symlink_metadata(self.path.join(LOCK)) {
            Ok(found) if (found.dev(), found.ino()) == (held.dev(), held.ino()) => Ok(lock),
            Ok(_) | Err(_) => Err(LocalClusterError::Busy),
        }
    }

    /// Removes the directory if no cluster is recorded and it is otherwise empty. As
    /// [`lock`](Self::lock) has checked, it is a real directory of this user, and no other user can
    /// write to it. If it cannot be removed, it stays.
    pub(crate) fn leave(&self, lock: Flock<File>) {
        if self.is_ours() && !self.path.join(RECORD).exists() {
            let _ = fs::remove_file(self.path.join(LOCK));
            let _ = fs::remove_dir(&self.path);
        }
        // Held until here, so that another process does not get in between.
        drop(lock);
    }

    /// The record, whether its cluster is alive or not. `None` if it cannot be read or could be
    /// another user's.
    pub(crate) fn read(&self) -> Option<KeptCluster> {
        if !self.is_ours() {
            return None;
        }
        let text = fs::read(self.path.join(RECORD)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The socket of the kept cluster, if there is one.
    ///
    /// # Errors
    /// The Machine Manager of the kept cluster has died.
    pub(crate) fn live_socket(&self) -> Result<Option<PathBuf>, LocalClusterError> {
        match self.read() {
            Some(kept) if kept.process.is_alive() => Ok(Some(kept.socket)),
            Some(kept) => Err(kept.died()),
            None => Ok(None),
        }
    }

    /// The kept cluster, if this is its socket. Once it has died, it does not return.
    pub(crate) fn keeps(&self, socket: &Path) -> Option<KeptCluster> {
        self.read().filter(|kept| kept.socket == socket)
    }

    /// Records a cluster.
    pub(crate) fn write(&self, kept: &KeptCluster) -> Result<(), LocalClusterError> {
        let store = || {
            let unfinished = self.path.join(format!("{RECORD}.new"));
            let _ = fs::remove_file(&unfinished);
            let file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            serde_json::to_writer(file, kept)?;
            fs::rename(&unfinished, self.path.join(RECORD))
        };
        store().map_err(|source| LocalClusterError::StateDir { path: self.path.clone(), source })
    }

    /// Removes the record.
    pub(crate) fn forget(&self) -> io::Result<()> {
        match fs::remove_file(self.path.join(RECORD)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn is_ours(&self) -> bool {
        is_private(&self.path)
    }
}

/// Whether this is a real directory of ours that others cannot write to.
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn kept(runtime_dir: &Path) -> KeptCluster {
        let pid = i32::try_from(std::process::id()).expect("a pid fits");
        KeptCluster {
            process: ProcessIdentity::of(pid).expect("we exist"),
            socket: runtime_dir.join("mm.sock"),
            runtime_dir: runtime_dir.to_owned(),
            nodes: 8,
            pes: 4,
            sched: vec!["gang".to_owned()],
            started: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_record_is_found_until_it_is_forgotten() {
        let scratch = tempfile::tempdir().expect("a directory");
        let state = StateDir { path: scratch.path().join("storm") };
        assert_eq!(state.read(), None);
        let _lock = state.lock().expect("it is free");
        let cluster = kept(scratch.path());
        state.write(&cluster).expect("it is ours");
        assert_eq!(state.read(), Some(cluster.clone()));
        assert_eq!(state.live_socket().expect("it lives"), Some(cluster.socket.clone()));
        let dead = ProcessIdentity { start_ticks: 1, ..cluster.process };
        let dead = KeptCluster { process: dead, ..cluster.clone() };
        state.write(&dead).expect("it is ours");
        let died = state.live_socket().expect_err("a process with this number is not that one");
        let died = died.to_string();
        assert!(died.contains(&cluster.process.pid.to_string()) && !died.contains("log"), "{died}");
        fs::write(scratch.path().join(LOG_NAME), "").expect("written");
        let died = state.live_socket().expect_err("it died").to_string();
        assert!(died.ends_with("mm.log"), "{died}");
        state.forget().expect("it is ours");
        state.forget().expect("again does no harm");
        assert_eq!(state.read(), None);
    }

    #[test]
    fn two_commands_do_not_change_it_at_once() {
        let scratch = tempfile::tempdir().expect("a directory");
        let state = StateDir { path: scratch.path().join("storm") };
        let first = state.lock().expect("it is free");
        assert!(matches!(state.lock(), Err(LocalClusterError::Busy)));
        drop(first);
        assert!(state.lock().is_ok());
    }

    #[test]
    fn nothing_stays_of_a_cluster_that_is_forgotten() {
        let scratch = tempfile::tempdir().expect("a directory");
        let state = StateDir { path: scratch.path().join("storm") };
        state.write(&kept(scratch.path())).expect_err("there is no directory yet");
        let lock = state.lock().expect("it is free");
        state.write(&kept(scratch.path())).expect("it is ours");
        state.leave(lock);
        assert!(state.read().is_some(), "it is still kept");
        let lock = state.lock().expect("it is free");
        state.forget().expect("it is ours");
        let other = state.path.join("other");
        fs::write(&other, "").expect("written");
        state.leave(lock);
        assert!(other.exists(), "what we did not make stays");
        fs::remove_file(other).expect("removed");
        let lock = state.lock().expect("it is free");
        state.leave(lock);
        assert!(!state.path.exists());
    }

    /// A lock on a file that was removed excludes no other process.
    #[test]
    fn a_waiter_for_a_removed_lock_does_not_get_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let state = StateDir { path: scratch.path().join("storm") };
        let first = state.lock().expect("it is free");
        fs::remove_file(state.path.join(LOCK)).expect("removed");
        let second = state.lock().expect("it is another file");
        assert!(matches!(state.lock(), Err(LocalClusterError::Busy)));
        drop((first, second));
    }

    #[test]
    fn a_directory_of_others_is_not_trusted() {
        let scratch = tempfile::tempdir().expect("a directory");
        let real = scratch.path().join("real");
        fs::create_dir(&real).expect("made");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).expect("ours");
        let open = StateDir { path: real.clone() };
        assert!(matches!(open.lock(), Err(LocalClusterError::NotOurs(_))));
        assert_eq!(open.read(), None);
        let link = scratch.path().join("link");
        symlink(&real, &link).expect("made");
        assert!(matches!(StateDir { path: link }.lock(), Err(LocalClusterError::NotOurs(_))));
    }

    #[test]
    fn only_a_directory_of_a_cluster_is_removed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let precious = scratch.path().join("precious");
        fs::create_dir(&precious).expect("made");
        assert!(kept(&precious).remove_files().is_err());
        assert!(precious.exists());
        let runtime = scratch.path().join("storm-1");
        fs::create_dir(&runtime).expect("made");
        kept(&runtime).remove_files().expect("removed");
        assert!(!runtime.exists());
        kept(&runtime).remove_files().expect("again does no harm");
    }
}
