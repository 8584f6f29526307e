//! A cluster of daemons with a configuration file, on loopback addresses of this host. Each daemon
//! can be killed, stopped and started again.
//!
//! At the end of the cluster it checks that nothing is left: no process, no control group, no file
//! of a job.

use super::caller::Caller;
use super::{Scratch, stderr, stdout, told};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Most attempts to reach a manager that is starting.
const MAX_TRIES: usize = 10_000;

/// A cluster with a configuration file.
pub(crate) struct RealCluster {
    pub(crate) scratch: Scratch,
    port: u16,
    manager: Option<Child>,
    nodes: BTreeMap<u32, Child>,
}

impl RealCluster {
    /// A manager and idle nodes `n1` to `n<nodes>` of 2 processing elements each. `settings` are
    /// further lines of the configuration, before its tables.
    pub(crate) fn start(nodes: u32, settings: &str) -> RealCluster {
        RealCluster::without_nodes(nodes, settings).with_nodes(nodes)
    }

    /// As [`start`](Self::start), for an ordinary user, in a place for one.
    pub(crate) fn start_in(scratch: Scratch, nodes: u32) -> RealCluster {
        let mut cluster = RealCluster::without_manager_in(scratch, nodes, "");
        cluster.start_manager();
        cluster.with_nodes(nodes)
    }

    fn with_nodes(mut self, nodes: u32) -> RealCluster {
        for node in 1..=nodes {
            self.start_node(node);
        }
        self.caller().until_idle(nodes as usize);
        self
    }

    /// As [`start`](Self::start), before any node has joined.
    pub(crate) fn without_nodes(nodes: u32, settings: &str) -> RealCluster {
        let mut cluster = RealCluster::without_manager(nodes, settings);
        cluster.start_manager();
        cluster
    }

    /// The same without a manager.
    pub(crate) fn without_manager(nodes: u32, settings: &str) -> RealCluster {
        RealCluster::without_manager_in(Scratch::make(), nodes, settings)
    }

    fn without_manager_in(scratch: Scratch, nodes: u32, settings: &str) -> RealCluster {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let cluster = RealCluster { scratch, port, manager: None, nodes: BTreeMap::new() };
        cluster.configure(settings, &format!("[[nodes]]\nnames = \"n[1-{nodes}]\"\npes = 2\n"));
        cluster
    }

    /// Writes the next manager's configuration: lines before its tables, and the tables.
    pub(crate) fn configure(&self, settings: &str, tables: &str) {
        let (port, work) = (self.port, self.scratch.work().display().to_string());
        let config = format!(
            "cluster = \"{}\"\nlisten = \"127.0.0.1:{port}\"\nsocket = \"{work}/mm.sock\"\n\
             state-dir = \"{work}/state\"\n{settings}\n{tables}",
            self.scratch.cluster()
        );
        fs::write(self.scratch.work().join("storm.toml"), config).expect("written");
    }

    /// Ends the manager as an operator does, and starts another with a new configuration.
    pub(crate) fn restart_with(&mut self, settings: &str, tables: &str) {
        self.end_manager(Signal::SIGTERM);
        self.configure(settings, tables);
        self.start_manager();
    }

