//! Names of a process's own streams, such as `/dev/stdout`. They are of no use as a job's output.

use crate::failure::{EXIT_USAGE, Failure};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::{fs, process};

/// The most links that are followed, as in Linux (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The process's own descriptor that this name means in the directory `above`; `None` for any other
/// file. The terminal counts as its standard output. Follows links on this host, where those of the
/// nodes are not known.
pub(super) fn descriptor(name: &OsStr, above: &Path) -> Option<u32> {
    let mut path = above.join(name);
    for _ in 0..LINKS_MAX {
        if let Some(number) = named(&path) {
            return Some(number);
        }
        // The directory may itself be a link, or be reached by `..`.
        let directory = path.parent()?.canonicalize().ok()?;
        let name = path.file_name()?;
        if let Some(number) = named(&directory.join(name)) {
            return Some(number);
        }
        path = directory.join(fs::read_link(directory.join(name)).ok()?);
    }
    None
}

/// The descriptor that this path means as it is written.
fn named(path: &Path) -> Option<u32> {
    let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    match path.to_str()? {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" | "/dev/tty" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let own = format!("/proc/{}/fd", process::id());
    let directories = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd", &own];
    let below = directories.iter().find_map(|above| path.strip_prefix(above).ok())?;
    below.to_str()?.parse().ok()
}

/// The error for such a name: no process of the job has that stream.
pub(super) fn refusal(option: &str, name: &OsStr, follows: bool) -> Failure {
    let name = Path::new(name).display();
    let message = format!(
        "{option} {name}: this is a stream of each process itself, so the output would be lost"
    );
    let hint = match follows {
        true => "leave the option out to have the output here, or name a file",
        false => "name a file; `storm run` brings the output here",
    };
    Failure::new("usage", message).hint(hint).exit(EXIT_USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_under_all_its_names() {
        for (name, number) in [
            ("/dev/stdout", Some(1)),
            ("//dev/./stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev/tty", Some(1)),
            ("/dev/fd/7", Some(7)),
            ("/proc/self/fd/2", Some(2)),
            ("/proc/thread-self/fd/1", Some(1)),
            ("/dev/null", None),
            ("/dev/fd", None),
            ("stdout", None),
            ("/dev/stdout.txt", None),
        ] {
            assert_eq!(descriptor(OsStr::new(name), Path::new("/tmp")), number, "{name}");
        }
    }

    /// Regression: a link to such a name was accepted.
    #[test]
    fn a_stream_is_found_behind_links() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = |name: &str| descriptor(OsStr::new(name), dir.path());
        let link = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, dir.path().join(name)).expect("linked");
        };
        link("out", "/dev/stdout");
        link("again", "out");
        link("err", "/proc/self/fd/2");
        link("dev", "/dev");
        link("null", "/dev/null");
        link("endless", "endless");
        link("gone", "nowhere");
        assert_eq!((found("out"), found("again"), found("./out")), (Some(1), Some(1), Some(1)));
        assert_eq!((found("err"), found("dev/stderr")), (Some(2), Some(2)));
        for other in ["null", "endless", "gone", "none", "dev/null", "."] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
