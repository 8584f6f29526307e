//! The directories of jobs in shared memory.
//!
//! Libraries would otherwise put their files into `/dev/shm` itself. Killed ranks leave them there,
//! and ranks of several nodes on one host would take the same names.
//!
//! A node manager removes the directories of its jobs. If the node manager is killed, its keeper
//! removes the directories. If both are killed, the next node manager that starts on the host does,
//! whatever its name. A directory in use is locked.

use super::job_directory;
use crate::JobKey;
use nix::fcntl::{Flock, FlockArg, OFlag};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storm_pl::Leftovers;
use storm_rm::Owner;

/// Where POSIX shared memory is on Linux (shm_overview(7)).
const SHARED_MEMORY: &str = "/dev/shm";
/// The beginning of every directory's name.
const PREFIX: &str = "storm-";
/// The characters after the prefix. These characters identify the node manager.
const HASH_CHARS: usize = 16;
/// How often a directory is made again. Another node manager may take a new directory, not locked
/// yet, for a directory that was left behind.
const ATTEMPTS_MAX: u32 = 16;

/// The directories of one node manager's jobs.
#[derive(Clone, Debug)]
pub(super) struct SharedMemory {
    /// The beginning of the directories' names; no other node manager uses it.
    prefix: String,
    locks: Arc<Mutex<BTreeMap<JobKey, Flock<File>>>>,
}

impl SharedMemory {
    /// The directories of the node manager that works in `dir`. No other one works there.
    pub(super) fn of(dir: &Path) -> SharedMemory {
        // Another node manager may be given a directory of the same relative name elsewhere.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let hash = blake3::hash(dir.as_os_str().as_bytes()).to_hex();
        SharedMemory { prefix: format!("{PREFIX}{}-", &hash[..HASH_CHARS]), locks: Arc::default() }
    }

    /// The path of a job's directory, whether it exists or not.
    pub(super) fn path(&self, job: JobKey) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{}{}", self.prefix, job.file_name()))
    }

    /// The names of all directories, for the process that cleans up.
    pub(super) fn leftovers(&self) -> Leftovers {
        Leftovers { directory: SHARED_MEMORY.into(), prefix: self.prefix.clone() }
    }

    /// Makes a job's directory; blocking. Everybody may make files there, so a file that already
    /// has the name is removed: it was put there only to be in the way.
    pub(super) fn make(&self, job: JobKey, owner: Owner) -> io::Result<()> {
        let path = self.path(job);
        for _ in 0..ATTEMPTS_MAX {
            remove_any(&path)?;
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Lock it before it belongs to the user, who could lock it too. If another process
            // holds the lock, that process is removing the directory.
            let Some(lock) = lock(&path, FlockArg::LockShared)? else { continue };
            let own = nix::unistd::geteuid();
            // Check that this is the directory just made: the name may be another file's by now.
            let locked = lock.metadata()?;
            if locked.uid() != own.as_raw() || locked.mode() & 0o777 != 0o700 {
                continue;
            }
            if own.is_root() {
                fchown(&*lock, Some(owner.uid), Some(owner.gid))?;
            }
            self.locks().insert(job, lock);
            return Ok(());
        }
        Err(io::Error::other(format!("others remove {}", path.display())))
    }

    /// Removes it; blocking.
    pub(super) fn remove(&self, job: JobKey) {
        remove(&self.path(job));
        self.locks().remove(&job);
    }

    /// Whether there is one for this job.
    pub(super) fn has(&self, job: JobKey) -> bool {
        self.locks().contains_key(&job)
    }

    /// Its lock, for the keeper to hold on to.
    pub(super) fn lock_of(&self, job: JobKey) -> Option<File> {
        self.locks().get(&job).and_then(|lock| lock.try_clone().ok())
    }

    /// Leaves the locks to the other processes that hold them; they outlive this process.
    pub(super) fn leave_locked(&self) {
        std::mem::take(&mut *self.locks()).into_values().for_each(std::mem::forget);
    }

    /// Takes over the directory that a former node manager made.
    pub(super) fn take_over(&self, job: JobKey, lock: Flock<File>) {
        self.locks().insert(job, lock);
    }

    /// Removes the directories of this node manager, and of others that are gone; blocking.
    pub(super) fn remove_all(&self) {
        self.remove_all_but(&BTreeSet::new());
    }

    /// Removes the same directories as [`remove_all`](Self::remove_all), but keeps those of jobs
    /// that continue.
    pub(super) fn remove_all_but(&self, kept: &BTreeSet<JobKey>) {
        let kept: BTreeSet<PathBuf> = kept.iter().map(|job| self.path(*job)).collect();
        for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            if kept.contains(&path) {
                continue;
            }
            if name.as_bytes().starts_with(self.prefix.as_bytes()) {
                remove(&path);
            } else if is_of_a_node_manager(name.as_bytes()) {
                remove_if_left(&path);
            }
        }
        self.locks().clear();
    }

    fn locks(&self) -> MutexGuard<'_, BTreeMap<JobKey, Flock<File>>> {
        // Each entry is whole even if a thread panicked while it held the lock.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `storm-HASH-JOB.RUN`.
