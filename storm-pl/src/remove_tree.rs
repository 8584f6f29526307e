//! Removes a directory with all its content, of any owner.
//!
//! A job may nest directories tens of thousands deep. A recursive descent, as in `rm -r` and
//! [`std::fs::remove_dir_all`], needs stack or a descriptor for each level. This module first moves
//! the content of a directory up to the top, and then removes the directory. Only two directories
//! are open at a time.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::fs::{CWD, chmod, fchmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// How many names are read before they are removed.
const AT_ONCE_MAX: usize = 4096;

/// Removes the directory `path` and everything below it. Blocking. `path` must not be a link. Links
/// are never followed, even if another process makes them meanwhile. An entry that cannot be
/// removed does not prevent the removal of the rest. The modes of directories matter only if
/// another user owns them.
///
/// # Errors
/// An entry cannot be removed, usually because a file system is mounted on it, or entries are made
/// faster than they are removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = open(CWD, path)?;
    let mut brought = 0;
    loop {
        let some = some_entries(&top)?;
        if some.is_empty() {
            return Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?);
        }
        let (mut removed, mut failed, before) = (false, None, brought);
        for (name, is_directory) in some {
            match remove_entry(&top, &name, is_directory, &mut brought) {
                // Another process may have removed it.
                Ok(()) | Err(Errno::NOENT) => removed = true,
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        // Entries that were moved up are still to be removed.
        if let (false, Some(error)) = (removed || brought > before, failed) {
            return Err(error.into());
        }
    }
}

/// Removes one entry of the top. `brought` counts the directories that were moved up from below.
fn remove_entry(
    top: &OwnedFd,
    name: &CStr,
    is_directory: bool,
    brought: &mut u64,
) -> Result<(), Errno> {
    if !is_directory {
        return unlinkat(top, name, AtFlags::empty());
    }
    match unlinkat(top, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            bring_up(top, name, brought)?;
            unlinkat(top, name, AtFlags::REMOVEDIR)
        }
        done => done,
    }
}

/// Removes the files of a directory below the top, and moves its directories up to the top.
fn bring_up(top: &OwnedFd, name: &CStr, brought: &mut u64) -> Result<(), Errno> {
    let directory = open(top, name)?;
    loop {
        let some = some_entries(&directory)?;
        if some.is_empty() {
            return Ok(());
        }
        for (name, is_directory) in some {
            let done = match is_directory {
                true => bring_one_up(top, &directory, &name, brought),
                false => unlinkat(&directory, &*name, AtFlags::empty()),
            };
            if done != Err(Errno::NOENT) {
                done?;
            }
        }
    }
}

/// Moves one directory up to the top, under the next free name.
fn bring_one_up(
    top: &OwnedFd,
    from: &OwnedFd,
    name: &CStr,
    brought: &mut u64,
) -> Result<(), Errno> {
    let mut is_opened = false;
    loop {
        match renameat(from, name, top, format!(".storm-removes-{brought}")) {
            // A file has the name, or a directory with content.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => *brought += 1,
            // A move changes the directory's own entry for its parent, so it must be writable.
            Err(Errno::ACCESS) if !is_opened => {
                open(from, name)?;
                is_opened = true;
            }
            Ok(()) => {
                *brought += 1;
                return Ok(());
            }
            failed => return failed,
        }
    }
}

/// Opens a directory, even if its mode denies access to its owner, which is this process.
fn open(at: impl AsFd, path: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    let no_link = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(&at, path, no_link | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let named = openat(&at, path, no_link | OFlags::PATH, Mode::empty())?;
            chmod(format!("/proc/self/fd/{}", named.as_raw_fd()), Mode::RWXU)?;
            openat(&named, c".", no_link | OFlags::RDONLY, Mode::empty())?
        }
        opened => opened?,
    };
    if !Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(Mode::RWXU) {
        // The call fails for another user's directory. Later calls in it then report the error.
        let _ = fchmod(&opened, Mode::RWXU);
    }
    Ok(opened)
}

