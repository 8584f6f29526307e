//! Finds the program that the user named.

use crate::failure::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure};
use nix::unistd::{AccessFlags, access, geteuid};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no program to execute.
#[derive(Debug, Error)]
pub(crate) enum ProgramError {
    #[error("{} does not exist", .0.display())]
    NoSuchFile(PathBuf),
    #[error("{} is a link to {}, which is not there", .0.display(), .1.display())]
    DanglingLink(PathBuf, PathBuf),
    #[error("{} was found neither in the current directory nor in PATH", .0.display())]
    NotInPath(PathBuf),
    #[error("{} is a directory", .0.display())]
    Directory(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
    #[error("{} is not executable by you", .0.display())]
    NotExecutableByUs(PathBuf),
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    #[error("the name of the program is empty")]
    Nameless,
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Failure {
        let (status, hint) = match &error {
            ProgramError::NoSuchFile(_) => (EXIT_NOT_FOUND, "is the path right?".to_owned()),
            ProgramError::DanglingLink(..) => (
                EXIT_NOT_FOUND,
                "make the link anew, or name the program itself (a relative link begins where the link is)"
                    .to_owned(),
            ),
            ProgramError::NotInPath(name) => (EXIT_NOT_FOUND, hint_of_name(name).to_owned()),
            ProgramError::Directory(path) => (
                EXIT_NOT_EXECUTABLE,
                format!("name a program inside of it, as {}", path.join("a.out").display()),
            ),
            ProgramError::NotExecutable(path) => {
                (EXIT_NOT_EXECUTABLE, format!("chmod +x {}", path.display()))
            }
            ProgramError::NotExecutableByUs(_) => (
                EXIT_NOT_EXECUTABLE,
                "it belongs to another user, or its file system is mounted noexec: ask its owner \
                 for permission, or run a copy elsewhere"
                    .to_owned(),
            ),
            ProgramError::Nameless => (
                EXIT_NOT_FOUND,
                "is a variable unset? `storm run -n 4 ./a.out` names a program".to_owned(),
            ),
            ProgramError::Empty(_) => {
                (EXIT_NOT_EXECUTABLE, "did the compiler or the copy finish?".to_owned())
            }
            ProgramError::NotAFile(_) | ProgramError::Unreadable { .. } => (
                EXIT_NOT_EXECUTABLE,
                "storm reads the program to copy it; --no-bcast runs the program of the nodes"
                    .to_owned(),
            ),
        };
        Failure::of("program", &error).hint(hint).exit(status)
    }
}

/// The hint when no program of this name was found.
fn hint_of_name(name: &Path) -> &'static str {
    const LAUNCHERS: [&str; 4] = ["srun", "mpirun", "mpiexec", "orterun"];
    let name = name.to_string_lossy();
    if LAUNCHERS.contains(&&*name) {
        "leave it out: `storm run -n 4 PROGRAM` starts four processes itself"
    } else if name.contains(char::is_whitespace) {
        "a command of several words goes without quotes; one for a shell goes behind --wrap"
    } else {
        "give its path, or --no-bcast and its path on the nodes"
    }
}

/// The program of this name. A name with a slash is a path; any other name is looked for in the
/// current directory and then in `PATH`, as by `srun`.
pub(crate) fn find_program(typed: &OsStr) -> Result<PathBuf, ProgramError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_program_in(typed, Path::new("."), &path)
}

fn find_program_in(typed: &OsStr, here: &Path, path: &OsStr) -> Result<PathBuf, ProgramError> {
    if typed.is_empty() {
        return Err(ProgramError::Nameless);
    }
    if typed.as_bytes().contains(&b'/') {
        let named = if here == Path::new(".") { typed.into() } else { here.join(typed) };
        return check(&named).map(|()| named);
    }
    let directories = std::iter::once(here.to_owned()).chain(std::env::split_paths(path));
    let mut first_problem = None;
    for directory in directories {
        let candidate = directory.join(typed);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            // Skips a directory of this name, and a directory of PATH that cannot be entered.
            Err(
                ProgramError::NoSuchFile(_)
                | ProgramError::DanglingLink(..)
                | ProgramError::Directory(_)
                | ProgramError::Unreadable { .. },
            ) => {}
            Err(error) => first_problem = first_problem.or(Some(error)),
        }
    }
    Err(first_problem.unwrap_or_else(|| ProgramError::NotInPath(typed.into())))
}

