//! A Slurm cluster on this host, between `slurm-up` and `slurm-down`.

use super::launching::LaunchPeer;
use super::script;
use crate::daemons::Resident;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The pause between two checks of the file of ended jobs. A check costs Slurm nothing.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The pause between two queries to its controller whether all nodes are idle.
const IDLE_PAUSE: Duration = Duration::from_millis(20);
/// The longest wait for progress of the cluster.
const PATIENCE: Duration = Duration::from_secs(300);

/// The daemons, which end with this value.
#[derive(Debug)]
pub struct Slurm {
    scripts: TempDir,
    dir: PathBuf,
    nodes: u32,
    version: String,
}

impl Slurm {
    /// Starts a controller and `nodes` node daemons of `cpus` each; gang-scheduled
    /// jobs take turns of `slice_s` seconds.
    ///
    /// # Errors
    /// Slurm or munge is not installed, this user is not root, or the cluster did
    /// not become idle.
    pub fn up(nodes: u32, cpus: u32, slice_s: u32) -> Result<Slurm> {
        let scripts = tempfile::Builder::new().prefix("storm-peer-").tempdir()?;
        script::write_all(scripts.path())?;
        let dir = scripts.path().join("slurm");
        fs::create_dir(&dir)?;
        let log = scripts.path().join("up.log");
        // The daemons outlive the command and would keep a pipe of this process open.
        let status = Command::new(script::slurm_up(scripts.path()))
            .arg(&dir)
            .args([nodes, cpus, slice_s].map(|number| number.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .status()
            .context("cannot start slurm-up")?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        ensure!(status.success(), "{}", said.trim().replace('\n', " / "));
        let mut slurm = Slurm { scripts, dir, nodes, version: String::new() };
        let version =
            slurm.command("sinfo").arg("--version").stdout(Stdio::piped()).output()?.stdout;
        String::from_utf8_lossy(&version).trim().clone_into(&mut slurm.version);
        Ok(slurm)
    }

    /// The version printed by `sinfo`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// One of Slurm's commands, for this cluster.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        // An allocation around this program would set variables for another cluster.
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name != "SLURM_CONF" && (name.starts_with("SLURM") || name.starts_with("SBATCH")) {
                command.env_remove(&variable);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// A directory that differs on each node.
    pub fn node_local(&self) -> PathBuf {
        self.dir.join("local")
    }

    /// The last line of the controller's log that contains `word`.
    pub fn log_line(&self, word: &str) -> Option<String> {
        let log = fs::read_to_string(self.dir.join("log/slurmctld.log")).ok()?;
        let line = log.lines().rfind(|line| line.contains(word))?;
        Some(line.split_once("] ").map_or(line, |(_, said)| said).to_owned())
    }

    /// The memory of the daemons of this name, on all nodes.
    ///
    /// # Errors
    /// A daemon has ended.
    pub fn daemons(&self, name: &str) -> Result<Vec<Resident>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.dir.join("pid"))? {
            let entry = entry?;
            let pid: i32 = fs::read_to_string(entry.path())?.trim().parse()?;
            if fs::read_to_string(format!("/proc/{pid}/comm"))?.trim() == name {
                found.push(Resident::of(pid)?);
            }
        }
        Ok(found)
    }

    /// The number of jobs that have ended well since the cluster started.
    ///
    /// # Errors
    /// A job ended otherwise.
    pub fn ended(&self) -> Result<usize> {
        let text = fs::read_to_string(self.dir.join("ended"))?;
        let mut ended = 0;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            ensure!(line.contains(" JobState=COMPLETED "), "a job of Slurm failed: {line}");
            ended += 1;
        }
        Ok(ended)
    }

    /// Waits until `jobs` have ended well since the cluster started.
    ///
    /// # Errors
    /// A job ended otherwise, or some did not end.
    pub fn wait_ended(&self, jobs: usize) -> Result<Instant> {
        let since = Instant::now();
        while self.ended()? < jobs {
            ensure!(since.elapsed() < PATIENCE, "Slurm ended {} of {jobs} jobs", self.ended()?);
            thread::park_timeout(LOOK_PAUSE);
        }
        Ok(Instant::now())
    }

    /// Waits until no node is busy cleaning up a job, which would delay the next one.
    ///
    /// # Errors
    /// A node stays busy.
    pub fn wait_idle(&self) -> Result<()> {
        let since = Instant::now();
        let idle = self.nodes.to_string();
        while since.elapsed() < PATIENCE {
            let mut sinfo = self.command("sinfo");
            sinfo.args(["--noheader", "--states=idle", "--format=%D"]).stdout(Stdio::piped());
            let said = sinfo.output().context("cannot start sinfo")?.stdout;
            if String::from_utf8_lossy(&said).trim() == idle {
                return Ok(());
            }
            thread::park_timeout(IDLE_PAUSE);
        }
        bail!("Slurm's nodes did not become idle")
    }

    fn srun(&self, nodes: u32, processes: u32) -> Command {
        let mut srun = self.command("srun");
        srun.arg(format!("--nodes={nodes}")).arg(format!("--ntasks={processes}"));
        srun.arg("--quiet");
        srun
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let ended = Command::new(script::slurm_down(self.scripts.path())).arg(&self.dir).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("Slurm may still be up: slurm-down {} ends it", self.dir.display());
        }
    }
}

impl LaunchPeer for Slurm {
    fn name(&self) -> String {
        self.version.clone()
    }

    fn first(&self, nodes: u32, processes: u32, program: &Path) -> Result<Duration> {
        self.wait_idle()?;
        let mut srun = self.srun(nodes, processes);
        srun.arg(format!("--bcast={}", self.node_local().join("program").display())).arg(program);
        timed(srun)
    }

    fn again(&self, nodes: u32, processes: u32) -> Result<Duration> {
        self.wait_idle()?;
        let mut srun = self.srun(nodes, processes);
        srun.arg(self.node_local().join("program"));
        timed(srun)
    }
}

/// Runs a command to its end. Fails if the command does.
pub(super) fn timed(mut command: Command) -> Result<Duration> {
    let since = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    let elapsed = since.elapsed();
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(elapsed)
}
