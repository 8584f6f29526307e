//! Finds the mount point of cgroup v2 and the directory of this process in it.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::cgroup::CgroupUnusable;

/// The directory of this process's own cgroup.
pub(crate) fn own_directory() -> Result<PathBuf, CgroupUnusable> {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let (root, mount) = find_mount(&mounts, is_v2).ok_or(CgroupUnusable::NotMounted)?;
    let membership = fs::read("/proc/self/cgroup").unwrap_or_default();
    let own = own_path(&membership, b"").ok_or(CgroupUnusable::NotMounted)?;
    match own.strip_prefix(&root) {
        Ok(below) => Ok(mount.join(below)),
        Err(_) => Err(CgroupUnusable::OwnCgroupHidden { mount }),
    }
}

/// The directory of this process in the memory hierarchy of cgroup v1, if there is one.
pub(crate) fn memory_v1_directory() -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let (root, mount) = find_mount(&mounts, is_memory_v1)?;
    let own = own_path(&fs::read("/proc/self/cgroup").ok()?, MEMORY)?;
    Some(mount.join(own.strip_prefix(&root).ok()?))
}

/// The controller's name.
const MEMORY: &[u8] = b"memory";

/// Whether a mount is of cgroup v2, be it the whole tree (`/sys/fs/cgroup`) or the extra one of a
/// hybrid set-up (`/sys/fs/cgroup/unified`).
fn is_v2(kind: &[u8], _options: &[u8]) -> bool {
    kind == b"cgroup2"
}

fn is_memory_v1(kind: &[u8], options: &[u8]) -> bool {
    kind == b"cgroup" && options.split(|&byte| byte == b',').any(|option| option == MEMORY)
}

/// Not with `procfs`: it rejects the whole list if one mount point is not UTF-8.
///
/// Finds the first mount with a type and options that are `wanted`. Returns its root inside the
/// file system and its mount point.
fn find_mount(
    mountinfo: &[u8],
    wanted: impl Fn(&[u8], &[u8]) -> bool,
) -> Option<(PathBuf, PathBuf)> {
    mountinfo.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let root = fields.nth(3)?;
        let mount = fields.next()?;
        // Optional fields end with a single dash; the type follows. See proc_pid_mountinfo(5).
        fields.find(|&field| field == b"-")?;
        let kind = fields.next()?;
        let options = fields.nth(1).unwrap_or_default();
        wanted(kind, options).then(|| (unescape(root), unescape(mount)))
    })
}

/// The path on the line of the hierarchy with this controller. The line of v2 has no controller.
fn own_path(membership: &[u8], controller: &[u8]) -> Option<PathBuf> {
    let path = membership.split(|&byte| byte == b'\n').find_map(|line| {
        // The path may contain colons.
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let controllers = fields.nth(1)?;
        let mut controllers = controllers.split(|&byte| byte == b',');
        controllers.any(|one| one == controller).then(|| fields.next())?
    })?;
    Some(Path::new(&std::ffi::OsString::from_vec(path.to_vec())).to_owned())
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
        let found = find_mount(text, is_v2);
        assert_eq!(found, Some(("/".into(), "/sys/fs/cgroup/unified".into())));
        assert_eq!(find_mount(text, is_memory_v1), None);
        let text = b"40 31 0:36 / /sys/fs/cgroup/memory rw,relatime - cgroup none rw,memory\n";
        let found = find_mount(text, is_memory_v1);
        assert_eq!(found, Some(("/".into(), "/sys/fs/cgroup/memory".into())));
    }

    #[test]
    fn escapes_in_mount_points_are_undone() {
        let text = b"38 31 0:35 /a\\134b /mnt/with\\040blank rw - cgroup2 none rw\n";
        assert_eq!(find_mount(text, is_v2), Some(("/a\\b".into(), "/mnt/with blank".into())));
    }

    #[test]
    fn only_the_line_of_hierarchy_zero_counts() {
        let text = b"8:pids:/other\n4:cpu,memory:/b:c\n0::/user.slice/a\n";
        assert_eq!(own_path(text, b""), Some("/user.slice/a".into()));
        assert_eq!(own_path(text, MEMORY), Some("/b:c".into()));
        assert_eq!(own_path(b"8:pids:/other\n", b""), None);
    }
}