fn check(path: &Path) -> Result<(), ProgramError> {
    let path_buf = || path.to_owned();
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(match path.read_link() {
                Ok(target) => ProgramError::DanglingLink(path_buf(), target),
                Err(_) => ProgramError::NoSuchFile(path_buf()),
            });
        }
        Err(source) => return Err(ProgramError::Unreadable { path: path_buf(), source }),
    };
    if found.is_dir() {
        Err(ProgramError::Directory(path_buf()))
    } else if !found.is_file() {
        Err(ProgramError::NotAFile(path_buf()))
    } else if found.len() == 0 {
        Err(ProgramError::Empty(path_buf()))
    } else if access(path, AccessFlags::X_OK).is_err() {
        // The owner may add the missing bit. Root may too, and can execute a file if any user can.
        let us = geteuid();
        let lacks = if us.is_root() { 0o111 } else { 0o100 };
        let ours = us.is_root() || us.as_raw() == found.uid();
        Err(match ours && found.mode() & lacks == 0 {
            true => ProgramError::NotExecutable(path_buf()),
            false => ProgramError::NotExecutableByUs(path_buf()),
        })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_link_to_nothing_is_named_with_what_it_leads_to() {
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("gone", dir.path().join("link")).expect("made");
        let problem = |typed: &str| {
            let found = find_program_in(typed.as_ref(), dir.path(), "".as_ref());
            found.expect_err("nothing is there").to_string()
        };
        assert!(problem("./link").ends_with("link is a link to gone, which is not there"));
        assert!(problem("./none").ends_with("none does not exist"));
        assert!(problem("link").contains("neither in the current directory nor in PATH"));
    }

    #[test]
    fn a_directory_of_path_that_cannot_be_looked_into_has_no_programs() {
        let dir = tempfile::tempdir().expect("a directory");
        let endless = dir.path().join("endless");
        std::os::unix::fs::symlink(&endless, &endless).expect("linked");
        let found = find_program_in(OsStr::new("ls -l"), dir.path(), endless.as_os_str());
        let failure = Failure::from(found.expect_err("it is nowhere"));
        assert!(failure.message.contains("neither"), "{failure:?}");
        assert!(failure.hint.as_ref().is_some_and(|hint| hint.contains("--wrap")), "{failure:?}");
    }

    #[test]
    fn the_current_directory_comes_before_path() {
        let here = tempfile::tempdir().expect("a directory");
        let there = tempfile::tempdir().expect("a directory");
        let find =
            |name: &str| find_program_in(OsStr::new(name), here.path(), there.path().as_os_str());
        file(&there.path().join("both"), "#!", 0o755);
        assert_eq!(find("both").expect("in PATH"), there.path().join("both"));
        file(&here.path().join("both"), "#!", 0o755);
        assert_eq!(find("both").expect("here"), here.path().join("both"));
        assert!(matches!(find("neither"), Err(ProgramError::NotInPath(_))));
        fs::create_dir(here.path().join("dir")).expect("made");
        assert!(matches!(find("dir"), Err(ProgramError::NotInPath(_))));
        file(&there.path().join("only"), "#!", 0o755);
        assert!(matches!(find("./only"), Err(ProgramError::NoSuchFile(_))), "a path is a path");
    }

    #[test]
    fn each_mistake_has_its_message_and_status() {
        let here = tempfile::tempdir().expect("a directory");
        fs::create_dir(here.path().join("dir")).expect("made");
        file(&here.path().join("empty"), "", 0o755);
        file(&here.path().join("text"), "hello", 0o644);
        let said: Vec<String> = ["./dir", "./empty", "./text", "./text/x", "./none", "none"]
            .into_iter()
            .map(|name| {
                let error = find_program_in(OsStr::new(name), here.path(), OsStr::new(""))
                    .expect_err("nothing can be executed");
                let failure = Failure::from(error);
                let hint = failure.hint.unwrap_or_default();
                format!("{}: {} | {}", failure.exit, failure.message, hint)
                    .replace(&here.path().display().to_string(), "HERE")
            })
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
