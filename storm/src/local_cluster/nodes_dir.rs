//! Where the nodes of a local cluster have their jobs' files: a directory in the cluster's, and, where this user
//! may mount and the cluster's is in memory, a `tmpfs` of their own in it, in large pages
//! ([decision 0125](../../../docs/decisions/0125-nodes-files-in-large-pages.md)).
//!
//! Whoever removes a cluster's directory does so by [`remove`]. What this does not do: mount anything for Node
//! Managers of a configured cluster, whose `--work-dir` is the administrator's.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Its name in the cluster's directory, which `storm` made and only its user can enter.
const NAME: &str = "nodes";
/// Users of jobs pass through to their own; nobody but this user lists or changes it.
const MODE: u32 = 0o711;

/// The directory of a cluster's nodes.
pub(crate) fn path_in(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join(NAME)
}

/// Makes it, with large pages where that can be had: without them it is as good, and slower.
///
/// # Errors
/// Those of making a directory.
pub(crate) fn make(runtime_dir: &Path) -> io::Result<()> {
    let path = path_in(runtime_dir);
    match DirBuilder::new().mode(MODE).create(&path) {
        // Of a cluster that has ended; mounted over, it would be hidden.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    match mount_large_pages(&path) {
        Ok(true) => tracing::debug!(path = %path.display(), "in large pages"),
        Ok(false) => tracing::debug!(path = %path.display(), "not in memory"),
        Err(error) => tracing::debug!(path = %path.display(), %error, "in small pages"),
    }
    Ok(())
}

/// Mounts a `tmpfs` on `path`, with as much room as there is now; whether `path` was in memory before, without
/// which nothing is done.
fn mount_large_pages(path: &Path) -> nix::Result<bool> {
    let below = statfs(path)?;
    if below.filesystem_type() != TMPFS_MAGIC {
        return Ok(false);
    }
    // 0 is no limit, above as below.
    let bytes = below.blocks_available().saturating_mul(below.block_size().cast_unsigned());
    let size = if below.blocks() == 0 { 0 } else { bytes.max(1) };
    // `within_size` has a large page only where the file fills it (tmpfs(5)).
    let options = format!("mode={MODE:o},size={size},huge=within_size");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("storm"), path, Some("tmpfs"), flags, Some(options.as_str()))?;
    Ok(true)
}

/// Removes a cluster's directory with all that is in it. Processes that still have files of the nodes' keep those.
///
/// # Errors
/// Those of [`storm_pl::remove_tree`].
pub(crate) fn remove(runtime_dir: &Path) -> io::Result<()> {
    unmount(runtime_dir);
    storm_pl::remove_tree(runtime_dir)
}

/// Takes away what [`make`] mounted, if it did.
pub(crate) fn unmount(runtime_dir: &Path) {
    let flags = MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
    // Nothing is mounted there most often, or this user may not: what is removed next tells.
    let _ = umount2(&path_in(runtime_dir), flags);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn is_mounted(runtime_dir: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).expect("it is there").dev();
        device(runtime_dir) != device(&path_in(runtime_dir))
    }

    #[test]
    fn it_is_there_whatever_the_kernel_lets_us_do_and_goes_again() {
        for above in ["/dev/shm", "/tmp"] {
            let above = tempfile::Builder::new().prefix("storm-").tempdir_in(above).expect("room");
            let cluster = above.path().join("cluster");
            fs::create_dir(&cluster).expect("ours");
            make(&cluster).expect("it is made");
            let nodes = path_in(&cluster);
            let mode = fs::metadata(&nodes).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, MODE);
            let file = nodes.join("file");
            fs::write(&file, vec![7; 3 << 20]).expect("it can be written");
            make(&cluster).expect("it is there");
            assert!(file.exists(), "what is in it is not hidden");
            let held = fs::File::open(&file).expect("it is there");
            remove(&cluster).expect("nothing keeps it");
            assert!(!cluster.exists());
            assert_eq!(held.metadata().expect("held").len(), 3 << 20, "who has a file keeps it");
        }
    }

    /// Wherever anything can be mounted in a directory like this one, it is.
    #[test]
    fn it_is_in_large_pages_where_this_user_may_mount() {
        let above = tempfile::Builder::new().prefix("storm-").tempdir_in("/dev/shm").expect("room");
        let probe = above.path().join("probe");
        fs::create_dir(&probe).expect("ours");
        let options = Some("huge=within_size");
        let may = mount(Some("probe"), &probe, Some("tmpfs"), MsFlags::empty(), options).is_ok();
        if may {
            umount2(&probe, MntFlags::MNT_DETACH).expect("it was mounted");
        }
        make(above.path()).expect("it is made");
        assert_eq!(is_mounted(above.path()), may);
        unmount(above.path());
        assert!(!is_mounted(above.path()));
    }
}
