//! The cgroup directory of this node. The directory contains the pads' directories. A lock on it
//! proves that the pads' directories belong to this node.
//!
//! The keeper holds a lock on the directory until it ends. The lock distinguishes a directory in
//! use from a directory that a crashed daemon left. A stale directory is emptied by force and taken
//! over.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollTimeout, poll};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::fd::AsFd;

use crate::cgroup::CgroupUnusable;
use crate::ids::{Errno, PadId};
use crate::protocol::Refusal;
use crate::sys::{self, Forked};

/// The first part of the names of the nodes' directories.
pub(crate) const NAME: &str = "storm";

/// The pause between two checks while other processes are ending.
const LOOK_AGAIN_MS: u16 = 2;
/// Checks (4 s in all) for a former keeper that is still cleaning up: killed processes with much
/// memory need time to end.
const LOOKS_MAX: u32 = 2_000;

/// Checks (some 200 ms) of the lock of a directory whose keeper is dead. Only children that the
/// keeper had just forked may still hold the lock, and they end by themselves.
const LOOKS_FOR_ORPHAN_MAX: u32 = 100;

/// The node's directory, locked.
#[derive(Debug)]
pub(crate) struct NodeCgroup {
    path: PathBuf,
    _lock: Flock<File>,
}

/// The consequence of a failed attempt.
pub(crate) enum NodeCgroupError {
    /// Do without cgroups.
    Unusable(CgroupUnusable),
    /// Do not start at all.
    Refused(Refusal),
}

impl NodeCgroup {
    /// Makes or takes over the directory `name` in `parent` and checks that it can be used. Waits
    /// for a former keeper to end, as long as `wants` is true.
    pub(crate) fn claim(
        parent: &Path,
        name: &str,
        wants: impl Fn() -> bool,
    ) -> Result<Self, NodeCgroupError> {
        let path = parent.join(name);
        let cannot = |error: &io::Error| {
            let errno = Errno::of(error);
            NodeCgroupError::Unusable(CgroupUnusable::CannotCreate { parent: parent.into(), errno })
        };
        for _ in 0..LOOKS_MAX {
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(&error)),
            }
            let directory = match File::open(&path) {
                Ok(directory) => directory,
                // A former keeper has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(cannot(&error)),
            };
            match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
                Ok(lock) if still_there(&lock, &path) => {
                    let node = Self { path, _lock: lock };
                    node.empty()?;
                    node.check().map_err(NodeCgroupError::Unusable)?;
                    return Ok(node);
                }
                Ok(_) => {}
                Err((_, nix::errno::Errno::EWOULDBLOCK)) if !wants() => break,
                Err((_, nix::errno::Errno::EWOULDBLOCK)) => pause(),
                Err((_, errno)) => return Err(cannot(&errno.into())),
            }
        }
        Err(NodeCgroupError::Refused(Refusal::NodeInUse(path)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a pad's cgroup.
    pub(crate) fn pad_path(&self, pad: PadId) -> PathBuf {
        super::PadCgroup::path_in(&self.path, pad)
    }

    /// Kills all processes that a former daemon left inside.
    fn empty(&self) -> Result<(), NodeCgroupError> {
        kill_and_empty(&self.path).map_err(|error| {
            let errno = Errno::of(&error);
            NodeCgroupError::Refused(Refusal::StaleCgroup { path: self.path.clone(), errno })
        })
    }

    /// Checks that freeze, kill and birth inside all work. If one fails, signals are used instead.
    fn check(&self) -> Result<(), CgroupUnusable> {
        let result = check_features(&self.path);
        if result.is_err() {
            // An empty directory that cannot be removed does no harm.
            let _ = fs::remove_dir(&self.path);
        }
        result
    }
}

/// Removes the remains of a dead keeper in `path`. If another keeper has taken the directory over,
/// it has already emptied it, and its lock and processes are not touched.
pub(crate) fn remove_remains(path: &Path) -> io::Result<()> {
    for _ in 0..LOOKS_FOR_ORPHAN_MAX {
        let directory = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(lock) if still_there(&lock, path) => return kill_and_remove(path),
            Ok(_) => return Ok(()),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => pause(),
            Err((_, errno)) => return Err(errno.into()),
        }
    }
    tracing::info!(path = %path.display(), "another node of this name has taken over");
    Ok(())
}

/// Removes the directories of dead keepers in clusters with names that begin with `cluster`, and
/// kills the processes inside. Directories of another user stay. The function is for clusters that
/// are never started again. In all other clusters, a node takes over its own directory.
pub fn remove_abandoned(cluster: &str) {
    let Ok(parent) = super::own_directory() else { return };
    remove_abandoned_in(&parent, &format!("{NAME}-{cluster}"));
}

fn remove_abandoned_in(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let directory = File::open(&path).ok().filter(|directory| {
            let ours = entry.file_name().to_string_lossy().starts_with(prefix);
            ours && directory.metadata().is_ok_and(|found| found.is_dir())
        });
        let Some(directory) = directory else { continue };
        if let Ok(lock) = Flock::lock(directory, FlockArg::LockExclusiveNonblock)
            && still_there(&lock, &path)
        {
            match kill_and_remove(&path) {
                Ok(()) => tracing::info!(path = %path.display(), "removed what a dead node left"),
                Err(error) => tracing::debug!(path = %path.display(), %error, "it stays"),
            }
        }
    }
}