/// Some names in a directory, and whether each is a directory; empty if there are none. Names are
/// collected before any is removed, because a listing of a changing directory is unreliable. There
/// may be millions of names, so the number is bounded.
fn some_entries(directory: &OwnedFd) -> Result<Vec<(CString, bool)>, Errno> {
    let mut found = Vec::new();
    let mut all = Dir::read_from(directory)?;
    while found.len() < AT_ONCE_MAX
        && let Some(entry) = all.next()
    {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        found.push((name.to_owned(), kind == FileType::Directory));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn trees_deeper_than_stack_and_descriptors_are_removed() {
        const DEPTH: usize = 15_000;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep");
        fs::create_dir(&path).expect("made");
        let mut inner = open(CWD, &path).expect("there");
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&inner, c"d", Mode::RWXU).expect("made");
            inner = open(&inner, c"d").expect("there");
        }
        drop(inner);
        // A small stack: a few bytes for each directory.
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let removed = small.spawn(move || remove_tree(&path).map(|()| path)).expect("started");
        let path = removed.join().expect("it does not panic").expect("removed");
        assert!(!path.exists());
    }

    const NOBODY: u32 = 65534;

    /// Gives the entries to the user nobody, which only root can do. Returns whether it did.
    fn given_away(tree: &Path, names: &[&str]) -> bool {
        if !rustix::process::geteuid().is_root() {
            eprintln!("NOT TESTED: we are not root");
            return false;
        }
        for name in names {
            chown(tree.join(name), Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        true
    }

    /// Runs `work` as the user nobody if we are root, since root is not bound by the modes.
    fn as_nobody(base: &Path, work: impl FnOnce() + Send) {
        let nobody = rustix::process::Uid::from_raw(NOBODY);
        fs::set_permissions(base, fs::Permissions::from_mode(0o777)).expect("ours");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
                }
                work();
            });
        });
    }

    #[test]
    fn directories_go_in_which_their_owner_may_do_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        as_nobody(dir.path(), || {
            let at = |name: &str| dir.path().join(name);
            for inner in ["full", "full/a/b/c", "full/a/empty", "none"] {
                fs::create_dir_all(at("tree").join(inner)).expect("made");
            }
            for file in ["full/x", "full/a/x", "full/a/b/c/x", "none/x"] {
                fs::write(at("tree").join(file), "x").expect("written");
            }
            let modes = [
                ("full/a/b/c", 0o555),
                ("full/a/b", 0),
                ("full/a/empty", 0o555),
                ("none", 0),
                ("", 0o500),
            ];
            for (name, mode) in modes {
                let mode = fs::Permissions::from_mode(mode);
                fs::set_permissions(at("tree").join(name), mode).expect("ours");
            }
            remove_tree(&at("tree")).expect("removed");
            assert!(!at("tree").exists());
        });
    }

    #[test]
    fn entries_below_one_that_stays_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("theirs/deep/er")).expect("made");
        // Other users can remove their own files from the directory, and no others.
        let all = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(tree.join("theirs"), all).expect("ours");
        fs::write(tree.join("theirs/x"), "x").expect("written");
        if !given_away(&tree, &["", "theirs/deep", "theirs/deep/er"]) {
            return;
        }
        as_nobody(dir.path(), || {
            remove_tree(&tree).expect_err("a file is root's");
        });
        let left = |path: &Path| {
            let names = fs::read_dir(path).expect("there").flatten().map(|entry| entry.file_name());
            names.collect::<Vec<_>>()
        };
        assert_eq!(left(&tree), ["theirs"]);
        assert!(tree.join("theirs/x").exists());
    }

    #[test]
    fn an_entry_that_cannot_be_removed_keeps_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("theirs")).expect("made");
        fs::write(tree.join("theirs/x"), "x").expect("written");
        fs::create_dir(tree.join("z")).expect("made");
        fs::write(tree.join("z/x"), "x").expect("written");
        if !given_away(&tree, &["", "z", "z/x"]) {
            return;
        }
        as_nobody(dir.path(), || {
            remove_tree(&tree).expect_err("it is root's");
        });
        assert!(tree.join("theirs/x").exists() && !tree.join("z").exists());
    }

    #[test]
    fn all_kinds_of_things_go_and_what_links_lead_to_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("tree/a/b/c")).expect("made");
        fs::create_dir_all(at("tree/a/.storm-removes-0/x")).expect("made");
        fs::create_dir_all(at("other/kept")).expect("made");
        fs::write(at("tree/.storm-removes-1"), "in the way").expect("written");
        for number in 0..2 * AT_ONCE_MAX {
            fs::write(at(&format!("tree/a/b/file{number}")), "x").expect("written");
        }
        symlink(at("other"), at("tree/a/link")).expect("linked");
        symlink(at("other/kept"), at("tree/link")).expect("linked");
        nix::unistd::mkfifo(&at("tree/a/b/c/fifo"), nix::sys::stat::Mode::S_IRWXU).expect("made");
        remove_tree(&at("tree")).expect("removed");
        assert!(!at("tree").exists() && at("other/kept").exists());
        symlink(at("other"), at("link")).expect("linked");
        remove_tree(&at("link")).expect_err("no directory");
        assert!(at("other/kept").exists());
        let missing = remove_tree(&at("none")).expect_err("not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
