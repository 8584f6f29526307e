//! The directory of a local cluster for the files of its nodes' jobs, inside the cluster's
//! directory. If the cluster's directory is in memory and this user may mount, it is a `tmpfs` of
//! its own in large pages ([decision
//! 0125](../../../docs/decisions/0125-nodes-files-in-large-pages.md)).
//!
//! Always remove a cluster's directory by [`remove`]. Nothing is mounted for Node Managers of a
//! configured cluster, whose `--work-dir` is the administrator's.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::FsFlags;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the nodes' directory in the cluster's, which `storm` made and only its user can enter.
pub(crate) const NAME: &str = "nodes";
/// Users of jobs pass through to their own files; only this user lists or changes the directory.
const MODE: u32 = 0o711;

/// The path of the nodes' directory.
pub(crate) fn path_in(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join(NAME)
}

/// Makes the directory, with large pages if possible. Small pages work as well, only slower.
///
/// # Errors
/// The errors of making a directory. The directory must not exist, as
/// [`check_unused`](super::check_unused) checks.
pub(crate) fn make(runtime_dir: &Path) -> io::Result<()> {
    let path = path_in(runtime_dir);
    DirBuilder::new().mode(MODE).create(&path)?;
    // At creation the umask has reduced the mode.
    fs::set_permissions(&path, Permissions::from_mode(MODE))?;
    match mount_large_pages(&path) {
        Ok(true) => tracing::debug!(path = %path.display(), "in large pages"),
        Ok(false) => tracing::debug!(path = %path.display(), "not in memory"),
        Err(error) => tracing::debug!(path = %path.display(), %error, "in small pages"),
    }
    Ok(())
}

/// Mounts a `tmpfs` on `path`, as large as the one around it. Returns whether `path` is in a
/// `tmpfs`; if not, does nothing.
fn mount_large_pages(path: &Path) -> nix::Result<bool> {
    let below = statfs(path)?;
    if below.filesystem_type() != TMPFS_MAGIC {
        return Ok(false);
    }
    // A size of 0 means no limit, both here and for mount (tmpfs(5)). With `within_size`, a written
    // file has large pages only within its length. A file that is extended first and then mapped
    // has them wherever it is touched.
    let bytes = below.blocks().saturating_mul(below.block_size().cast_unsigned());
    let inodes = below.files();
    let options = format!("mode={MODE:o},size={bytes},nr_inodes={inodes},huge=within_size");
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    flags.set(MsFlags::MS_NOEXEC, below.flags().contains(FsFlags::ST_NOEXEC));
    mount(Some("storm"), path, Some("tmpfs"), flags, Some(options.as_str()))?;
    // A bind mount of a directory above would copy this mount and keep the directory in use.
    let none = None::<&str>;
    let _ = mount(none, path, none, MsFlags::MS_UNBINDABLE, none);
    Ok(true)
}

/// Removes a cluster's directory with all its contents.
///
/// # Errors
/// The errors of [`storm_pl::remove_tree`].
pub(crate) fn remove(runtime_dir: &Path) -> io::Result<()> {
    clear(runtime_dir);
    storm_pl::remove_tree(runtime_dir)
}

/// Empties the directory of [`make`], and unmounts its `tmpfs` if there is one.
pub(crate) fn clear(runtime_dir: &Path) {
    let path = path_in(runtime_dir);
    // Emptied before the unmount: a process may have its working directory there, and the files in
    // a detached mount could not be reached by any path.
    let _ = storm_pl::remove_tree(&path);
    // Fails if nothing is mounted or this user may not unmount; the next removal reports an error.
    let _ = umount2(&path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use tempfile::TempDir;

    fn cluster_in(above: &str) -> (TempDir, PathBuf) {
        let above = tempfile::Builder::new().prefix("storm-").tempdir_in(above).expect("room");
        let cluster = above.path().join("cluster");
        fs::create_dir(&cluster).expect("ours");
        (above, cluster)
    }

    fn is_mounted(runtime_dir: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).expect("it is there").dev();
        device(runtime_dir) != device(&path_in(runtime_dir))
    }

    #[test]
    fn mount_appears_and_disappears_with_any_kernel_rights() {
        for above in ["/dev/shm", "/tmp"] {
            let (_above, cluster) = cluster_in(above);
            make(&cluster).expect("it is made");
            let nodes = path_in(&cluster);
            let mode = fs::metadata(&nodes).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, MODE);
            let file = nodes.join("node/file");
            fs::create_dir(nodes.join("node")).expect("ours");
            fs::write(&file, vec![7; 3 << 20]).expect("it can be written");
            make(&cluster).expect_err("it is there");
            assert!(file.exists(), "what is in it is not hidden");
            let held = File::open(&file).expect("it is there");
            remove(&cluster).expect("nothing keeps it");
            assert!(!cluster.exists());
            assert_eq!(held.metadata().expect("held").len(), 3 << 20, "who has a file keeps it");
        }
    }

    /// If this user may mount in a directory like this, the directory is mounted.
    #[test]
    fn it_is_in_large_pages_where_this_user_may_mount() {
        let (above, cluster) = cluster_in("/dev/shm");
        let probe = above.path().join("probe");
        fs::create_dir(&probe).expect("ours");
        let options = Some("huge=within_size");
        let may = mount(Some("probe"), &probe, Some("tmpfs"), MsFlags::empty(), options).is_ok();
        if may {
            umount2(&probe, MntFlags::MNT_DETACH).expect("it was mounted");
        }
        make(&cluster).expect("it is made");
        assert_eq!(is_mounted(&cluster), may);
        remove(&cluster).expect("nothing keeps it");
    }

    #[test]
    fn a_copy_of_all_mounts_elsewhere_does_not_keep_it() {
        let (above, cluster) = cluster_in("/dev/shm");
        make(&cluster).expect("it is made");
        let copy = above.path().join("copy");
        fs::create_dir(&copy).expect("ours");
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        let none = None::<&str>;
        let may = mount(Some(&cluster), &copy, none, flags, none).is_ok();
        let removed = remove(&cluster);
        if may {
            umount2(&copy, MntFlags::MNT_DETACH).expect("it was mounted");
        }
        removed.expect("nothing keeps it");
    }
}
