//! Where cgroup v2 is mounted and which of its directories this process is in.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::cgroup::CgroupUnusable;

/// The directory of this process's own cgroup.
pub(crate) fn own_directory() -> Result<PathBuf, CgroupUnusable> {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let (root, mount) = find_mount(&mounts).ok_or(CgroupUnusable::NotMounted)?;
    let membership = fs::read("/proc/self/cgroup").unwrap_or_default();
    let own = own_path(&membership).ok_or(CgroupUnusable::NotMounted)?;
    match own.strip_prefix(&root) {
        Ok(below) => Ok(mount.join(below)),
        Err(_) => Err(CgroupUnusable::OwnCgroupHidden { mount }),
    }
}

/// Root inside the file system and mount point of the first cgroup2 mount, be it the whole tree
/// (`/sys/fs/cgroup`) or the extra one of a hybrid set-up (`/sys/fs/cgroup/unified`).
fn find_mount(mountinfo: &[u8]) -> Option<(PathBuf, PathBuf)> {
    mountinfo.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let root = fields.nth(3)?;
        let mount = fields.next()?;
        // Optional fields end with a single dash; the type comes next. See proc_pid_mountinfo(5).
        fields.find(|&field| field == b"-")?;
        (fields.next()? == b"cgroup2").then(|| (unescape(root), unescape(mount)))
    })
}

/// The path on the line of hierarchy 0.
fn own_path(membership: &[u8]) -> Option<PathBuf> {
    membership
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))
        .map(|path| Path::new(&std::ffi::OsString::from_vec(path.to_vec())).to_owned())
}

/// Undoes the kernel's octal escapes of blank, tab, newline and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(value) => {
                out.push(value);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_mount_is_found() {
        let text = b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            38 31 0:35 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
        let found = find_mount(text);
        assert_eq!(found, Some(("/".into(), "/sys/fs/cgroup/unified".into())));
    }

    #[test]
    fn escapes_in_mount_points_are_undone() {
        let text = b"38 31 0:35 /a\\134b /mnt/with\\040blank rw - cgroup2 none rw\n";
        assert_eq!(find_mount(text), Some(("/a\\b".into(), "/mnt/with blank".into())));
    }

    #[test]
    fn only_the_line_of_hierarchy_zero_counts() {
        let text = b"8:pids:/other\n0::/user.slice/a\n";
        assert_eq!(own_path(text), Some("/user.slice/a".into()));
        assert_eq!(own_path(b"8:pids:/other\n"), None);
    }
}
