//! A real cluster of several hosts, each a network namespace of this machine. The Machine Manager
//! is in one, a Node Manager in each of the others, with frames of 1500 bytes between them. Root
//! and `ip` are needed.
//!
//! Dropping the value removes the namespaces.

use super::caller::Caller;
use super::daemons::Daemons;
use super::{STORM, Scratch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The address for users on other hosts.
pub(crate) const USERS_CONNECT: &str = "10.77.0.1:7118";

/// Hosts on a bridge; the first has the Machine Manager and is 10.77.0.1.
pub(crate) struct Hosts {
    id: String,
    hosts: usize,
    daemons: Daemons,
    socket: String,
}

impl Hosts {
    /// A cluster of hosts `n1` to `n<nodes>`, once all of them are idle. `None`, with a message, if
    /// it cannot be made.
    pub(crate) fn cluster(scratch: &Scratch, nodes: usize, pes: u32) -> Option<Hosts> {
        Hosts::cluster_with(scratch, nodes, pes, "")
    }

    /// As [`cluster`](Self::cluster), with further lines of the configuration, before its tables.
    pub(crate) fn cluster_with(
        scratch: &Scratch,
        nodes: usize,
        pes: u32,
        settings: &str,
    ) -> Option<Hosts> {
        if !nix::unistd::geteuid().is_root() || !quietly("netns list") {
            skipped("a cluster of several hosts", "it needs root and ip (iproute2)");
            return None;
        }
        let mut hosts = Hosts::make(nodes + 1, scratch);
        let work = scratch.work().display().to_string();
        let config = format!(
            "cluster = \"{}\"\nlisten = \"10.77.0.1:7117\"\nsocket = \"{}\"\nstate-dir = \"{work}/state\"\n\
             security = {{ key-file = \"{work}/cluster.key\" }}\n\
             clients = {{ listen = \"{USERS_CONNECT}\" }}\n{settings}\n\
             [[nodes]]\nnames = \"n[1-{nodes}]\"\npes = {pes}\n",
            scratch.cluster(),
            hosts.socket
        );
        fs::write(scratch.work().join("storm.toml"), config).expect("written");
        scratch.prints("key new cluster.key");
        hosts.start(scratch, 0, &format!("mm --config {work}/storm.toml"));
        for node in 1..=nodes {
            hosts.start_node(scratch, node, pes);
        }
        hosts.await_idle(scratch, nodes);
        Some(hosts)
    }

    fn start_node(&mut self, scratch: &Scratch, node: usize, pes: u32) {
        let work = scratch.work().display();
        let daemon = format!("nm --mm 10.77.0.1:7117 --name n{node} --pes {pes}");
        let files = format!("--work-dir {work}/n{node} --config {work}/storm.toml");
        // The path of a system-wide manager belongs to the machine that runs this test.
        self.start(scratch, node, &format!("{daemon} {files} --relay own"));
    }

    /// Ends the Node Manager of a host, which keeps its jobs, and starts the next one.
    pub(crate) fn restart_node(&mut self, scratch: &Scratch, node: usize, pes: u32) {
        self.daemons.end(&node.to_string(), Signal::SIGTERM);
        self.start_node(scratch, node, pes);
    }

    /// Ends the manager and starts the next one with an edited configuration.
    pub(crate) fn restart_manager(&mut self, scratch: &Scratch, former: &str, next: &str) {
        self.daemons.end("0", Signal::SIGTERM);
        let file = scratch.work().join("storm.toml");
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(text.contains(former), "{former:?} is not in {text}");
        fs::write(&file, text.replace(former, next)).expect("written");
        self.start(scratch, 0, &format!("mm --config {}", file.display()));
    }

    /// The options that select this cluster.
    pub(crate) fn at(&self) -> String {
        format!("--socket {}", self.socket)
    }

    /// The socket by which users of a node's host reach the manager.
    pub(crate) fn relay(scratch: &Scratch, node: usize) -> PathBuf {
        scratch.work().join(format!("n{node}/storm-nm-0-n{node}/mm.sock"))
    }

    /// Sends commands to this cluster.
    pub(crate) fn caller<'a>(&self, scratch: &'a Scratch) -> Caller<'a> {
        Caller { scratch, socket: self.socket.clone().into() }
    }

    /// Silently cuts off a host in both directions.
    pub(crate) fn cut_off(&self, host: usize) {
        ip(&format!("link set {} nomaster", self.port(host)));
    }

    /// Undoes [`cut_off`](Self::cut_off).
    pub(crate) fn reconnect(&self, host: usize) {
        ip(&format!("link set {} master {}", self.port(host), self.bridge()));
    }

    /// Sends a signal to the daemon of a host.
    pub(crate) fn signal(&self, host: usize, signal: Signal) {
        let pid = self.daemons.pid(&host.to_string());
        kill(Pid::from_raw(pid.cast_signed()), signal).expect("it lives");
    }

    /// The processes that the daemon of a host has started itself, its keeper among them.
    pub(crate) fn children(&self, host: usize) -> Vec<Pid> {
        let pid = self.daemons.pid(&host.to_string());
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it lives");
        children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid"))).collect()
    }

    /// Number of open files of the daemon of a host.
    pub(crate) fn open_files(&self, host: usize) -> usize {
        let pid = self.daemons.pid(&host.to_string());
        fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count()
    }

    /// Bytes that a host has sent so far.
    pub(crate) fn sent_bytes(&self, host: usize) -> u64 {
        // Bytes leaving the host arrive at its port on the bridge.
        let counter = format!("/sys/class/net/{}/statistics/rx_bytes", self.port(host));
        let text =
            fs::read_to_string(&counter).unwrap_or_else(|error| panic!("{counter}: {error}"));
        text.trim().parse().expect("a number")
    }

    fn make(count: usize, scratch: &Scratch) -> Hosts {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let socket = scratch.work().join("mm.sock").display().to_string();
        let hosts = Hosts { id, hosts: count, daemons: Daemons::default(), socket };
        let bridge = hosts.bridge();
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("link set {bridge} up"));
        for host in 0..count {
            let (name, port) = (hosts.name(host), hosts.port(host));
            ip(&format!("netns add {name}"));
            ip(&format!("link add {port} type veth peer name eth0 netns {name}"));
            ip(&format!("link set {port} mtu 1500 master {bridge} up"));
            ip(&format!("-n {name} addr add 10.77.0.{}/24 dev eth0", host + 1));
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {name} link set eth0 mtu 1500 up"));
        }
        hosts
    }

    fn bridge(&self) -> String {
        format!("sb{}", self.id)
    }

    fn port(&self, host: usize) -> String {
        format!("sv{}-{host}", self.id)
    }

    fn name(&self, host: usize) -> String {
        format!("storm-{}-{host}", self.id)
    }

    /// `storm` on a host; the first is 0. `ip netns exec` becomes `storm`.
    pub(crate) fn command(&self, scratch: &Scratch, host: usize, words: &str) -> Command {
        let mut command = self.on(scratch, host, STORM);
        command.args(words.split_whitespace());
        command
    }

    /// Another program on a host.
    pub(crate) fn on(&self, scratch: &Scratch, host: usize, program: &str) -> Command {
        let mut command = scratch.command("ip");
        command.args(["netns", "exec", &self.name(host), program]);
        command
    }

    /// Starts a daemon on a host.
    fn start(&mut self, scratch: &Scratch, host: usize, words: &str) {
        let command = self.command(scratch, host, words);
        self.daemons.start(scratch, &host.to_string(), command);
    }

    fn await_idle(&mut self, scratch: &Scratch, nodes: usize) {
        let socket = std::path::Path::new(&self.socket);
        self.daemons.wait_for(scratch, || socket.exists().then_some(()));
        scratch.wait_for(&format!("nodes {}", self.at()), |listed| {
            let idle = listed.to_string().matches("IDLE").count();
            (idle == nodes).then_some(())
        });
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Daemons first, as they hold the namespaces.
        drop(std::mem::take(&mut self.daemons));
        for host in 0..self.hosts {
            quietly(&format!("netns del {}", self.name(host)));
        }
        quietly(&format!("link del {}", self.bridge()));
    }
}

/// Prints that something was not tested, past the test harness's capture.
pub(crate) fn skipped(what: &str, why: &str) {
    let said = format!("\nSKIPPED: {what} was NOT tested: {why}\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
}

fn ip(words: &str) {
    assert!(quietly(words), "ip {words} failed");
}

fn quietly(words: &str) -> bool {
    let ip = Command::new("ip")
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ip.is_ok_and(|status| status.success())
}
