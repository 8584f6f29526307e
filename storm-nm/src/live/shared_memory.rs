//! A job's own directory in shared memory, for libraries that would otherwise put files into
//! `/dev/shm` itself: killed ranks leave them there, and ranks of several nodes on one host
//! would take the same names.
//!
//! A node manager removes those of its jobs, and its keeper does that is killed. Where both are killed,
//! the next node manager of the host removes them that starts, whatever its name: as long as
//! somebody uses a directory it is locked.

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
/// How the names of all of them begin.
const PREFIX: &str = "storm-";
/// Characters that follow: of whose job it is.
const HASH_CHARS: usize = 16;
/// Another node manager may take a directory that has just been made for one that was left: so often it is
/// made again.
const ATTEMPTS_MAX: u32 = 16;

/// The directories of one node manager's jobs.
#[derive(Clone, Debug)]
pub(super) struct SharedMemory {
    /// With what the name of each begins: no other node manager's does.
    prefix: String,
    locks: Arc<Mutex<BTreeMap<JobKey, Flock<File>>>>,
}

impl SharedMemory {
    /// Of the node manager that works in `dir`, which nobody else does.
    pub(super) fn of(dir: &Path) -> SharedMemory {
        // Others may be told of a directory of this name elsewhere.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let hash = blake3::hash(dir.as_os_str().as_bytes()).to_hex();
        SharedMemory { prefix: format!("{PREFIX}{}-", &hash[..HASH_CHARS]), locks: Arc::default() }
    }

    /// That of a job, there or not.
    pub(super) fn path(&self, job: JobKey) -> PathBuf {
        Path::new(SHARED_MEMORY).join(format!("{}{job}", self.prefix))
    }

    /// All of them, for who cleans up.
    pub(super) fn leftovers(&self) -> Leftovers {
        Leftovers { directory: SHARED_MEMORY.into(), prefix: self.prefix.clone() }
    }

    /// Makes it; blocking. Whoever took the name first could only be in the way: everybody may make
    /// files there.
    pub(super) fn make(&self, job: JobKey, owner: Owner) -> io::Result<()> {
        let path = self.path(job);
        for _ in 0..ATTEMPTS_MAX {
            remove_any(&path)?;
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Before it is its user's, who could lock it as well. Who has locked it now removes it.
            let Some(lock) = lock(&path, FlockArg::LockShared)? else { continue };
            let own = nix::unistd::geteuid();
            // It is the one that was made, whatever has its name by now.
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

    /// The locks outlive this process, with whoever else has them.
    pub(super) fn leave_locked(&self) {
        std::mem::take(&mut *self.locks()).into_values().for_each(std::mem::forget);
    }

    /// A former node manager has made it.
    pub(super) fn take_over(&self, job: JobKey, lock: Flock<File>) {
        self.locks().insert(job, lock);
    }

    /// Removes those of this node manager and of others that are no more; blocking.
    pub(super) fn remove_all(&self) {
        self.remove_all_but(&BTreeSet::new());
    }

    /// As [`remove_all`](Self::remove_all), but for those of jobs that go on.
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
        // Each is whole whoever panicked.
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

/// Removes what another node manager has left. Nobody but root can know of others' jobs.
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

/// Locks a directory for as long as the lock is there; `None` where somebody else has it, or has removed
/// the directory.
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

/// Removes one; blocking.
fn remove(path: &Path) {
    if let Err(error) = remove_any(path) {
        let path = path.display();
        tracing::warn!(%path, %error, "the shared memory of a job is not removed");
    }
}

/// What has the name need not be a directory: others may have taken it.
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
    use storm_rm::{JobId, JobIncarnation};

    const JOB: JobKey = JobKey { job: JobId(1), incarnation: JobIncarnation(1) };

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
        // As if it were killed: nothing is removed, and its locks are gone.
        drop(one);
        other.remove_all();
        assert!(!path.exists());
    }
}