    /// Sends commands to this cluster.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller { scratch: &self.scratch, socket: self.scratch.work().join("mm.sock") }
    }

    /// The output of a command that must succeed.
    pub(crate) fn says(&self, words: &str) -> String {
        let done = self.caller().storm(words).output().expect("storm starts");
        assert!(done.status.success(), "storm {words}: {}", told(&done));
        stdout(&done)
    }

    /// The message of a command that must fail.
    pub(crate) fn refused(&self, words: &str) -> String {
        let done = self.caller().storm(words).output().expect("storm starts");
        assert!(!done.status.success(), "storm {words}: {}", told(&done));
        stderr(&done)
    }

    /// Starts the manager and waits until it answers.
    pub(crate) fn start_manager(&mut self) {
        self.start_manager_as("mm --config storm.toml");
    }

    /// Starts the manager with these words, and waits until it answers.
    pub(crate) fn start_manager_as(&mut self, words: &str) {
        self.start_manager_by(self.scratch.storm(words.split_whitespace()));
    }

    /// Starts the manager with this command, and waits until it answers.
    pub(crate) fn start_manager_by(&mut self, command: Command) {
        self.manager = Some(self.logged(command, "mm"));
        for _ in 0..MAX_TRIES {
            let mut asked = self.caller().storm("queue");
            if asked.output().expect("storm starts").status.success() {
                return;
            }
        }
        panic!("no manager: {}", self.log("mm"));
    }

    /// Ends the manager by a signal and waits until it has ended.
    pub(crate) fn end_manager(&mut self, signal: Signal) {
        let mut manager = self.manager.take().expect("a manager");
        signal_to(&manager, signal);
        manager.wait().expect("our child");
    }

    /// Waits until the manager has ended by itself.
    pub(crate) fn manager_has_ended(&mut self) -> ExitStatus {
        self.manager.take().expect("a manager").wait().expect("our child")
    }

    /// The address for nodes.
    pub(crate) fn manager_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The words that start the Node Manager of a node.
    pub(crate) fn node_words(&self, node: u32) -> String {
        format!("nm --mm {} --name n{node} --pes 2", self.manager_address())
    }

    /// Starts a Node Manager.
    pub(crate) fn start_node(&mut self, node: u32) {
        let dir = self.node_dir(node).display().to_string();
        let words = format!("{} --config storm.toml --work-dir {dir}", self.node_words(node));
        self.start_node_as(node, &words);
    }

    /// Starts the Node Manager of a node of this name and size, which `node` identifies in the
    /// test.
    pub(crate) fn start_node_called(&mut self, node: u32, name: &str, pes: u32) {
        let (dir, mm) = (self.node_dir(node).display().to_string(), self.manager_address());
        let words = format!("nm --mm {mm} --name {name} --pes {pes} --config storm.toml");
        self.start_node_as(node, &format!("{words} --work-dir {dir}"));
    }

    /// Starts a Node Manager with these words.
    pub(crate) fn start_node_as(&mut self, node: u32, words: &str) {
        let daemon = self.daemon(words, &format!("n{node}"));
        self.nodes.insert(node, daemon);
    }

    /// The directory of a node's jobs' files.
    pub(crate) fn node_dir(&self, node: u32) -> PathBuf {
        self.scratch.work().join(format!("n{node}"))
    }

    /// Sends a signal to a Node Manager.
    pub(crate) fn signal_node(&self, node: u32, signal: Signal) {
        signal_to(&self.nodes[&node], signal);
    }

    /// Kills a Node Manager.
    pub(crate) fn kill_node(&mut self, node: u32) {
        let mut daemon = self.nodes.remove(&node).expect("it was started");
        daemon.kill().expect("it lives");
        daemon.wait().expect("our child");
    }

    /// Ends a Node Manager by a signal, and waits until it has ended successfully.
    pub(crate) fn end_node(&mut self, node: u32, signal: Signal) {
        let mut daemon = self.nodes.remove(&node).expect("it was started");
        signal_to(&daemon, signal);
        let status = daemon.wait().expect("our child");
        assert!(status.success(), "{status}: {}", self.log(&format!("n{node}")));
    }

    /// The log of a daemon: `mm` or a node.
    pub(crate) fn log(&self, daemon: &str) -> String {
        fs::read_to_string(self.scratch.work().join(format!("{daemon}.log"))).unwrap_or_default()
    }

    /// Ends all daemons as an operator does. Fails if anything is left.
    pub(crate) fn end(mut self) {
        self.end_daemons();
        self.assert_nothing_left();
    }

    /// Waits until all daemons have ended by themselves. Fails if anything is left.
    pub(crate) fn has_ended(mut self) {
        for daemon in self.nodes.values_mut().chain(&mut self.manager) {
            let status = daemon.wait().expect("our child");
            assert!(status.success(), "{status}");
        }
        self.assert_nothing_left();
    }

    fn assert_nothing_left(&self) {
        self.scratch.assert_nothing_runs();
        assert_eq!(control_groups(&self.scratch.cluster()), Vec::<PathBuf>::new());
        // A directory that an earlier manager made stays, like any that existed before.
        let left = |node: &u32| {
            fs::read_dir(self.node_dir(*node)).is_ok_and(|mut files| files.next().is_some())
        };
        let left: Vec<u32> = (1..=MAX_NODES).filter(left).collect();
        let logs = left.iter().map(|node| self.log(&format!("n{node}"))).collect::<String>();
        assert_eq!(left, Vec::<u32>::new(), "files of nodes; {logs}");
    }

    fn end_daemons(&mut self) {
        // SIGTERM would leave the jobs to the next Node Managers.
        for (daemon, signal) in self
            .nodes
            .values()
            .map(|node| (node, Signal::SIGINT))
            .chain(self.manager.iter().map(|manager| (manager, Signal::SIGTERM)))
        {
            signal_to(daemon, signal);
            // A stopped daemon must continue before it can end.
            signal_to(daemon, Signal::SIGCONT);
        }
        for daemon in self.nodes.values_mut().chain(&mut self.manager) {
            let _ = daemon.wait();
        }
        self.nodes.clear();
        self.manager = None;
    }

    /// Replaces a text of the configuration, for the next manager.
    pub(crate) fn edit(&self, former: &str, next: &str) {
        let file = self.scratch.work().join("storm.toml");
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(text.contains(former), "{former:?} is not in {text}");
        fs::write(&file, text.replace(former, next)).expect("written");
    }

    fn daemon(&self, words: &str, log: &str) -> Child {
        self.logged(self.scratch.storm(words.split_whitespace()), log)
    }

    fn logged(&self, mut command: Command, log: &str) -> Child {
        let open = fs::OpenOptions::new().create(true).append(true).clone();
        let log = open.open(self.scratch.work().join(format!("{log}.log"))).expect("a log");
        command.stderr(log).stdout(Stdio::null()).spawn().expect("storm starts")
    }
}

/// More nodes than any test's cluster has.
const MAX_NODES: u32 = 16;

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.end_daemons();
    }
}

fn signal_to(daemon: &Child, signal: Signal) {
    // Fails if the daemon has ended.
    let _ = kill(Pid::from_raw(daemon.id().cast_signed()), signal);
}

/// The control groups of a cluster's nodes, wherever they are mounted.
pub(crate) fn control_groups(cluster: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && is_of(&entry.path(), cluster) {
                found.push(entry.path());
            } else if is_directory {
                directories.push(entry.path());
            }
        }
    }
    found
}

fn is_of(directory: &Path, cluster: &str) -> bool {
    directory.file_name().is_some_and(|name| name.to_string_lossy().contains(cluster))
}