/// Kills every process in `path`, waits for their ends, and removes `path` with all below it.
pub(crate) fn kill_and_remove(path: &Path) -> io::Result<()> {
    kill_and_empty(path)?;
    fs::remove_dir(path)
}

/// Checks whether cgroups can be used in `parent`: makes one, starts a process in it, removes it.
pub(crate) fn check_features(parent: &Path) -> Result<(), CgroupUnusable> {
    // Several threads may check at once.
    static PROBES: AtomicU32 = AtomicU32::new(0);
    let probe = PROBES.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("storm-probe-{}-{probe}", std::process::id()));
    fs::create_dir(&path).map_err(|error| CgroupUnusable::CannotCreate {
        parent: parent.to_owned(),
        errno: Errno::of(&error),
    })?;
    let result = check_in(&path);
    // An empty directory that stays is harmless, and the next attempt of this process reports it.
    let _ = fs::remove_dir(&path);
    result
}

fn check_in(path: &Path) -> Result<(), CgroupUnusable> {
    for file in ["cgroup.freeze", "cgroup.kill"] {
        if File::options().write(true).open(path.join(file)).is_err() {
            return Err(CgroupUnusable::Missing { file: file.to_owned() });
        }
    }
    let cannot = |errno| CgroupUnusable::CannotEnter(errno);
    let directory = File::open(path).map_err(|error| cannot(Errno::of(&error)))?;
    // SAFETY: the child calls only `_exit`, which is sound even if other threads hold locks.
    match unsafe { sys::fork_into(Some(directory.as_fd())) } {
        Ok(Forked::Child) => sys::exit_now(0),
        // The kernel kills the child at birth if `cgroup.kill` was ever used on the caller's
        // cgroup.
        Ok(Forked::Parent(pid)) => match waitpid(Pid::from_raw(pid.0), None) {
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(_) => Err(cannot(Errno(libc::ECANCELED))),
            Err(errno) => Err(cannot(errno.into())),
        },
        Err(error) => Err(cannot(Errno::of(&error))),
    }
}

/// Kills all processes in and below `path`, and removes the directories below.
fn kill_and_empty(path: &Path) -> io::Result<()> {
    for _ in 0..LOOKS_MAX {
        match fs::write(path.join("cgroup.kill"), b"1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        if !populated(path)? && remove_below(path)? {
            return Ok(());
        }
        pause();
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Removes the empty directories below `path`. Returns whether all are gone.
fn remove_below(path: &Path) -> io::Result<bool> {
    let mut all = true;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all &= remove_below(&entry.path())? && fs::remove_dir(entry.path()).is_ok();
        }
    }
    Ok(all)
}

fn populated(path: &Path) -> io::Result<bool> {
    Ok(fs::read_to_string(path.join("cgroup.events"))?.contains("populated 1"))
}

/// Whether the locked directory still has this path. The directory's former owner may have removed
/// it after the opening and before the lock.
fn still_there(lock: &Flock<File>, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (lock.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

/// Gives other processes a moment to end.
fn pause() {
    let none: &mut [PollFd<'_>] = &mut [];
    // An early return only makes the next check earlier.
    let _ = poll(none, PollTimeout::from(LOOK_AGAIN_MS));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A killed node manager used to leave its directory for up to 25 s on an overloaded host.
    #[test]
    fn a_directory_in_use_is_waited_for_only_while_somebody_wants_it() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("node");
        fs::create_dir(&path).expect("made");
        let opened = File::open(&path).expect("opened");
        let _held = Flock::lock(opened, FlockArg::LockExclusiveNonblock).expect("locked");
        let asked = Cell::new(0);
        let wants = || asked.replace(asked.get() + 1) < 2;
        let claimed = NodeCgroup::claim(parent.path(), "node", wants);
        assert!(matches!(claimed, Err(NodeCgroupError::Refused(Refusal::NodeInUse(_)))));
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn control_groups_of_dead_nodes_are_removed_and_nothing_else() {
        let Ok(own) = crate::cgroup::own_directory() else {
            eprintln!("no cgroup v2 on this host: NOT tested");
            return;
        };
        let parent = own.join(format!("storm-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&parent) {
            eprintln!("no cgroups can be made ({error}): NOT tested");
            return;
        }
        let paths = ["storm-local-1-n1", "storm-local-1-n2", "storm-lab-n1"].map(|name| {
            let path = parent.join(name);
            fs::create_dir_all(path.join("pad-0")).expect("made");
            path
        });
        let opened = File::open(&paths[1]).expect("opened");
        let lives = Flock::lock(opened, FlockArg::LockExclusiveNonblock).expect("locked");
        remove_abandoned_in(&parent, "storm-local-");
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true, true]);
        drop(lives);
        kill_and_remove(&parent).expect("ours");
    }
}
