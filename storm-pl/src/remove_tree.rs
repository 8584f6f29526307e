//! Removes a directory with all that is in it, whoever made that.
//!
//! A job may leave directories inside one another, tens of thousands deep. Whoever goes down there step by step, as
//! `rm -r` and [`std::fs::remove_dir_all`] do, takes a piece of stack or a descriptor for each. Here what is in a
//! directory is brought up to the top before it is removed, so that two are open at a time.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::fs::{CWD, openat, renameat, unlinkat};
use rustix::io::Errno;

/// So many names are read before what has them is removed.
const AT_ONCE_MAX: usize = 4096;

/// Removes the directory `path`, which is one itself and no link to one, and all below it. Links are not followed,
/// whoever puts some there meanwhile. Blocking.
///
/// # Errors
/// When something cannot be removed, most often as a file system is mounted there, or more is being made than removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = open(CWD, path)?;
    let mut brought = 0;
    loop {
        let some = some_entries(&top)?;
        if some.is_empty() {
            return Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?);
        }
        for (name, is_directory) in some {
            if is_directory {
                brought = bring_up(&top, &name, brought)?;
            }
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(&top, &*name, flags)?;
        }
    }
}

/// Removes the files of a directory below the top, and brings its directories up there: so many were before, and are
/// then.
fn bring_up(top: &OwnedFd, name: &CStr, mut brought: u64) -> io::Result<u64> {
    let directory = open(top, name)?;
    loop {
        let some = some_entries(&directory)?;
        if some.is_empty() {
            return Ok(brought);
        }
        for (name, is_directory) in some {
            if is_directory {
                brought = bring_one_up(top, &directory, &name, brought)?;
            } else {
                unlinkat(&directory, &*name, AtFlags::empty())?;
            }
        }
    }
}

/// Brings one directory up, under the next name that is free.
fn bring_one_up(top: &OwnedFd, from: &OwnedFd, name: &CStr, before: u64) -> io::Result<u64> {
    for number in before.. {
        match renameat(from, name, top, format!(".storm-removes-{number}")) {
            // A file has it, or a directory with something in it.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            renamed => return Ok(renamed.map(|()| number + 1)?),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn open(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// Names in a directory, and whether they are directories'; none when there is nothing in it. They are told before they are
/// removed, as nothing certain is told of a directory that changes, and not all of them, as there may be millions.
fn some_entries(directory: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
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
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_deeper_than_there_is_stack_or_descriptors_goes() {
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
        // Some bytes of stack for each.
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let removed = small.spawn(move || remove_tree(&path).map(|()| path)).expect("started");
        let path = removed.join().expect("it does not panic").expect("removed");
        assert!(!path.exists());
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
