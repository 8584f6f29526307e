//! MPICH's Hydra, which only launches: it has no queue, no allocation and no copies. Its remote
//! shell stays on this host.

use super::launching::LaunchPeer;
use super::script;
use super::slurm::timed;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Hydra's own name for its command: `mpiexec` may be another MPI's.
const MPIEXEC: &str = "mpiexec.hydra";
/// The destination of the copies: the tmpfs of every Linux.
const TMPFS: &str = "/dev/shm";
/// Copies made at once: as many as two processors can use.
const COPIERS: u32 = 2;

/// Hydra, with a directory for each of its nodes.
#[derive(Debug)]
pub struct Hydra {
    scripts: TempDir,
    nodes_dir: TempDir,
    version: String,
}

impl Hydra {
    /// Finds Hydra.
    ///
    /// # Errors
    /// Hydra is not installed.
    pub fn find() -> Result<Hydra> {
        let output = Command::new(MPIEXEC).arg("--version").stdin(Stdio::null()).output();
        let output = output.context("no mpiexec.hydra: apt-get install mpich")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
        let version = format!("hydra {}", version.unwrap_or("of unknown version").trim());
        let scripts = tempfile::Builder::new().prefix("storm-peer-").tempdir()?;
        script::write_all(scripts.path())?;
        let nodes_dir = tempfile::Builder::new().prefix("storm-hydra-").tempdir_in(TMPFS)?;
        Ok(Hydra { scripts, nodes_dir, version })
    }

    /// The version string that Hydra prints.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Launches `processes` over `nodes` host names.
    pub fn mpiexec(&self, nodes: u32, processes: u32) -> Command {
        let hosts: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
        let mut command = Command::new(MPIEXEC);
        command.args(["-launcher", "rsh", "-launcher-exec"]);
        command.arg(script::hydra_rsh(self.scripts.path()));
        command.arg("-hosts").arg(hosts.join(",")).arg("-ppn");
        command.arg(processes.div_ceil(nodes).to_string()).arg("-n").arg(processes.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn copy_on(&self, node: u32) -> PathBuf {
        self.nodes_dir.path().join(node.to_string())
    }

    /// Copies a program to the directory of each node with `cp`.
    fn copy(&self, nodes: u32, program: &Path) -> Result<()> {
        let failure = Mutex::new(None);
        thread::scope(|scope| {
            for first in 0..COPIERS {
                let failure = &failure;
                scope.spawn(move || {
                    for node in (first..nodes).step_by(COPIERS as usize) {
                        let mut cp = Command::new("cp");
                        cp.arg("--").arg(program).arg(self.copy_on(node)).stdin(Stdio::null());
                        if let Err(error) = timed(cp) {
                            // A poisoned lock still has its value.
                            failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                        }
                    }
                });
            }
        });
        match failure.into_inner().unwrap_or_else(|error| error.into_inner()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl LaunchPeer for Hydra {
    fn name(&self) -> String {
        self.version.clone()
    }

    fn first(&self, nodes: u32, processes: u32, program: &Path) -> Result<Duration> {
        // Removes the copies of the launch before: a running program is never written to.
        for node in 0..nodes {
            let _ = fs::remove_file(self.copy_on(node));
        }
        let since = Instant::now();
        self.copy(nodes, program)?;
        self.again(nodes, processes)?;
        Ok(since.elapsed())
    }

    fn again(&self, nodes: u32, processes: u32) -> Result<Duration> {
        let program = self.copy_on(0);
        ensure!(program.is_file(), "nothing was copied to {}", program.display());
        let mut mpiexec = self.mpiexec(nodes, processes);
        // All nodes execute the same copy, because Hydra gives every node the same path.
        mpiexec.arg(program);
        timed(mpiexec)
    }
}
