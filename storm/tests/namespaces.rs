//! A real cluster of five hosts, each a network namespace of this machine: the
//! Machine Manager in one, a Node Manager in each of the others, frames of 1500
//! bytes between them. The test makes the namespaces and removes them; it needs
//! root and `ip`, and says so where it has to be skipped.

mod scratch;

use scratch::{STORM, Scratch, sweep3d, told};
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

const NODES: usize = 4;

/// Hosts on one bridge; the first is 10.77.0.1.
struct Hosts {
    id: u32,
    daemons: Vec<Child>,
}

impl Hosts {
    fn make() -> Hosts {
        let hosts = Hosts { id: std::process::id(), daemons: Vec::new() };
        let bridge = hosts.bridge();
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("link set {bridge} up"));
        for host in 0..=NODES {
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

    /// Starts a daemon on a host; its log goes to a file.
    fn start(&mut self, scratch: &Scratch, host: usize, words: &str) {
        let log = fs::File::create(scratch.work().join(format!("{host}.log"))).expect("a log");
        let daemon = scratch
            .command("ip")
            .args(["netns", "exec", &self.name(host), STORM])
            .args(words.split_whitespace())
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .expect("ip starts");
        self.daemons.push(daemon);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // `ip netns exec` becomes the daemon, so these are the daemons' own numbers.
        for daemon in &mut self.daemons {
            let pid = nix::unistd::Pid::from_raw(daemon.id() as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = daemon.wait();
        }
        for host in 0..=NODES {
            quietly(&format!("netns del {}", self.name(host)));
        }
        quietly(&format!("link del {}", self.bridge()));
    }
}

fn ip(words: &str) {
    assert!(quietly(words), "ip {words} failed");
}

fn quietly(words: &str) -> bool {
    let ip = Command::new("ip").args(words.split_whitespace()).stderr(Stdio::null()).status();
    ip.is_ok_and(|status| status.success())
}

/// Whether namespaces can be made here; says loudly if not.
fn can_make_hosts() -> bool {
    let possible = nix::unistd::geteuid().is_root() && quietly("netns list");
    if !possible {
        // Past the test harness's capture: a skipped test must be seen.
        let _ = std::io::stderr().write_all(
            b"\nSKIPPED: the five-host cluster was NOT tested; it needs root and ip (iproute2)\n",
        );
    }
    possible
}

#[test]
fn five_hosts_run_the_main_job() {
    if !can_make_hosts() {
        return;
    }
    let scratch = Scratch::make();
    let work = scratch.work().display().to_string();
    let config = format!(
        "listen = \"10.77.0.1:7117\"\nsocket = \"{work}/mm.sock\"\nstate-dir = \"{work}/state\"\n\
         [[nodes]]\nnames = \"n[1-{NODES}]\"\npes = 2\n"
    );
    fs::write(scratch.work().join("storm.toml"), config).expect("written");
    let mut hosts = Hosts::make();
    hosts.start(&scratch, 0, &format!("mm --config {work}/storm.toml"));
    for node in 1..=NODES {
        let words =
            format!("nm --mm 10.77.0.1:7117 --name n{node} --pes 2 --work-dir {work}/n{node}");
        hosts.start(&scratch, node, &words);
    }
    let socket = scratch.work().join("mm.sock");
    while !socket.exists() {
        let alive = hosts.daemons[0].try_wait().expect("our child").is_none();
        assert!(alive, "{}", fs::read_to_string(scratch.work().join("0.log")).unwrap_or_default());
        std::thread::yield_now();
    }
    let at = format!("--socket {}", socket.display());
    scratch.wait_for(&format!("nodes {at}"), |nodes| {
        let idle = nodes.to_string().matches("IDLE").count();
        (idle == NODES).then_some(())
    });
    let sweep = sweep3d();
    let done = scratch.does(&format!("run {at} -n 8 {} --verify", sweep.display()));
    assert!(done.status.success(), "{}", told(&done));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("answer: OK"), "{said}");
    let places = scratch.prints(&format!("run {at} -n 4 -N 4 printenv STORM_NODE_ADDR"));
    let mut addresses: Vec<&str> = places.lines().collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5"]);
}