fn is_of_a_node_manager(name: &[u8]) -> bool {
    let rest =
        name.strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.split_at_checked(HASH_CHARS));
    let Some((hash, rest)) = rest else { return false };
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit());
    let job = rest.strip_prefix(b"-").map(|job| job.split(|byte| *byte == b'.'));
    hash.iter().all(u8::is_ascii_hexdigit)
        && job.is_some_and(|mut numbers| {
            let both = [numbers.next(), numbers.next()];
            both.into_iter().all(|number| number.is_some_and(is_number)) && numbers.next().is_none()
        })
}

/// Removes a directory that another node manager left. Only root can see to other users' jobs.
fn remove_if_left(path: &Path) {
    let own = nix::unistd::geteuid();
    let ours =
        |found: fs::Metadata| found.is_dir() && (own.is_root() || found.uid() == own.as_raw());
    if !fs::symlink_metadata(path).is_ok_and(ours) {
        return;
    }
    if let Ok(Some(_lock)) = lock(path, FlockArg::LockExclusiveNonblock) {
        remove(path);
    }
}

/// Locks a directory until the lock is dropped. Returns `None` if another process has it locked or
/// has removed it.
fn lock(path: &Path, how: FlockArg) -> io::Result<Option<Flock<File>>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let directory = match File::options().read(true).custom_flags(flags.bits()).open(path) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match Flock::lock(directory, how) {
        Ok(lock) if lock.metadata()?.nlink() > 0 => Ok(Some(lock)),
        Ok(_) | Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Removes a directory; blocking.
fn remove(path: &Path) {
    if let Err(error) = remove_any(path) {
        let path = path.display();
        tracing::warn!(%path, %error, "the shared memory of a job is not removed");
    }
}

/// Removes whatever has the name: other users may have made a file there.
fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => fs::remove_file(path),
        Ok(_) => job_directory::remove(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation, StepRef};

    const JOB: JobKey = JobKey { step: StepRef::program(JobId(1)), incarnation: JobIncarnation(1) };

    #[test]
    fn names_of_other_programs_are_not_taken_for_ours() {
        assert!(is_of_a_node_manager(b"storm-0123456789abcdef-17.2"));
        let others: [&[u8]; 6] = [
            b"storm-0123456789abcdef-17",
            b"storm-0123456789abcdef-17.2.1",
            b"storm-0123456789abcdef-x.2",
            b"storm-0123456789abcde-17.2",
            b"storm-98gOv7",
            b"sem.0123456789abcdef-17.2",
        ];
        others.iter().for_each(|name| assert!(!is_of_a_node_manager(name), "{name:?}"));
    }

    #[test]
    fn the_directory_of_a_node_manager_that_is_gone_goes_when_the_next_starts() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, other) = (SharedMemory::of(one.path()), SharedMemory::of(other.path()));
        let owner =
            Owner { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
        one.make(JOB, owner).unwrap();
        fs::write(one.path(JOB).join("segment"), "x").unwrap();
        other.remove_all();
        assert!(one.path(JOB).exists(), "it is in use");
        let path = one.path(JOB);
        // The node manager is killed: it removes nothing, and its locks are gone.
        drop(one);
        other.remove_all();
        assert!(!path.exists());
    }
}
