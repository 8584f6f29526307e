//! A cluster from a configuration file, for settings that `storm up` does not offer: `storm mm` and
//! `storm nm` processes on loopback, as an administrator starts them.

use crate::cluster::program;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The number of questions to a starting cluster before it is given up, and the pause between two
/// questions: ten seconds in all.
const START_ATTEMPTS: u32 = 200;
const START_PAUSE: Duration = Duration::from_millis(50);

/// The daemons, which end with this value.
#[derive(Debug)]
pub struct ConfiguredCluster {
    dir: TempDir,
    /// The Machine Manager, then the Node Managers.
    daemons: Vec<Child>,
}

impl ConfiguredCluster {
    /// Starts `nodes` nodes of one processing element. `network` is the content of the
    /// configuration's section of this name.
    ///
    /// # Errors
    /// A daemon could not be started, or the cluster was not complete in time.
    pub fn start(nodes: u32, network: &str) -> Result<ConfiguredCluster> {
        // In memory, like the files of the jobs.
        let dir = tempfile::Builder::new().prefix("storm-bench-").tempdir_in("/dev/shm")?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = dir.path().join("storm.toml");
        let names = if nodes == 1 { "n1".to_owned() } else { format!("n[1-{nodes}]") };
        let text = format!(
            "listen = \"{address}\"\nsocket = \"{socket}\"\nstate-dir = \"{state}\"\n\
             [[nodes]]\nnames = \"{names}\"\npes = 1\n[network]\n{network}\n",
            socket = dir.path().join("mm.sock").display(),
            state = dir.path().join("state").display(),
        );
        fs::write(&config, text)?;
        let mut cluster = ConfiguredCluster { dir, daemons: Vec::new() };
        let mut mm = Command::new(program("storm")?);
        mm.args(["mm", "--config"]).arg(&config);
        let mm = cluster.spawn(mm, "mm")?;
        cluster.daemons.push(mm);
        for node in 1..=nodes {
            let mut nm = Command::new(program("storm")?);
            nm.args(["nm", "--once", "--mm", &address.to_string(), "--name"]);
            nm.arg(format!("n{node}")).args(["--pes", "1", "--config"]).arg(&config);
            nm.arg("--work-dir").arg(cluster.dir.path().join(format!("work-{node}")));
            let nm = cluster.spawn(nm, &format!("n{node}"))?;
            cluster.daemons.push(nm);
        }
        cluster.wait_until_complete(nodes)?;
        Ok(cluster)
    }

    /// The socket of its Machine Manager.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("mm.sock")
    }

    fn spawn(&self, mut command: Command, name: &str) -> Result<Child> {
        let log = fs::File::create(self.dir.path().join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().with_context(|| format!("cannot start {name}"))
    }

    /// A job on all nodes ends well only when all have joined.
    fn wait_until_complete(&self, nodes: u32) -> Result<()> {
        for _ in 0..START_ATTEMPTS {
            let mut probe = Command::new(program("storm")?);
            probe.args(["run", "--quiet", "--no-bcast", "--input", "none", "--socket"]);
            probe.arg(self.socket()).args(["-n", &nodes.to_string(), "/bin/true"]);
            probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if probe.status()?.success() {
                return Ok(());
            }
            thread::park_timeout(START_PAUSE);
        }
        let log = fs::read_to_string(self.dir.path().join("mm.log")).unwrap_or_default();
        ensure!(false, "the cluster was not complete in time: {}", log.trim_end());
        Ok(())
    }
}

impl Drop for ConfiguredCluster {
    fn drop(&mut self) {
        for daemon in &self.daemons {
            let pid = daemon.id().try_into().map(Pid::from_raw);
            // Gone already is as good.
            let _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}
