//! Slurm's commands for scripts: names of a program of this node, in a directory that is the first
//! of the script's `PATH`. By `srun` a script and the launchers of MPI reach the place's other
//! nodes, whether the host has such names or not.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The directory of the names, in the job's directory.
const DIRECTORY: &str = ".storm-bin";
/// The directories of a script without `PATH`, as of a shell.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The commands that scripts find.
#[derive(Clone, Debug)]
pub struct ScriptCommands {
    /// The program that acts by its name; users must be able to execute it.
    pub program: PathBuf,
    /// The names.
    pub names: Vec<&'static str>,
}

impl ScriptCommands {
    /// Makes the names in the directory of a job; blocking.
    pub(super) fn make(&self, directory: &Path) -> io::Result<()> {
        let directory = directory.join(DIRECTORY);
        std::fs::create_dir(&directory)?;
        self.names.iter().try_for_each(|name| symlink(&self.program, directory.join(name)))
    }
}

/// A script's `PATH` with the commands of its directory first. Those of another job go: a job that
/// a script submits has the script's `PATH`.
pub(super) fn path_of_script(directory: &Path, own: Option<&OsStr>) -> OsString {
    let own = own.map_or(DEFAULT_PATH, OsStr::as_bytes);
    let of_job = |path: &&[u8]| path.ends_with(DIRECTORY.as_bytes());
    let mut all = directory.join(DIRECTORY).into_os_string().into_vec();
    for path in own.split(|byte| *byte == b':').filter(|path| !of_job(path)) {
        all.push(b':');
        all.extend_from_slice(path);
    }
    OsString::from_vec(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_come_first_and_those_of_other_jobs_go() {
        let of = |own: Option<&str>| path_of_script("/j/7.1".as_ref(), own.map(OsStr::new));
        assert_eq!(of(Some("/bin::/x")), "/j/7.1/.storm-bin:/bin::/x");
        assert_eq!(of(Some("/j/6.1/.storm-bin:/bin")), "/j/7.1/.storm-bin:/bin");
        assert_eq!(of(None), "/j/7.1/.storm-bin:/usr/local/bin:/usr/bin:/bin");
    }

    #[test]
    fn each_name_is_a_link_to_the_program() {
        let directory = tempfile::tempdir().expect("a directory");
        let commands =
            ScriptCommands { program: "/bin/true".into(), names: vec!["srun", "sbatch"] };
        commands.make(directory.path()).expect("made");
        let link = std::fs::read_link(directory.path().join(DIRECTORY).join("srun"));
        assert_eq!(link.expect("a link"), Path::new("/bin/true"));
    }
}
