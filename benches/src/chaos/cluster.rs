//! The daemons, started as an administrator would start them, and restarted after they died.

use crate::cluster::program;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::all_processes;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A variable in the environment of every process of the cluster, jobs included.
const MARK: &str = "STORM_CHAOS";
/// The pause between two checks of something slow.
const PAUSE: Duration = Duration::from_millis(100);

/// One daemon: the Machine Manager, or the Node Manager of a node.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    arguments: Vec<String>,
    child: Option<Child>,
}

/// A Machine Manager and its Node Managers.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    name: String,
    /// The Machine Manager first.
    pub daemons: Vec<Daemon>,
}

impl Cluster {
    /// Starts a cluster of `nodes` nodes of `pes` processing elements, under gang scheduling with
    /// slices of 20 ms.
    ///
    /// # Errors
    /// A daemon cannot be started.
    pub fn start(nodes: u32, pes: u32) -> Result<Cluster> {
        let dir = tempfile::Builder::new().prefix("storm-chaos-").tempdir_in("/dev/shm")?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = dir.path().join("storm.toml");
        let name = format!("chaos-{}", std::process::id());
        let text = format!(
            "cluster = \"{name}\"\nlisten = \"{address}\"\nsocket = \"{socket}\"\nstate-dir = \"{state}\"\n\
             [[nodes]]\nnames = \"n[1-{nodes}]\"\npes = {pes}\n\
             [[partitions]]\nname = \"main\"\nsched = \"gang\"\nquantum = \"20ms\"\n",
            socket = dir.path().join("mm.sock").display(),
            state = dir.path().join("state").display(),
        );
        fs::write(&config, text)?;
        fs::create_dir(dir.path().join("records"))?;
        let config = config.display().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let daemon = |name: &str, arguments| Daemon { name: name.into(), arguments, child: None };
        let mut daemons = vec![daemon("mm", words(&["mm", "--config", &config]))];
        for node in 1..=nodes {
            let (node, work) = (format!("n{node}"), dir.path().join(format!("work-{node}")));
            let (address, pes) = (address.to_string(), pes.to_string());
            let work = work.display().to_string();
            let arguments = ["nm", "--mm", &address, "--name", &node, "--pes", &pes];
            let more = ["--config", &config, "--work-dir", &work];
            daemons.push(daemon(&node, words(&[&arguments[..], &more].concat())));
        }
        let mut cluster = Cluster { dir, name, daemons };
        cluster.revive()?;
        Ok(cluster)
    }

    /// The directory where jobs record their work.
    pub fn records(&self) -> PathBuf {
        self.dir.path().join("records")
    }

    /// The cluster's directory, which is removed with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command for this cluster, without a verb.
    ///
    /// # Errors
    /// There is no `storm` in this program's directory.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(program("storm")?);
        command.env("STORM_SOCKET", self.dir.path().join("mm.sock")).env(MARK, &self.name);
        command.stdin(Stdio::null()).env_remove("STORM_MANAGER");
        Ok(command)
    }

    /// The output of a verb.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn output(&self, words: &[&str]) -> Result<Output> {
        self.command()?.args(words).output().context("cannot start storm")
    }

    /// Starts each daemon that has ended.
    ///
    /// # Errors
    /// A daemon cannot be started.
    pub fn revive(&mut self) -> Result<()> {
        for place in 0..self.daemons.len() {
            self.revive_one(place)?;
        }
        Ok(())
    }

    /// Starts one daemon, if it has ended.
    ///
    /// # Errors
    /// The daemon cannot be started.
    pub fn revive_one(&mut self, place: usize) -> Result<()> {
        if self.daemons[place].pid().is_some() {
            return Ok(());
        }
        let path = self.dir.path().join(format!("{}.log", self.daemons[place].name));
        let log = fs::File::options().create(true).append(true).open(path)?;
        let mut command = self.command()?;
        command.args(&self.daemons[place].arguments).stdout(Stdio::null()).stderr(log);
        let name = &self.daemons[place].name;
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        self.daemons[place].child = Some(child);
        Ok(())
    }

    /// Ends the cluster, and returns what it left behind.
    ///
    /// # Errors
    /// The cluster does not end.
    pub fn down(&mut self, patience: Duration) -> Result<Vec<String>> {
        let ended = self.output(&[
            "down",
            "--socket",
            &self.dir.path().join("mm.sock").display().to_string(),
        ])?;
        ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim_end());
        let since = Instant::now();
        loop {
            let mut left: Vec<String> = Vec::new();
            for daemon in &mut self.daemons {
                left.extend(daemon.pid().map(|pid| format!("{} ({pid}) runs", daemon.name)));
            }
            left.extend(self.processes()?.into_iter().map(|pid| format!("process {pid}")));
            left.extend(self.control_groups().into_iter().map(|path| path.display().to_string()));
            left.extend(self.work()?);
            if left.is_empty() || since.elapsed() > patience {
                return Ok(left);
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// All processes that the cluster or one of its jobs has started.
    fn processes(&self) -> Result<Vec<i32>> {
        let own = |process: &procfs::process::Process| {
            let environment = process.environ().ok();
            let mark =
                environment.and_then(|all| all.get(OsStr::from_bytes(MARK.as_bytes())).cloned());
            mark.is_some_and(|mark| mark == *self.name)
        };
        let all = all_processes().context("cannot list the processes")?;
        Ok(all.flatten().filter(own).map(|process| process.pid).collect())
    }

    fn control_groups(&self) -> Vec<PathBuf> {
        let prefix = format!("storm-{}-", self.name);
        let of_prefix = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(fs::read_dir);
        let entries = roots.into_iter().flatten().flatten().flatten();
        entries.map(|entry| entry.path()).filter(of_prefix).collect()
    }

    /// Directories of jobs.
    fn work(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(self.dir.path())? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("work-")) {
                let inside = fs::read_dir(&path)?.flatten();
                left.extend(inside.map(|entry| entry.path().display().to_string()));
            }
        }
        Ok(left)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            daemon.signal(Signal::SIGKILL);
            // Reap the daemon. An error means that it is already gone.
            let _ = daemon.child.take().map(|mut child| child.wait());
        }
    }
}

impl Daemon {
    /// The manager's name for the daemon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The daemon's process, if it has not ended.
    pub fn pid(&mut self) -> Option<Pid> {
        let child = self.child.as_mut()?;
        match child.try_wait() {
            Ok(None) => i32::try_from(child.id()).ok().map(Pid::from_raw),
            Ok(Some(_)) | Err(_) => {
                self.child = None;
                None
            }
        }
    }

    /// The keeper of the Node Manager, if it has one.
    pub fn keeper(&mut self) -> Option<Pid> {
        let pid = self.pid()?;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
    }

    /// Sends it a signal. A daemon that has just ended is not an error.
    pub fn signal(&mut self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill(pid, signal);
        }
    }
}
