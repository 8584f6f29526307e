//! A local cluster that runs under the real `storm` command. It has its own runtime directory, so
//! it never meets another cluster of the same user.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A cluster between `storm up` and `storm down`.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    storm: PathBuf,
    socket: PathBuf,
    down: bool,
}

/// The parts of a launch time as printed by `storm show --json`, in milliseconds. The parts
/// overlap.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Breakdown {
    /// Reading the file on the manager's host.
    pub read_ms: f64,
    /// Multicasting it.
    pub send_ms: f64,
    /// The time after the last chunk was sent until every node had written it.
    pub write_ms: f64,
    /// The time from LAUNCH-JOB until every rank was executing.
    pub exec_ms: f64,
    /// Waiting for a slice edge.
    pub wait_for_slice_ms: f64,
    /// The time from the decision to start the job until every rank was executing.
    pub total_ms: f64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// A job that ended well.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The number.
    pub job: u64,
    /// The user's waiting time: the whole `storm run` command.
    pub wall: Duration,
}

/// A `storm run` that is under way.
#[derive(Debug)]
pub struct Running {
    child: Child,
    since: Instant,
}

#[derive(Deserialize)]
struct Up {
    socket: PathBuf,
}

#[derive(Deserialize)]
struct RunReport {
    job: u64,
    state: String,
    exit_code: i64,
}

#[derive(Deserialize)]
struct Shown {
    breakdown: Option<Breakdown>,
}

impl Cluster {
    /// Starts a cluster. `options` are additional ones of `storm up`, such as `--quantum 2ms`.
    ///
    /// # Errors
    /// There is no `storm` command in this program's directory, or it failed.
    pub fn up(nodes: u32, pes: u32, options: &[&str]) -> Result<Cluster> {
        let dir = tempfile::Builder::new().prefix("storm-bench-").tempdir()?;
        fs::create_dir(dir.path().join("switches"))?;
        let mut cluster =
            Cluster { dir, storm: program("storm")?, socket: PathBuf::new(), down: false };
        let mut command = cluster.command();
        command.args(["up", "--json", "--nodes"]).arg(nodes.to_string());
        command.arg("--pes").arg(pes.to_string()).args(options);
        // Written to a file: the daemons outlive the command and would keep a pipe open.
        let said = cluster.dir.path().join("up.json");
        command.stdout(File::create(&said)?);
        let status = command.status().context("cannot start storm")?;
        ensure!(status.success(), "storm up failed: {status}");
        let up: Up = serde_json::from_slice(&fs::read(said)?)?;
        cluster.socket = up.socket;
        Ok(cluster)
    }

    /// The runtime directory, which all processes of the cluster have in their environment.
    pub fn runtime_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The socket where its Machine Manager takes clients.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts a job on `procs` processes; `options` are options of `storm run`.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn start<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        argv: &[S],
    ) -> Result<Running> {
        let mut command = self.command();
        command.args(["run", "--json", "--input", "none", "-n"]).arg(procs.to_string());
        command.args(options).args(argv).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let since = Instant::now();
        Ok(Running { child: command.spawn().context("cannot start storm")?, since })
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    /// The command failed or the job did.
    pub fn run<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        argv: &[S],
    ) -> Result<Finished> {
        self.start(procs, options, argv)?.finish()
    }

    /// The parts of a job's launch time, if the cluster knows them.
    ///
    /// # Errors
    /// The command failed.
    pub fn breakdown(&self, job: u64) -> Result<Option<Breakdown>> {
        let output = self.command().args(["show", "--json"]).arg(job.to_string()).output()?;
        ensure!(output.status.success(), "storm show failed: {}", tail(&output));
        let shown: Shown = serde_json::from_slice(&output.stdout)?;
        Ok(shown.breakdown)
    }

    /// Ends the cluster. Returns the directory of its switch logs, which lasts as long as this
    /// value.
    ///
    /// # Errors
    /// `storm down` failed.
    pub fn down(&mut self) -> Result<PathBuf> {
        self.down = true;
        let output = self.command().args(["down", "--quiet"]).output()?;
        ensure!(output.status.success(), "storm down failed: {}", tail(&output));
        Ok(self.dir.path().join("switches"))
    }

    /// The `storm` command for this cluster, to which a verb is to be given.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.storm);
        command.env_remove("STORM_SOCKET").env("XDG_RUNTIME_DIR", self.dir.path());
        command.env("STORM_SWITCH_LOG", self.dir.path().join("switches"));
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.down
            && let Err(error) = self.down()
        {
            eprintln!("the cluster may still be up: {error:#}");
        }
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// The command failed or the job did.
    pub fn finish(self) -> Result<Finished> {
        let output = self.child.wait_with_output()?;
        let wall = self.since.elapsed();
        // Standard output belongs to the job. The report is on standard error.
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
        let report: RunReport = serde_json::from_str(last)
            .with_context(|| format!("storm run reported no end: {}", tail(&output)))?;
        ensure!(
            report.state == "COMPLETED" && report.exit_code == 0,
            "job {} ended {} with exit {}: {}",
            report.job,
            report.state,
            report.exit_code,
            tail(&output)
        );
        Ok(Finished { job: report.job, wall })
    }
}

/// The program `name` in this program's directory. If `STORM_BIN` names `storm`, the other programs
/// are in its directory.
///
/// # Errors
/// The program is not there.
pub fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?.with_file_name(name);
    if own.is_file() {
        return Ok(own);
    }
    let named = std::env::var_os("STORM_BIN").map(PathBuf::from);
    let other = named.map(|storm| storm.with_file_name(name)).filter(|path| path.is_file());
    other.with_context(|| {
        let dir = own.parent().unwrap_or(Path::new(".")).display();
        format!("no {name} in {dir}: cargo build --release --workspace, or set STORM_BIN")
    })
}

fn tail(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    format!("{} {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join(" / "))
}
