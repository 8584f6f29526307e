//! The scripts of `peers/`, compiled into this program so that it works from any directory.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Starts a Slurm cluster.
const SLURM_UP: (&str, &str) = ("slurm-up", include_str!("../../peers/slurm-up"));
/// Ends Slurm.
const SLURM_DOWN: (&str, &str) = ("slurm-down", include_str!("../../peers/slurm-down"));
/// A remote shell that stays on this host.
const HYDRA_RSH: (&str, &str) = ("hydra-rsh", include_str!("../../peers/hydra-rsh"));

/// Writes the scripts to `dir`, as programs.
pub(super) fn write_all(dir: &Path) -> Result<()> {
    for (name, content) in [SLURM_UP, SLURM_DOWN, HYDRA_RSH] {
        let path = dir.join(name);
        fs::write(&path, content)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `slurm-up` among the programs in `dir`.
pub(super) fn slurm_up(dir: &Path) -> PathBuf {
    dir.join(SLURM_UP.0)
}

/// `slurm-down` there.
pub(super) fn slurm_down(dir: &Path) -> PathBuf {
    dir.join(SLURM_DOWN.0)
}

/// `hydra-rsh` there.
pub(super) fn hydra_rsh(dir: &Path) -> PathBuf {
    dir.join(HYDRA_RSH.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The script is run by a shell. Executing the file that was just written can fail as busy,
    /// while a child of another test has it open.
    fn by_shell(script: &Path) -> Command {
        let mut command = Command::new("bash");
        command.arg(script);
        command
    }

    #[test]
    fn the_scripts_are_shell_and_refuse_to_start_without_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path()).unwrap();
        for script in [slurm_up(dir.path()), slurm_down(dir.path()), hydra_rsh(dir.path())] {
            let checked = Command::new("bash").arg("-n").arg(&script).status().unwrap();
            assert!(checked.success(), "{} is not shell", script.display());
        }
        for script in [slurm_up(dir.path()), slurm_down(dir.path())] {
            let refused = by_shell(&script).output().unwrap();
            assert_eq!(refused.status.code(), Some(2), "{}", script.display());
            assert!(String::from_utf8_lossy(&refused.stderr).starts_with("usage: "));
        }
    }

    #[test]
    fn the_remote_shell_runs_the_command_here() {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path()).unwrap();
        let output = by_shell(&hydra_rsh(dir.path()))
            .args(["-x", "n1", "echo", "here", "\"$((1 + 1))\""])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "here 2\n");
    }
}
