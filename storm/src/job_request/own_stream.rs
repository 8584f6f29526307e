//! Names of a process's own streams, such as `/dev/stdout`. As a job's output they lead nowhere.

use crate::failure::{EXIT_USAGE, Failure};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The process's own descriptor that this name means; `None` for any other file. The terminal
/// counts as its standard output.
pub(super) fn descriptor(name: &OsStr) -> Option<u32> {
    let path = std::path::absolute(name).ok()?;
    let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    match path.to_str()? {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" | "/dev/tty" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let directories = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let below = directories.iter().find_map(|above| path.strip_prefix(above).ok())?;
    below.to_str()?.parse().ok()
}

/// The error for such a name: no process of the job has that stream.
pub(super) fn refusal(option: &str, name: &OsStr, follows: bool) -> Failure {
    let name = Path::new(name).display();
    let message = format!(
        "{option} {name}: this is a stream of each process itself, so nobody would get the output"
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
            assert_eq!(descriptor(OsStr::new(name)), number, "{name}");
        }
    }
}
